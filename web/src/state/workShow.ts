// What the page Work shows: it stands in the address, so that a filter can be kept and sent.

import type { WorkItem } from "../api/types";

/** Columns of the board; each is a few states of items. */
export const COLUMNS = ["queued", "running", "waiting", "done", "failed"] as const;
export type Column = (typeof COLUMNS)[number];

export const STATES: Record<Column, string> = {
  queued: "pending",
  running: "running",
  waiting: "waiting",
  done: "done",
  failed: "failed,dead,cancelled",
};

/**
 * The items of a column of the board. Those that are tried again later stand among the queued ones,
 * whatever their state is meanwhile; what has ended stands by when it did.
 */
export function columnItems<T extends WorkItem>(
  lanes: Record<Column, T[]>,
  column: Column,
  retries: (item: T) => boolean,
): T[] {
  const items = lanes[column];
  if (column === "waiting") return items.filter((item) => !retries(item));
  if (column !== "queued") return items;
  const later = lanes.waiting.filter(retries);
  return later.length ? [...items, ...later].sort((a, b) => b.ord - a.ord) : items;
}

/** Newest end first: they are listed by when they were accepted. */
export function byEnd(items: WorkItem[]): WorkItem[] {
  const at = (item: WorkItem) => item.finished_at ?? item.created_at;
  return [...items].sort((a, b) => at(b) - at(a));
}

export const KINDS = ["message", "task", "peer", "reminder"] as const;
export type Kind = (typeof KINDS)[number];

export interface WorkShow {
  view?: "table" | undefined;
  column?: Column | undefined;
  kind?: Kind | undefined;
  agent?: string | undefined;
  /** A text that it holds. */
  text?: string | undefined;
  /** Sent by whoever looks. */
  mine?: true | undefined;
  today?: true | undefined;
}

/** From the parts of an address. */
export function workShow(given: (name: string) => string | undefined): WorkShow {
  return {
    view: given("view") === "table" ? "table" : undefined,
    column: COLUMNS.find((one) => one === given("state")),
    kind: KINDS.find((one) => one === given("kind")),
    agent: given("agent"),
    text: given("q"),
    mine: given("mine") ? true : undefined,
    today: given("today") ? true : undefined,
  };
}

/** The same as parts of an address. */
export function workParts(show: WorkShow): Record<string, string | undefined> {
  const { view, column, kind, agent, text, mine, today } = show;
  return {
    view,
    state: column,
    kind,
    agent,
    q: text,
    mine: mine && "1",
    today: today && "1",
  };
}

/** The same without what only says how it is shown. */
export function workFilter(show: WorkShow): Record<string, string | undefined> {
  const { kind, agent, text, mine } = show;
  return { kind, agent, q: text, mine: mine && "true" };
}

/** When the day began for whoever looks. */
export function midnight(now = Date.now()): number {
  return new Date(now).setHours(0, 0, 0, 0);
}
