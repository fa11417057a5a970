// The hive as the page knows it: the newest snapshot, brought forward by events.

import { batch } from "solid-js";
import { createStore, produce, reconcile } from "solid-js/store";
import { get, query, url } from "../api/http";
import type { Event, HistoryPage, HiveState, Inbox, InboxItem, TurnInfo } from "../api/types";
import { inOrder, type Live, settled } from "./live";
import { isFailure } from "./standing";

/** A piece of a turn's strip: model time or a tool call. */
export interface Step {
  kind: "model" | "tool" | "failed" | "wait";
  at: number;
  until?: number;
  call?: string;
  tool?: string;
}

export interface RunningTurn extends TurnInfo {
  body?: string;
  strip: Step[];
}

interface PageState {
  snapshot?: HiveState;
  turns: Record<string, RunningTurn>;
  /** Newest first: the last ones, and older ones that failed and nothing was said after. */
  recent: InboxItem[];
  /** Whether they were read. */
  read: boolean;
}

/** Counts come from a new snapshot, at most this often. */
const SETTLE = 400;

export function createHive(live: Live) {
  const [state, set] = createStore<PageState>({ turns: {}, recent: [], read: false });
  const soon = settled(SETTLE, refresh);
  const asking = inOrder();
  /** Of older failures: whether their conversation went on. What goes on later is a recent item. */
  const wentOn = new Map<string, Promise<boolean>>();

  function takeIn(snapshot: HiveState): void {
    batch(() => {
      set("snapshot", reconcile(snapshot));
      const turns: Record<string, RunningTurn> = {};
      for (const turn of snapshot.turns) {
        const known = state.turns[turn.turn];
        turns[turn.turn] = { ...turn, strip: known?.strip ?? [] };
        if (known?.body !== undefined) turns[turn.turn]!.body = known.body;
      }
      set("turns", reconcile(turns));
    });
  }

  async function refresh(): Promise<void> {
    const isNewer = asking();
    try {
      const [snapshot, inbox] = await Promise.all([
        get<HiveState>("/state"),
        get<Inbox>("/inbox?limit=100"),
      ]);
      const older = inbox.after == null ? [] : await failures(inbox.after, snapshot);
      if (!isNewer()) return;
      takeIn(snapshot);
      set("recent", reconcile([...inbox.items, ...older], { key: "item_id" }));
      set("read", true);
    } catch {
      // The stream breaks as well and says so; the next snapshot mends this.
    }
  }

  /** What failed before these and needs somebody still. */
  async function failures(before: number, { agents }: HiveState): Promise<InboxItem[]> {
    const reading = ["failed", "dead"].map((state) =>
      get<Inbox>(`/inbox${query({ state, after: before, limit: 200 })}`),
    );
    const found = (await Promise.all(reading)).flatMap(({ items }) => items);
    const failed = found.filter((item) => isFailure(item, Date.now()));
    const isThere = ({ agent }: InboxItem) => agents.some(({ name }) => name === agent);
    const over = await Promise.all(failed.map((item) => isThere(item) && isOver(item)));
    return failed.filter((_, at) => !over[at]).sort((a, b) => b.ord - a.ord);
  }

  function isOver(item: InboxItem): Promise<boolean> {
    const known = wentOn.get(item.item_id);
    if (known) return known;
    const { agent, session_key } = item;
    const path = url`/agents/${agent}/history` + query({ session_key, limit: 1 });
    const at = item.finished_at ?? item.created_at;
    const answer = get<HistoryPage>(path)
      .then(({ messages }) => messages.some(({ timestamp }) => timestamp > at))
      // Its agent may be gone meanwhile.
      .catch(() => false);
    wentOn.set(item.item_id, answer);
    return answer;
  }

  function apply(event: Event): void {
    const id = event.turn ?? undefined;
    switch (event.type) {
      case "turn_start":
        if (!id) break;
        set("turns", id, {
          turn: id,
          agent: event.agent ?? "",
          session: event.session ?? "",
          session_key: event.session_key,
          state: "running",
          since: event.at,
          steps: 0,
          retry: null,
          body: event.body,
          strip: [{ kind: "model", at: event.at }],
        });
        soon();
        break;
      case "tool_start":
        step(id, { kind: "tool", at: event.at, call: event.call_id, tool: event.tool });
        break;
      case "tool_end":
        endStep(id, event.call_id, event.at, event.is_error);
        break;
      case "turn_waiting":
        if (id && state.turns[id]) {
          set("turns", id, { state: "waiting", waiting_for: event.reason });
          step(id, { kind: "wait", at: event.at });
        }
        soon();
        break;
      case "turn_end":
        if (id) set(produce((state) => void delete state.turns[id]));
        soon();
        break;
      case "delta":
      case "history_updated":
        break;
      default:
        soon();
    }
  }

  function step(id: string | undefined, next: Step): void {
    if (!id || !state.turns[id]) return;
    set("turns", id, "strip", (strip) => {
      const last = strip.at(-1);
      const closed = last?.kind === "model" && last.until === undefined;
      const before = closed ? [...strip.slice(0, -1), { ...last, until: next.at }] : strip;
      return [...before, next];
    });
  }

  function endStep(id: string | undefined, call: string, at: number, failed: boolean): void {
    if (!id || !state.turns[id]) return;
    set("turns", id, "strip", (strip) => {
      const ended = strip.map((one): Step =>
        one.call === call ? { ...one, until: at, kind: failed ? "failed" : "tool" } : one,
      );
      const open = ended.some((one) => one.until === undefined);
      const model: Step = { kind: "model", at };
      return open ? ended : [...ended, model];
    });
    // The next model call begins.
    const next = state.turns[id]?.strip.at(-1)?.kind === "model";
    if (next) set("turns", id, "steps", (steps) => steps + 1);
  }

  live.on({
    snapshot(snapshot) {
      takeIn(snapshot);
      if (state.read) soon();
      else void refresh();
    },
    event: apply,
  });

  const agents = () => state.snapshot?.agents ?? [];
  return {
    state,
    agents,
    names: () => agents().map((agent) => agent.name),
    turns: () => Object.values(state.turns).sort((a, b) => a.since - b.since),
    turnOf: (agent: string, session: string | undefined, key: string) =>
      Object.values(state.turns).find(
        (turn) =>
          turn.agent === agent && (session ? turn.session === session : turn.session_key === key),
      ),
    refresh,
  };
}

/** What a turn was given; of one that began before the page was opened, its newest message. */
export function messageOf(turn: RunningTurn, recent: InboxItem[]): string {
  const { agent, body, session_key } = turn;
  // What is queued behind it has not been tried yet.
  const isTaken = (item: InboxItem) => item.state !== "pending" || item.attempts > 0;
  const isIts = (item: InboxItem) => item.agent === agent && item.session_key === session_key;
  return body ?? recent.find((item) => isIts(item) && isTaken(item))?.preview ?? "";
}

export type HiveModel = ReturnType<typeof createHive>;
