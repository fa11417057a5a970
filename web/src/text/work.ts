// Work in the words of a person: what an item is called, how it stands, how long it took.

import type { ItemState, RetryInfo, WorkItem } from "../api/types";
import type { Column } from "../state/workShow";
import { clock, span, title } from "./format";
import { failureWords, pauseWords } from "./outcomes";
import { isBlank, visible } from "./visible";

/** Of those on the page. */
export type WorkMark = "queue" | "run" | "wait" | "done" | "fail" | "stop";

export const COLUMN_WORDS: Record<Column, [title: string, mark: WorkMark]> = {
  queued: ["Queued", "queue"],
  running: ["Running", "run"],
  waiting: ["Waiting", "wait"],
  done: ["Done", "done"],
  failed: ["Failed or cancelled", "fail"],
};

const MARKS: Record<ItemState, WorkMark> = {
  pending: "queue",
  running: "run",
  waiting: "wait",
  done: "done",
  failed: "fail",
  dead: "fail",
  cancelled: "stop",
};
const STATE_WORDS: Partial<Record<ItemState, string>> = { pending: "queued", dead: "failed" };

export const markOf = (state: ItemState) => MARKS[state];
export const stateWords = (state: ItemState) => STATE_WORDS[state] ?? state;

/** How an item stands whose turn is tried again later, whatever its state is meanwhile. */
export const RETRYING: [mark: WorkMark, words: string] = ["queue", "retrying"];
export function standingOfItem(state: ItemState, retries: boolean): [WorkMark, string] {
  return retries ? RETRYING : [markOf(state), stateWords(state)];
}
export const isOpen = (state: ItemState) =>
  state === "pending" || state === "running" || state === "waiting";

/** How work came to its agent, by the tool that gave it or the kind of the item. */
const HOW: Record<string, string> = {
  delegate: "delegate_task",
  query: "query_team",
  escalate: "escalate",
  hand_up: "enqueue_parent_task",
  question: "question",
  shape: "change",
  task: "task",
  message: "message",
  peer: "message of an agent",
  escalation: "escalate",
  bootstrap: "first item",
  reminder: "reminder",
  trigger: "trigger",
};
export const howWords = (kind: string) => HOW[kind] ?? kind;

/** The first words of it; of nothing that can be read, what it is. */
export function nameOfWork(item: { preview: string; kind: string }, longest = 80): string {
  return isBlank(item.preview) ? howWords(item.kind) : title(item.preview, longest);
}

/** Why it is not done, where there is a why; `retry` is the pause its turn is in. */
export function whyWords(item: WorkItem, retry?: RetryInfo, now = 0): string | undefined {
  if (retry) return pauseWords(retry, now);
  if (item.state === "waiting") return visible(`waiting for ${item.waiting_for ?? "something"}`);
  return item.error ? failureWords(item.error) : undefined;
}

/** Beside it: since when, how long, or when. */
export function whenWords(item: WorkItem, now: number): string {
  const { state, created_at, started_at, finished_at } = item;
  if (state === "pending") return span(Math.max(0, now - created_at));
  if (isOpen(state)) return span(Math.max(0, now - (started_at ?? created_at)));
  return clock(finished_at ?? created_at, now);
}

/** How long its turn took; nothing where it has not ended, or never began. */
export function tookWords(item: WorkItem): string | undefined {
  const { started_at, finished_at } = item;
  if (started_at == null || finished_at == null) return undefined;
  return span(finished_at - started_at);
}

/** An id that is told apart from its neighbours: they begin alike. */
export function shortId(id: string): string {
  return id.length > 14 ? `${id.slice(0, 6)}…${id.slice(-4)}` : id;
}
