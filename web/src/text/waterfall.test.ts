import { expect, test } from "vitest";
import type { TimingRow, TurnTiming } from "../api/types";
import { waterfall } from "./waterfall";

const MINUTE = 60_000;

function timing(rows: Partial<TimingRow>[], more: Partial<TurnTiming> = {}): TurnTiming {
  const full = rows.map((row) => ({ kind: "model", name: "m", from: 0, ...row }) as TimingRow);
  return {
    turn: "t",
    agent: "main",
    session: "s",
    session_key: "main",
    state: "ended",
    started_at: 0,
    ended_at: 100_000,
    active_ms: 100_000,
    model_calls: 1,
    cost: 0.21,
    rows: full,
    cut: false,
    ...more,
  };
}

test("widths are time", () => {
  const shown = waterfall(
    timing([
      { from: 0, until: 40_000 },
      { kind: "tool", name: "bash", detail: "cargo test", from: 40_000, until: 100_000 },
    ]),
    0,
  );
  expect(shown.bars.map(({ from, width, label }) => [from, width, label])).toEqual([
    [0, 40, "model call 1"],
    [40, 60, "bash cargo test"],
  ]);
  expect(shown.axis).toEqual(["0:00", "0:25", "0:50", "1:15", "1:40"]);
  expect(shown.summary).toBe("1:40 active, 1 model call, $0.21");
});

test("a wait has a fixed width, and its length in words", () => {
  const rows: Partial<TimingRow>[] = [
    { from: 0, until: 100_000 },
    { kind: "wait", name: "bash", approval: "a", from: 100_000, until: 100_000 + 22 * MINUTE },
    { kind: "tool", name: "bash", from: 100_000 + 22 * MINUTE, until: 200_000 + 22 * MINUTE },
  ];
  const ended_at = 200_000 + 22 * MINUTE;
  const shown = waterfall(timing(rows, { ended_at }), 0);
  const [model, wait, tool] = shown.bars;
  expect(wait!.width).toBeLessThan(8);
  expect(wait!.width).toBeGreaterThan(5);
  expect(wait!.took).toBe(22 * MINUTE);
  expect(wait!.label).toBe("bash approval");
  expect(model!.width).toBeCloseTo(tool!.width, 5);
  expect(shown.summary).toBe("3:20 active, 22:00 waiting, 1 model call, $0.21");
});

test("what goes on ends now", () => {
  const running = { ended_at: null, state: "running", cost: null, model_calls: 0 };
  const shown = waterfall(timing([{ from: 500 }], running), 5000);
  expect(shown.bars[0]).toMatchObject({ open: true, took: 4500 });
  expect(shown.summary).toBe("4.5 s active, 0 model calls, 5.0 s so far");
});

test("a turn without a row is drawn", () => {
  const shown = waterfall(timing([], { ended_at: 0, model_calls: 0 }), 0);
  expect(shown.bars).toEqual([]);
});

test("a model call says how it was made", () => {
  const usage = { input: 5, output: 2, cacheRead: 10, cacheWrite: 0, totalTokens: 17, cost: 0.5 };
  const row = { from: 0, first: 1500, until: 9000, tries: 3, usage, detail: "default" };
  const [bar] = waterfall(timing([row]), 0).bars;
  expect(bar!.title).toBe(
    "m: 9.0 s, first word after 1.5 s, 3 tries, 15 tokens in, 2 out, $0.50, default",
  );
});
