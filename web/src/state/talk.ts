// One conversation on the page: its messages and what is being said.

import { batch } from "solid-js";
import { createStore, produce, unwrap } from "solid-js/store";
import { get, query, said, url } from "../api/http";
import type { ContextInfo, Event, HistoryPage, Message, TurnOutcome } from "../api/types";
import { textOf } from "../text/calls";
import { fold, type Saying, withPage } from "./fold";
import type { Live } from "./live";

export interface Place {
  agent: string;
  /** The key whose present session is meant, unless `session` names one. */
  key: string;
  session?: string | undefined;
}

interface TalkState {
  messages: Message[];
  saying: Saying[];
  /** Turns that failed, were cancelled, ended without words or are about to be tried again. */
  outcomes: TurnOutcome[];
  session?: string;
  before?: number;
  context?: ContextInfo;
  loaded: boolean;
  loading: boolean;
  error?: string;
}

const FIRST_PAGE = 60;
const PAGE = 100;
/** The largest page there is. */
export const LARGEST = 500;

export function createTalk(place: Place, live: Live, arrived: (items: string[]) => void) {
  const [state, set] = createStore<TalkState>({
    messages: [],
    saying: [],
    outcomes: [],
    loaded: false,
    loading: false,
  });
  /** The turn that ended last: an older page may still call it active. */
  let over: string | undefined;
  /** Rows came before it was known whose they are: the page on its way may be without them. */
  let behind = false;

  function path(parts: Record<string, string | number | undefined>): string {
    const session = state.session ?? place.session;
    const which = session ? { session } : { session_key: place.key };
    return url`/agents/${place.agent}/history` + query({ ...which, view: "full", ...parts });
  }

  /** Reads the newest page anew; what is shown stays, what is being said unless it is void. */
  async function load(isVoid: Saying[] = []): Promise<void> {
    behind = false;
    // A turn may have gone on unseen. What is read says so; what comes meanwhile is newer.
    const passed = unwrap(state.outcomes).filter((one) => one.retry);
    set("loading", true);
    try {
      const limit = Math.min(LARGEST, Math.max(FIRST_PAGE, state.messages.length));
      const page = await get<HistoryPage>(path({ limit }));
      if (isPast(page)) return;
      batch(() => {
        if (page.session) set("session", page.session);
        if (page.context) set("context", page.context);
        merge(page, passed);
        const active = page.active?.turn === over ? undefined : page.active;
        const heard = unwrap(state.saying).filter((one) => !isVoid.includes(one));
        set("saying", withPage(heard, active, page.messages));
        set({ loaded: true });
        set(produce((talk) => void delete talk.error));
      });
    } catch (error) {
      set({ error: said(error), loaded: true });
    } finally {
      set("loading", false);
    }
    if (behind) return load();
  }

  async function older(limit = PAGE): Promise<void> {
    if (state.before === undefined || state.loading) return;
    set("loading", true);
    try {
      merge(await get<HistoryPage>(path({ limit, before: state.before })));
    } catch (error) {
      set("error", said(error));
    } finally {
      set("loading", false);
    }
  }

  /** The key leads to another session by now. */
  function isPast({ session }: HistoryPage): boolean {
    return session != null && state.session !== undefined && session !== state.session;
  }

  /** What has not changed is the same object: its row stays as it is, with what is open in it. */
  function merge(page: HistoryPage, passed: TurnOutcome[] = []): void {
    if (isPast(page)) return;
    const known = unwrap(state.messages);
    const seen = new Map(known.map((message) => [message.seq, message]));
    const oldest = known[0]?.seq;
    for (const message of page.messages) {
      if (!isSame(seen.get(message.seq), message)) seen.set(message.seq, message);
    }
    const messages = [...seen.values()].sort((a, b) => a.seq - b.seq);
    const first = page.messages[0]?.seq;
    batch(() => {
      set("messages", messages);
      setOutcomes(page, passed);
      if (first !== undefined && (oldest === undefined || first <= oldest)) {
        if (page.before == null) set(produce((talk) => void delete talk.before));
        else set("before", page.before);
      }
      arrived(page.messages.flatMap(({ origin }) => origin?.item ?? []));
    });
  }

  /**
   * Of a turn with rows on two pages, the one with its newest row holds. How a turn ended stays,
   * whatever an answer says that was asked for before.
   */
  function setOutcomes(page: HistoryPage, passed: TurnOutcome[]): void {
    const [first, last] = [page.messages[0]?.seq ?? 0, page.messages.at(-1)?.seq ?? 0];
    const all = unwrap(state.outcomes);
    const known = new Map(all.map((one) => [one.turn, one]));
    const fresh = page.turns.flatMap((one) => {
      const before = known.get(one.turn);
      const isOver = one.turn === over || (before && !before.retry);
      if (one.retry && isOver) return before ?? [];
      const isOlder = before && before.seq > one.seq && (one.retry || !before.retry);
      return before && (isOlder || isSame(before, one)) ? before : one;
    });
    const named = new Set(fresh.map((one) => one.turn));
    const isOutside = (one: TurnOutcome) => one.seq < first || one.seq > last;
    const stays = (one: TurnOutcome) =>
      !one.retry || (isOutside(one) && !passed.includes(one));
    const kept = all.filter((one) => !named.has(one.turn) && stays(one));
    set("outcomes", [...kept, ...fresh]);
  }

  /** Reads what became of a turn, with its last row: others may have come behind that. */
  async function ended(turn: string | undefined): Promise<void> {
    const own = state.messages.findLast((message) => message.turn === turn);
    const which = own ? { limit: PAGE, after: own.seq - 1 } : { limit: FIRST_PAGE };
    try {
      merge(await get<HistoryPage>(path(which)));
    } catch {
      // The stream breaks as well; reading starts anew when it is back.
    }
  }

  /** A turn goes on: what it waited for is over. */
  function goesOn(turn: string | null | undefined): void {
    if (!state.outcomes.some((one) => one.turn === turn && one.retry)) return;
    set("outcomes", (all) => all.filter((one) => one.turn !== turn));
  }

  function retries(event: Extract<Event, { type: "model_retry" }>): void {
    const { turn, at, scope, code, next_at, attempt = null } = event;
    if (!turn) return;
    const { try: number = null, of = null } = event;
    const retry = { scope, code, next_at, attempt, try: number, of };
    // Below all messages: those of its turn may still be on their way.
    const seq = Number.MAX_SAFE_INTEGER;
    const counts = { started_at: at, steps: 0, tools_run: 0 };
    const row: TurnOutcome = { turn, seq, state: "retrying", code, retry, ...counts };
    set("outcomes", (all) => [...all.filter((one) => one.turn !== turn), row]);
    // What came of the call so far is void.
    set("saying", (saying) => saying.filter((one) => one.stored !== undefined));
  }

  /** Rows up to `last` are new: they take the place of what was provisional. */
  async function update(last: number): Promise<void> {
    set("saying", (one) => one.stored === undefined, "stored", last);
    let known = state.messages.at(-1)?.seq ?? 0;
    // Another update may be on its way: what it reads stays until then.
    const isLeft = (one: Saying) => one.stored === undefined || one.stored > known;
    const read = () => set("saying", (saying) => saying.filter(isLeft));
    if (known >= last) read();
    try {
      // From what is known on: rows that come meanwhile push none of these out of the page.
      while (known < last) {
        const limit = Math.min(LARGEST, last - known);
        const page = await get<HistoryPage>(path({ limit, after: known }));
        batch(() => {
          if (page.context) set("context", page.context);
          merge(page);
          known = page.messages.at(-1)?.seq ?? last;
          read();
        });
      }
    } catch {
      // The stream breaks as well; reading starts anew when it is back.
    }
  }

  function mine(event: Event): boolean {
    if (event.agent !== place.agent) return false;
    if (state.session !== undefined) return event.session === state.session;
    return event.type === "turn_start" && event.session_key === place.key;
  }

  function apply(event: Event): void {
    if (event.type === "turn_start" && event.agent === place.agent && !place.session) {
      // `/new` and silence lead the key to another session.
      if (event.session_key === place.key && event.session !== state.session) {
        return startOver(event.session ?? undefined);
      }
    }
    if (state.session === undefined && event.type === "history_updated") {
      behind ||= event.agent === place.agent;
    }
    if (!mine(event)) return;
    switch (event.type) {
      case "delta": {
        const { saying, gap } = fold(state.saying, event);
        if (gap) void load();
        else set("saying", saying);
        goesOn(event.turn);
        break;
      }
      case "model_retry":
        retries(event);
        break;
      case "history_updated":
        void update(event.last);
        break;
      case "session_deleted":
        if (!place.session) startOver(undefined);
        break;
      case "turn_start":
        set("saying", []);
        break;
      case "turn_end":
        over = event.turn ?? undefined;
        // What is stored stays until it is read: the hive may be gone before.
        set("saying", (saying) => saying.filter((one) => one.stored !== undefined));
        goesOn(event.turn);
        if (event.code != null || isBlank(state.messages.at(-1))) void ended(over);
        break;
    }
  }

  function startOver(session: string | undefined): void {
    batch(() => {
      set({ messages: [], saying: [], outcomes: [] });
      set(produce((talk) => void (delete talk.before, delete talk.context, delete talk.session)));
      if (session) set("session", session);
    });
    void load();
  }

  live.on({
    snapshot: () => void load(unwrap(state.saying)),
    event: apply,
  });
  void load();

  return {
    place,
    state,
    older,
    /** Its message was sent again. */
    retried: (turn: string, item: string) =>
      set("outcomes", (one) => one.turn === turn, "retried_as", item),
  };
}

/** As the hive wrote them. */
function isSame(known: object | undefined, read: object): boolean {
  return known !== undefined && JSON.stringify(known) === JSON.stringify(read);
}

function isBlank(message: Message | undefined): boolean {
  return message?.role === "assistant" && textOf(message.content) === "";
}

export type Talk = ReturnType<typeof createTalk>;
