// The time of a turn as bars. Widths are time; while the turn only waited its clock stood, so that
// is drawn in a fixed width at most.

import type { TimingRow, TurnTiming } from "../api/types";
import { money, plural, span } from "./format";
import { visible } from "./visible";

export interface Bar {
  row: TimingRow;
  /** Percent of the whole. */
  from: number;
  width: number;
  took: number;
  label: string;
  title: string;
  /** It goes on. */
  open: boolean;
}

export interface Waterfall {
  bars: Bar[];
  /** What the axis says, from left to right. */
  axis: string[];
  summary: string;
}

interface Piece {
  from: number;
  until: number;
}

/** Of all time in which something was done, so much stands for a time of waiting. */
const WAIT_SHARE = 0.07;
const TICKS = 5;

export function waterfall(timing: TurnTiming, now: number): Waterfall {
  const rows = timing.rows;
  const endOf = (row: TimingRow) => Math.max(row.from, row.until ?? now);
  const begin = Math.min(timing.started_at, ...rows.map((row) => row.from));
  const end = Math.max(timing.ended_at ?? begin, ...rows.map(endOf), begin + 1);
  const busy = union(
    rows
      .filter((row) => row.kind !== "wait")
      .map((row) => ({ from: row.from, until: endOf(row) })),
  );
  const active = busy.reduce((sum, piece) => sum + piece.until - piece.from, 0);
  const most = Math.max(active * WAIT_SHARE, 1);
  const scale = scaled(pieces(busy, begin, end), most);
  let model = 0;
  const bars = rows.map((row): Bar => {
    if (row.kind === "model") model += 1;
    const until = endOf(row);
    const [left, right] = [scale(row.from), scale(until)];
    const label = labelOf(row, model);
    const open = row.until == null;
    const took = until - row.from;
    return { row, from: left, width: right - left, took, label, title: titleOf(row, took), open };
  });
  const ticks = active > 0 ? TICKS : 0;
  const axis = Array.from({ length: ticks }, (_, at) => clockOf((active * at) / (TICKS - 1)));
  return { bars, axis, summary: summaryOf(timing, active, end - begin - active, now) };
}

/** Pieces in order, those that touch as one. */
function union(pieces: Piece[]): Piece[] {
  const sorted = [...pieces].sort((a, b) => a.from - b.from);
  const joined: Piece[] = [];
  for (const piece of sorted) {
    const last = joined.at(-1);
    if (last && piece.from <= last.until) last.until = Math.max(last.until, piece.until);
    else joined.push({ ...piece });
  }
  return joined;
}

/** The whole time, piece by piece; `idle` ones are between those that are busy. */
function pieces(busy: Piece[], begin: number, end: number): (Piece & { idle: boolean })[] {
  const all: (Piece & { idle: boolean })[] = [];
  let at = begin;
  for (const piece of busy) {
    if (piece.from > at) all.push({ from: at, until: piece.from, idle: true });
    all.push({ ...piece, idle: false });
    at = piece.until;
  }
  if (end > at) all.push({ from: at, until: end, idle: true });
  return all;
}

/** Where a time stands, in percent. */
function scaled(all: (Piece & { idle: boolean })[], most: number): (at: number) => number {
  const widthOf = (piece: Piece & { idle: boolean }) => {
    const long = piece.until - piece.from;
    return piece.idle ? Math.min(long, most) : long;
  };
  const whole = all.reduce((sum, piece) => sum + widthOf(piece), 0) || 1;
  return (at) => {
    let before = 0;
    for (const piece of all) {
      const long = piece.until - piece.from;
      if (at < piece.until) {
        const share = Math.max(0, at - piece.from) / (long || 1);
        return (100 * (before + share * widthOf(piece))) / whole;
      }
      before += widthOf(piece);
    }
    return 100;
  };
}

function labelOf(row: TimingRow, model: number): string {
  if (row.kind === "model") return `model call ${model}`;
  if (row.name === "queue") return "queue";
  const detail = row.approval ? "approval" : (row.detail ?? "");
  return visible(`${row.name} ${detail}`.trim());
}

function titleOf(row: TimingRow, took: number): string {
  const parts = [`${row.name}: ${span(took)}`];
  if (row.first != null) parts.push(`first word after ${span(row.first - row.from)}`);
  if (row.tries != null) parts.push(`${row.tries} tries`);
  if (row.usage) {
    const { input, cacheRead, cacheWrite, output, cost } = row.usage;
    parts.push(`${input + cacheRead + cacheWrite} tokens in, ${output} out, ${money(cost)}`);
  }
  if (row.detail) parts.push(row.detail);
  return visible(parts.join(", "));
}

/** `1:52`, and `0:07` where that is short; parts of a second for what is shorter. */
function clockOf(ms: number): string {
  if (ms > 0 && ms < 10_000) return span(ms);
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function summaryOf(timing: TurnTiming, active: number, idle: number, now: number): string {
  const over = timing.ended_at != null;
  const parts = [`${span(active)} active`];
  if (idle >= 1000) parts.push(`${span(idle)} waiting`);
  parts.push(plural(timing.model_calls, "model call"));
  if (timing.model_calls) parts.push(money(timing.cost));
  if (!over) parts.push(`${span(Math.max(0, now - timing.started_at))} so far`);
  return parts.join(", ");
}
