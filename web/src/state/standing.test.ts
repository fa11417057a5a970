import { expect, test } from "vitest";
import type { AgentInfo, HiveState, InboxItem } from "../api/types";
import type { RunningTurn } from "./hive";
import { agentStanding, counts, retryOf, standingOf } from "./standing";

const now = 1_800_000_000_000;

const turn = (key: string, session: string, state: string) =>
  ({ turn: session, agent: "main", session, session_key: key, state }) as RunningTurn;
const item = (key: string, state: string, age = 0) =>
  ({ agent: "main", session_key: key, state, created_at: now - age }) as InboxItem;
const turns = (...all: RunningTurn[]) => Object.fromEntries(all.map((one) => [one.turn, one]));
const main = { name: "main", status: "active" } as AgentInfo;

/** Main with one conversation of each kind; `b1` is an older one of the key `b`. */
const known = {
  turns: turns(turn("a", "a1", "running"), turn("b", "b2", "waiting")),
  recent: [
    item("c", "pending"),
    item("d", "failed"),
    item("e", "done"),
    item("e", "failed"),
    item("f", "dead", 25 * 3600 * 1000),
    item("b", "failed"),
  ],
};

test.each([
  ["a", "a1", true, "running"],
  ["a", undefined, true, "running"],
  ["b", "b2", true, "waiting"],
  ["b", "b1", false, "idle"],
  ["c", "c1", true, "queued"],
  ["c", "c0", false, "idle"],
  ["d", "d1", true, "failed"],
  ["e", "e1", true, "idle"],
  ["f", "f1", true, "idle"],
])("conversation %s %s, current %s: %s", (key, session, current, standing) => {
  expect(standingOf(known, { agent: "main", key, session, current }, now)).toBe(standing);
});

test("an agent runs when one of its turns does, and waits when all of them wait", () => {
  const [a, b] = Object.values(known.turns);
  const of = (...some: RunningTurn[]) => agentStanding({ ...known, turns: turns(...some) }, main);
  expect([of(a!, b!), of(b!), of()]).toEqual(["running", "waiting", "queued"]);
  expect(agentStanding({ turns: {}, recent: [] }, main)).toBe("idle");
  expect(agentStanding(known, { ...main, status: "failed" })).toBe("failed");
});

test("a turn that is tried again later waits for nobody; one that pauses inside of it runs", () => {
  const retry = { scope: "turn", code: "overloaded", next_at: now } as const;
  const again = (state: string) => ({ ...turn("a", "a1", state), retry });
  const of = (...all: RunningTurn[]) =>
    agentStanding({ turns: turns(...all), recent: [] }, main);
  const standings = ["ready", "waiting", "running"].map((state) => of(again(state)));
  expect(standings).toEqual(["retrying", "retrying", "running"]);
  expect(of(again("ready"), turn("b", "b1", "waiting"))).toBe("waiting");
  expect(retryOf(again("waiting"), now + 1)).toBe(retry);
  expect([retryOf(again("running"), now), retryOf(again("running"), now - 1)]).toEqual([
    undefined,
    retry,
  ]);
  const counted = counts([again("ready"), turn("b", "b1", "waiting")], {} as HiveState);
  expect(counted).toEqual({ running: 0, waiting: 1, retrying: 1, queued: 0 });
});

test("the numbers of the sentence are those of the marks", () => {
  const snapshot = { work: { queued: 1, running: 7, waiting: 7 } } as HiveState;
  const counted = counts(Object.values(known.turns), snapshot);
  expect(counted).toEqual({ running: 1, waiting: 1, retrying: 0, queued: 1 });
});
