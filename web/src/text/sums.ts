// Sums over what model calls used.

import type { UsageInfo } from "../api/types";

export interface Sum {
  name: string;
  calls: number;
  turns: number;
  tokens: number;
  /** Tokens of prompts, cached ones included. */
  prompt: number;
  cached: number;
  output: number;
  /** Dollars of the calls whose price is known. */
  cost: number;
  unpriced: number;
}

export function empty(name: string): Sum {
  const none = { calls: 0, turns: 0, tokens: 0, prompt: 0, cached: 0, output: 0 };
  return { name, ...none, cost: 0, unpriced: 0 };
}

export function add(sum: Sum, row: UsageInfo): void {
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
  for (const one of rest) {
    for (const key of KEYS) others[key] += one[key];
  }
  return [...sums.slice(0, most - 1), others];
}

const KEYS = [
  "calls",
  "turns",
  "tokens",
  "prompt",
  "cached",
  "output",
  "cost",
  "unpriced",
] as const;
