// The work of the hive as the page lists it: the newest of each column for the board, a list that
// grows as it is read for the table. Both are read again after events, a page at a time.

import { batch, createEffect, createMemo, createSignal, on } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { get, query, said } from "../api/http";
import type { Event, WorkCounts, WorkItem, WorkPage } from "../api/types";
import { inOrder, type Live, settled } from "./live";
import {
  byEnd,
  COLUMNS,
  type Column,
  midnight,
  STATES,
  type WorkShow,
  workFilter,
} from "./workShow";

/** Several events at once are one look. */
const SETTLE = 400;
/** Items of a column on the board; the others are in the table. */
export const SHOWN = 6;
/** Of what has ended more are read: the last to end may have been accepted long before. */
const ENDED = 50;
/** Items of the table that are read at once. */
const PAGE = 200;
/** Each of these changes what an item is or what became of it. */
const TELLING = new Set<Event["type"]>([
  "inbox_accepted",
  "inbox_ended",
  "turn_start",
  "turn_waiting",
  "turn_end",
]);
/** Of these, also how the time of a turn was spent and what a chain has come to. */
const DETAIL = new Set<Event["type"]>([
  ...TELLING,
  "tool_start",
  "tool_end",
  "history_updated",
  "approval_asked",
  "approval_decided",
  "question_asked",
  "question_ended",
]);

export interface Lane {
  items: WorkItem[];
  /** There are older ones. */
  more: boolean;
}

interface BoardState {
  lanes: Record<Column, Lane>;
  counts?: WorkCounts;
  read: boolean;
}

const none = (): Record<Column, Lane> => {
  const lanes = COLUMNS.map((column) => [column, { items: [], more: false }]);
  return Object.fromEntries(lanes) as Record<Column, Lane>;
};

function read(show: WorkShow, state: string | undefined, more: object): Promise<WorkPage> {
  return get<WorkPage>(`/work${query({ ...workFilter(show), state, ...more })}`);
}

/** Today's work is what was begun today, and what is open. */
function ofToday(show: WorkShow, items: WorkItem[]): WorkItem[] {
  const since = midnight();
  const fits = (item: WorkItem) => item.created_at >= since || item.finished_at == null;
  return show.today ? items.filter(fits) : items;
}

const hasEnded = (column: Column) => column === "done" || column === "failed";

/** The newest of each column. */
export function createBoard(live: Live, show: () => WorkShow) {
  const [state, set] = createStore<BoardState>({ lanes: none(), read: false });
  const [problem, setProblem] = createSignal<string>();
  const asking = inOrder();

  async function refresh(): Promise<void> {
    const isNewer = asking();
    const now = show();
    try {
      // What has ended is counted once for all columns.
      const since = midnight();
      const pages = await Promise.all(
        COLUMNS.map((column) => {
          const counts = column === "done" ? { since } : {};
          const limit = hasEnded(column) ? ENDED : SHOWN + 1;
          return read(now, STATES[column], { limit, ...counts });
        }),
      );
      if (!isNewer()) return;
      batch(() => {
        for (const [at, column] of COLUMNS.entries()) {
          const page = pages[at];
          if (!page) continue;
          const items = ofToday(now, page.items);
          // What is left out here is not of today, nor is anything older.
          const isWhole = items.length === page.items.length && items.length > 0;
          const more = items.length > SHOWN || (page.next != null && isWhole);
          set("lanes", column, "more", more);
          const shown = (hasEnded(column) ? byEnd(items) : items).slice(0, SHOWN);
          set("lanes", column, "items", reconcile(shown, { key: "item_id" }));
          if (page.counts) set("counts", reconcile(page.counts));
        }
        set("read", true);
        setProblem(undefined);
      });
    } catch (error) {
      setProblem(`Reading the work failed: ${said(error)}`);
    }
  }

  const soon = settled(SETTLE, refresh);
  const wanted = createMemo(() => JSON.stringify(workFilter(show())) + show().today);
  createEffect(on(wanted, () => void refresh()));
  live.on({
    snapshot: () => void refresh(),
    event: (event) => {
      if (TELLING.has(event.type)) soon();
    },
  });
  return { state, problem };
}

/** All of it, newest first, as far as somebody has looked. */
export function createTable(live: Live, show: () => WorkShow) {
  // Thousands of rows: nothing looks into one, so they are kept as they came.
  const [rows, setRows] = createSignal<WorkItem[]>([]);
  const [next, setNext] = createSignal<number>();
  const [seen, setSeen] = createSignal(false);
  /** Of the last items that were looked at none fits: one asks before more are looked at. */
  const [dry, setDry] = createSignal(false);
  const [problem, setProblem] = createSignal<string>();
  const asking = inOrder();
  /** The first and the last row in view. */
  let view: [number, number] = [0, 0];
  let loading = false;

  const state = () => {
    const { column } = show();
    return column && STATES[column];
  };

  /** A page of rows in place of those it covers; a row that has not changed stays the same one. */
  function take(page: WorkPage, below: number, now: WorkShow): void {
    const items = ofToday(now, page.items);
    const end = page.next ?? Number.NEGATIVE_INFINITY;
    const known = new Map(rows().map((row) => [row.item_id, row]));
    const fresh = items.map((item) => {
      const old = known.get(item.item_id);
      return old && JSON.stringify(old) === JSON.stringify(item) ? old : item;
    });
    const newer = rows().filter((row) => row.ord >= below);
    const older = rows().filter((row) => row.ord < end);
    setRows([...newer, ...fresh, ...older]);
    // Behind what is known nothing is.
    if (older.length === 0) setNext(ends(now, page) ? undefined : (page.next ?? undefined));
    setDry(items.length === 0);
    setSeen(true);
    setProblem(undefined);
  }

  const ends = (now: WorkShow, page: WorkPage) => {
    const last = page.items.at(-1);
    return Boolean(now.today && last && last.created_at < midnight());
  };

  const filter = () => JSON.stringify([workFilter(show()), state(), show().today]);

  async function load(after: number | undefined, limit: number): Promise<void> {
    const isNewer = asking();
    const [now, which] = [show(), filter()];
    try {
      const page = await read(now, state(), { after, limit });
      if (isNewer() && which === filter()) take(page, after ?? Number.POSITIVE_INFINITY, now);
    } catch (error) {
      setProblem(`Reading the work failed: ${said(error)}`);
    }
  }

  async function refresh(): Promise<void> {
    await load(undefined, PAGE);
    const [first, last] = view;
    const top = rows()[first];
    // What somebody looks at, where that is not among the newest.
    if (first > PAGE / 2 && top) await load(top.ord + 1, Math.min(500, last - first + 20));
  }

  /** The rows behind the last one. */
  async function more(): Promise<void> {
    const after = next();
    if (after === undefined || loading) return;
    loading = true;
    await load(after, PAGE);
    loading = false;
    // A newer answer came before this one, which was not taken for that: nothing else asks again.
    if (next() === after && problem() === undefined) void more();
  }

  const soon = settled(SETTLE, refresh);
  const begin = () => {
    setRows([]);
    setNext(undefined);
    setSeen(false);
    void load(undefined, PAGE);
  };
  createEffect(on(createMemo(filter), begin));
  live.on({
    snapshot: soon,
    event: (event) => {
      if (TELLING.has(event.type)) soon();
    },
  });
  const look = (first: number, last: number) => void (view = [first, last]);
  return { rows, next, seen, dry, problem, more, look };
}

/** Counts up some time after something happened that the details of an item may show. */
export function createStale(live: Live, concerns: (event: Event) => boolean): () => number {
  const [version, set] = createSignal(0);
  const soon = settled(SETTLE, async () => void set((now) => now + 1));
  live.on({
    snapshot: soon,
    event: (event) => {
      if (DETAIL.has(event.type) && concerns(event)) soon();
    },
  });
  return version;
}
