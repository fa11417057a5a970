import { expect, test } from "vitest";
import type { UsageInfo } from "../api/types";
import { first, group, spans, total } from "./sums";

const HOUR = 3_600_000;

function row(agent: string, at: number, cost: number | null, tokens = 100): UsageInfo {
  const [input, output, cache_read, cache_write] = [tokens - 60, 10, 40, 10];
  const used = { input, output, cache_read, cache_write, tokens };
  const priced = { cost, known_cost: cost ?? 0, unpriced_calls: cost === null ? 1 : 0 };
  return { at, agent, profile: "p", model: "m", calls: 1, turns: 1, ...used, ...priced };
}

test("sums keep what has no price apart and know the share of the cache", () => {
  const sum = total([row("a", 0, 0.5), row("a", 0, null)]);
  expect([sum.cost, sum.unpriced, sum.calls, sum.tokens]).toEqual([0.5, 1, 2, 200]);
  expect([sum.prompt, sum.cached, sum.output]).toEqual([180, 80, 20]);
});

test("who cost most comes first, then who used most", () => {
  const rows = [row("cheap", 0, 0, 500), row("dear", 0, 2), row("small", 0, 0), row("dear", 0, 1)];
  const names = group(rows, (one) => one.agent).map((one) => one.name);
  expect(names).toEqual(["dear", "cheap", "small"]);
});

test("an hour in which nothing happened is there as well", () => {
  const rows = [row("a", HOUR, 1), row("b", HOUR, 2), row("a", 3 * HOUR, 4)];
  const sums = spans(rows, 0, 4 * HOUR, HOUR);
  expect(sums.map((one) => one.cost)).toEqual([0, 3, 0, 4]);
});

test("what is too much for the list is one line", () => {
  const rows = [row("a", 0, 4), row("b", 0, 3), row("c", 0, 2), row("d", 0, 1)];
  const sums = group(rows, (one) => one.agent);
  expect(first(sums, 3).map((one) => [one.name, one.cost])).toEqual([
    ["a", 4],
    ["b", 3],
    ["2 others", 3],
  ]);
  expect(first(sums, 4)).toEqual(sums);
});
