// What an agent and each of its conversations is doing: the one rule behind the marks at the side,
// the header of a conversation, Home and the title of the window.

import type { AgentInfo, HiveState, InboxItem } from "../api/types";
import type { RunningTurn } from "./hive";

export type Standing = "running" | "waiting" | "queued" | "failed" | "idle";

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
  if (turn) return isWaiting(turn) ? "waiting" : "running";
  if (!current) return "idle";
  const items = known.recent.filter((item) => item.agent === agent && item.session_key === key);
  if (items.some((item) => item.state === "pending")) return "queued";
  return items[0] && isFailure(items[0], now) ? "failed" : "idle";
}

/** Whether nothing was sent after it is for who asks to know. */
export function isFailure(item: InboxItem, now: number): boolean {
  return (item.state === "failed" || item.state === "dead") && now - item.created_at <= DAY;
}

/** An agent runs when one of its turns does; it waits when all of them wait. */
export function agentStanding(known: Known, agent: AgentInfo): Standing {
  if (agent.status === "failed") return "failed";
  const turns = Object.values(known.turns).filter((turn) => turn.agent === agent.name);
  if (!turns.every(isWaiting)) return "running";
  if (turns.length) return "waiting";
  const isQueued = (item: InboxItem) => item.agent === agent.name && item.state === "pending";
  return known.recent.some(isQueued) ? "queued" : "idle";
}

export interface Counts {
  running: number;
  waiting: number;
  queued: number;
}

/** Turns that run, turns that wait, messages that no turn has taken. */
export function counts(turns: RunningTurn[], snapshot: HiveState): Counts {
  const waiting = turns.filter(isWaiting).length;
  return { running: turns.length - waiting, waiting, queued: snapshot.work?.queued ?? 0 };
}

/** For a person, for a time, or for another try; a pause inside a running turn is none. */
export function isWaiting(turn: RunningTurn): boolean {
  return turn.state === "waiting" || (turn.state === "ready" && turn.retry != null);
}
