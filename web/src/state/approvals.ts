// Approvals that wait, and the last decisions.

import { batch, createSignal } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { get, post, Refusal } from "../api/http";
import type { ApprovalInfo, ApprovalPage, Scope } from "../api/types";
import { inOrder, type Live, settled } from "./live";

export interface Choice {
  decision: "approve" | "deny";
  scope: Scope;
  patterns?: string[];
  note?: string;
}

interface State {
  /** Soonest expiry first. */
  open: ApprovalInfo[];
  /** Approved, and no call ran with it; newest first. */
  unused: ApprovalInfo[];
  /** Decided or expired, newest first. */
  past: ApprovalInfo[];
  loaded: boolean;
  /** Why they cannot be read. */
  refused?: string;
}

/** Several changes at once are one look. */
const SETTLE = 100;
/** So long after the list has changed, a click may be meant for what stood there before. */
const MOVED = 500;

export function createApprovals(live: Live) {
  const [state, set] = createStore<State>({ open: [], unused: [], past: [], loaded: false });
  const soon = settled(SETTLE, refresh);
  const asking = inOrder();
  const [moved, setMoved] = createSignal(false);
  let still: ReturnType<typeof setTimeout> | undefined;

  function move(): void {
    clearTimeout(still);
    setMoved(true);
    still = setTimeout(() => setMoved(false), MOVED);
  }

  async function refresh(): Promise<void> {
    if (state.refused !== undefined) return;
    const isNewer = asking();
    try {
      const [open, unused, decided, expired] = await Promise.all([
        read("open"),
        read("unused"),
        read("decided"),
        read("expired"),
      ]);
      if (!isNewer()) return;
      const idle = new Set(unused.map((one) => one.id));
      const used = decided.filter((one) => !idle.has(one.id));
      const past = [...used, ...expired].sort((a, b) => when(b) - when(a));
      // Read newest first: calls of one message are asked about in their order.
      open.reverse().sort((a, b) => a.expires_at - b.expires_at);
      // At once: one that was decided is in one of the lists at any time.
      batch(() => {
        if (ids(open) !== ids(state.open)) move();
        set("open", reconcile(open, { key: "id" }));
        set("unused", reconcile(unused, { key: "id" }));
        set("past", reconcile(past, { key: "id" }));
        set("loaded", true);
      });
    } catch (error) {
      if (error instanceof Refusal && !error.passing) set("refused", error.message);
      // Else the stream breaks as well and says so; the next snapshot mends this.
    }
  }

  live.on({
    snapshot: soon,
    event: (event) => {
      if (event.type === "approval_asked" || event.type === "approval_decided") soon();
      // Its call has run with it.
      if (event.type === "tool_end" && state.unused.length) soon();
    },
  });

  async function act(approval: ApprovalInfo, what: string, body: object): Promise<void> {
    try {
      await post(`/approvals/${approval.id}/${what}`, body);
    } finally {
      await refresh();
    }
  }

  return {
    state,
    /** Whether buttons of approvals have just changed their place. */
    moved,
    /** The hash says which exact call was read. */
    decide: (approval: ApprovalInfo, choice: Choice) =>
      act(approval, "decision", { ...choice, hash: approval.hash }),
    reopen: (approval: ApprovalInfo) => act(approval, "reopen", {}),
    find: (id: string) =>
      [...state.open, ...state.unused, ...state.past].find((one) => one.id === id),
    /** What somebody decided about a tool call, among the last decisions. */
    decidedOn: (turn: string, call: string) =>
      [...state.unused, ...state.past].find((one) => isAbout(one, turn, call) && one.decision),
    of: (agent: string, session: string | undefined) =>
      state.open.filter((one) => one.agent === agent && one.session === session),
  };
}

async function read(state: string): Promise<ApprovalInfo[]> {
  return (await get<ApprovalPage>(`/approvals?state=${state}`)).approvals;
}

function ids(approvals: ApprovalInfo[]): string {
  return approvals.map((one) => one.id).join();
}

/** When it was decided or expired. */
export function when(approval: ApprovalInfo): number {
  return approval.decision?.at ?? approval.expires_at;
}

/** Vendors give the ids of calls anew with each turn. */
export function isAbout(approval: ApprovalInfo, turn: string, call: string): boolean {
  return approval.turn === turn && approval.call === call;
}

export type Approvals = ReturnType<typeof createApprovals>;
