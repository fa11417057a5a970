// What waits for a person's yes or no, and what was decided lately.

import { createStore, reconcile } from "solid-js/store";
import { get, post, Refusal } from "../api/http";
import type { ApprovalInfo, ApprovalPage, Scope } from "../api/types";
import type { Live } from "./live";

export interface Choice {
  decision: "approve" | "deny";
  scope: Scope;
  pattern?: string;
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

export function createApprovals(live: Live) {
  const [state, set] = createStore<State>({ open: [], unused: [], past: [], loaded: false });
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function refresh(): Promise<void> {
    timer = undefined;
    if (state.refused !== undefined) return;
    try {
      const [open, unused, decided, expired] = await Promise.all([
        get<ApprovalPage>("/approvals?state=open"),
        get<ApprovalPage>("/approvals?state=unused"),
        get<ApprovalPage>("/approvals?state=decided"),
        get<ApprovalPage>("/approvals?state=expired"),
      ]);
      const waiting = open.approvals.sort((a, b) => a.expires_at - b.expires_at);
      const idle = new Set(unused.approvals.map((one) => one.id));
      const used = decided.approvals.filter((one) => !idle.has(one.id));
      const past = [...used, ...expired.approvals].sort((a, b) => when(b) - when(a));
      set("open", reconcile(waiting, { key: "id" }));
      set("unused", reconcile(unused.approvals, { key: "id" }));
      set("past", reconcile(past, { key: "id" }));
      set("loaded", true);
    } catch (error) {
      if (error instanceof Refusal && !error.passing) set("refused", error.message);
      // Else the stream breaks as well and says so; the next snapshot mends this.
    }
  }

  function soon(): void {
    timer ??= setTimeout(() => void refresh(), SETTLE);
  }

  live.on({
    snapshot: soon,
    event: (event) => {
      if (event.type === "approval_asked" || event.type === "approval_decided") soon();
    },
  });

  /** The hash says which exact call was read. */
  async function decide(approval: ApprovalInfo, choice: Choice): Promise<void> {
    try {
      await post(`/approvals/${approval.id}/decision`, { ...choice, hash: approval.hash });
    } finally {
      await refresh();
    }
  }

  async function reopen(approval: ApprovalInfo): Promise<void> {
    try {
      await post(`/approvals/${approval.id}/reopen`, {});
    } finally {
      await refresh();
    }
  }

  return {
    state,
    decide,
    reopen,
    find: (id: string) =>
      [...state.open, ...state.unused, ...state.past].find((one) => one.id === id),
    of: (agent: string, session: string | undefined) =>
      state.open.filter((one) => one.agent === agent && one.session === session),
  };
}

function when(approval: ApprovalInfo): number {
  return approval.decision?.at ?? approval.expires_at;
}

export type Approvals = ReturnType<typeof createApprovals>;
