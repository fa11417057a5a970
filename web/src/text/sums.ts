// Sums over what model calls used.

import type { UsageInfo } from "../api/types";
import { money } from "./format";

export const HOUR = 3600 * 1000;
export const DAY = 24 * HOUR;

const NONE = {
  calls: 0,
  turns: 0,
  tokens: 0,
  /** Tokens of prompts, cached ones included. */
  prompt: 0,
  cached: 0,
  output: 0,
  /** Dollars of the calls whose price is known. */
  cost: 0,
  unpriced: 0,
};
const KEYS = Object.keys(NONE) as (keyof typeof NONE)[];

export type Sum = typeof NONE & { name: string };

const empty = (name: string): Sum => ({ name, ...NONE });

function add(sum: Sum, row: UsageInfo): void {
  sum.calls += row.calls;
  sum.turns += row.turns;
  sum.tokens += row.tokens;
  sum.prompt += row.input + row.cache_read + row.cache_write;
  sum.cached += row.cache_read;
  sum.output += row.output;
  sum.cost += row.known_cost;
  sum.unpriced += row.unpriced_calls;
}

export function total(rows: UsageInfo[]): Sum {
  const sum = empty("");
  for (const row of rows) add(sum, row);
  return sum;
}

/** Unknown is not nothing. */
export function costOf(sum: Pick<Sum, "calls" | "cost" | "unpriced">): string {
  if (sum.unpriced === sum.calls && sum.calls > 0) return "price unknown";
  return sum.unpriced ? `${money(sum.cost)} and more` : money(sum.cost);
}

/** By a word of the row; the one that cost most first, then the one with most tokens. */
export function group(rows: UsageInfo[], by: (row: UsageInfo) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const row of rows) {
    const name = by(row);
    const sum = sums.get(name) ?? empty(name);
    add(sum, row);
    sums.set(name, sum);
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost || b.tokens - a.tokens);
}

/** One sum for every hour or day from `since` to `until`, also where nothing was used. */
export function spans(rows: UsageInfo[], since: number, until: number, width: number): Sum[] {
  const sums: Sum[] = [];
  for (let at = since; at < until; at += width) sums.push(empty(String(at)));
  for (const row of rows) {
    const sum = sums[Math.floor((row.at - since) / width)];
    if (sum) add(sum, row);
  }
  return sums;
}

/** The first few, and the rest as one. */
export function first(sums: Sum[], most: number): Sum[] {
  if (sums.length <= most) return sums;
  const rest = sums.slice(most - 1);
  const others = empty(`${rest.length} others`);
  for (const one of rest) for (const key of KEYS) others[key] += one[key];
  return [...sums.slice(0, most - 1), others];
}
