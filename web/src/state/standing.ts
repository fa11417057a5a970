// What an agent and each of its conversations is doing: the one rule behind the marks at the side,
// the header of a conversation, Home and the title of the window.

import type { AgentInfo, HiveState, InboxItem, RetryInfo } from "../api/types";
import type { RunningTurn } from "./hive";

export type Standing = "running" | "waiting" | "retrying" | "queued" | "failed" | "idle";

export interface Known {
  turns: Record<string, RunningTurn>;
  /** Newest first. */
  recent: InboxItem[];
}

/** A conversation; messages under a key go to the current one only. */
export interface Which {
  agent: string;
  key: string;
  session?: string | undefined;
  current: boolean;
}

const DAY = 24 * 3600 * 1000;

export function standingOf(known: Known, which: Which, now = Date.now()): Standing {
  const { agent, key, session, current } = which;
  const turn = Object.values(known.turns).find(
    (turn) =>
      turn.agent === agent && (session ? turn.session === session : turn.session_key === key),
  );
  if (turn) return turnStanding(turn);
  if (!current) return "idle";
  const items = known.recent.filter((item) => item.agent === agent && item.session_key === key);
  if (items.some((item) => item.state === "pending")) return "queued";
  return items[0] && isFailure(items[0], now) ? "failed" : "idle";
}

/** Whether nothing was sent after it is for who asks to know. */
export function isFailure(item: InboxItem, now: number): boolean {
  return (item.state === "failed" || item.state === "dead") && now - item.created_at <= DAY;
}

/** An agent runs when one of its turns does, else it waits when one of them waits. */
export function agentStanding(known: Known, agent: AgentInfo): Standing {
  if (agent.status === "failed") return "failed";
  const turns = Object.values(known.turns).filter((turn) => turn.agent === agent.name);
  const standings = turns.map(turnStanding);
  const first = (["running", "waiting", "retrying"] as const).find((one) =>
    standings.includes(one),
  );
  if (first) return first;
  const isQueued = (item: InboxItem) => item.agent === agent.name && item.state === "pending";
  return known.recent.some(isQueued) ? "queued" : "idle";
}

export interface Counts {
  running: number;
  waiting: number;
  retrying: number;
  queued: number;
}

/** Turns that run, that wait, that are tried again later; messages that no turn has taken. */
export function counts(turns: RunningTurn[], snapshot: HiveState): Counts {
  const number = (one: Standing) => turns.filter((turn) => turnStanding(turn) === one).length;
  const [running, waiting, retrying] = [number("running"), number("waiting"), number("retrying")];
  return { running, waiting, retrying, queued: snapshot.work?.queued ?? 0 };
}

/** Between two tries nobody is needed; a pause inside a running turn is a part of that. */
export function turnStanding(turn: RunningTurn): "running" | "waiting" | "retrying" {
  if (turn.state === "running") return "running";
  if (turn.retry != null) return "retrying";
  return turn.state === "waiting" ? "waiting" : "running";
}

export const isRetrying = (turn: RunningTurn | undefined): boolean =>
  turn !== undefined && turnStanding(turn) === "retrying";

/** Why and when a turn is tried again: between two leases of it, or before a call of its model. */
export function retryOf(turn: RunningTurn | undefined, now: number): RetryInfo | undefined {
  const { retry } = turn ?? {};
  if (!turn || !retry) return undefined;
  return isRetrying(turn) || retry.next_at > now ? retry : undefined;
}
