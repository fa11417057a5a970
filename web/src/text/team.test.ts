import { expect, test } from "vitest";
import type { AgentDay, AgentInfo } from "../api/types";
import { doingWords, spendShare, spendWords } from "./team";

const day = (more: Partial<AgentDay>): AgentDay => ({
  calls: 3,
  tokens: 12_000,
  known_cost: 0,
  unpriced_calls: 0,
  ...more,
});

test("what a day has cost, and of how much", () => {
  const cases: [Partial<AgentDay>, string, number | undefined][] = [
    [{ known_cost: 2.31, cost_per_day: 6 }, "$2.31 of $6", 2.31 / 6],
    [{ known_cost: 7, cost_per_day: 6.5 }, "$7.00 of $6.50", 1],
    [{ tokens_per_day: 24_000 }, "12.0 k of 24.0 k tokens", 0.5],
    [{ known_cost: 0.4 }, "$0.40", undefined],
    [{ known_cost: 0.4, unpriced_calls: 1 }, "$0.40 and more", undefined],
    [{ unpriced_calls: 3 }, "12.0 k tokens", undefined],
    [{ calls: 0, tokens: 0 }, "$0.00", undefined],
  ];
  for (const [more, words, share] of cases) {
    expect([spendWords(day(more)), spendShare(day(more))]).toEqual([words, share]);
  }
});

test("what an agent does, in a few words", () => {
  const agent = { name: "a", description: "Keeps the books", status: "active" } as AgentInfo;
  const turn = { state: "running", since: 1000, body: "Double bookings\nand more" } as never;
  const idle = { agent, turn: undefined, approval: undefined, asks: false, now: 222_000 };
  expect(doingWords({ ...idle, standing: "idle" }).text).toBe("Keeps the books");
  const running = doingWords({ ...idle, standing: "running", turn });
  expect(running).toEqual({ text: "Double bookings · 3:41", need: false });
  expect(doingWords({ ...idle, standing: "paused" }).text).toBe("Paused");
  expect(doingWords({ ...idle, standing: "waiting", asks: true }).need).toBe(true);
  const retry = { scope: "turn", code: "unavailable", try: 2, of: 3, next_at: 223_000 };
  const again = { state: "waiting", since: 1000, retry } as never;
  const later = doingWords({ ...idle, standing: "retrying", turn: again }).text;
  expect(later).toBe("Provider error, next try in 1 s");
  const broken = { ...agent, error: "/home/x/.skep/teams/a/config.yaml:1:1: unknown key" };
  const failed = doingWords({ ...idle, agent: broken, standing: "failed" });
  expect(failed).toEqual({ text: "config.yaml:1:1: unknown key", need: false, bad: true });
});
