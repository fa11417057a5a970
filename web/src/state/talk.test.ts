import { unwrap } from "solid-js/store";
import { afterEach, expect, test, vi } from "vitest";
import type { Event, HiveState } from "../api/types";
import type { Listener, Live } from "./live";
import { createTalk } from "./talk";

afterEach(() => vi.unstubAllGlobals());

/** A hive whose answers come when the test says so. */
function hive() {
  const asked: { path: string; answer: (page: unknown) => void }[] = [];
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (path: string) => {
    return new Promise<Response>((resolve) => {
      asked.push({ path, answer: (page) => resolve(Response.json(page)) });
    });
  });
  let listener: Listener | undefined;
  const live = {
    on(one: Listener) {
      listener = one;
      return () => {};
    },
  } as unknown as Live;
  const tell = (event: object) => listener?.event(event as Event);
  const back = () => listener?.snapshot({} as HiveState);
  return { asked, back, live, tell };
}

const page = (...texts: string[]) => ({
  session: "s1",
  view: "full",
  streaming: false,
  turns: [],
  messages: texts.map((text, at) => ({
    seq: at + 1,
    role: "assistant",
    content: [{ type: "text", text }],
  })),
});

const row = (last: number) => ({
  type: "history_updated",
  agent: "main",
  session: "s1",
  first: last,
  last,
});

test("rows that come while the first page is on its way are not missed", async () => {
  const { asked, live, tell } = hive();
  const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
  await vi.waitFor(() => expect(asked.length).toBe(1));
  tell(row(2));
  asked[0]?.answer(page("asked"));
  await vi.waitFor(() => expect(asked.length).toBe(2));
  asked[1]?.answer(page("asked", "answered"));
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(2));
  expect(talk.state.loading).toBe(false);
});

test("the first page is read once where nothing comes in between", async () => {
  const { asked, live, tell } = hive();
  const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
  await vi.waitFor(() => expect(asked.length).toBe(1));
  tell({ ...row(2), agent: "other" });
  asked[0]?.answer(page("asked"));
  await vi.waitFor(() => expect(talk.state.loaded).toBe(true));
  expect(asked.length).toBe(1);
});

test("new rows are read from the last known one on, however many come meanwhile", async () => {
  const { asked, live, tell } = hive();
  const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
  await vi.waitFor(() => expect(asked.length).toBe(1));
  asked[0]?.answer(page("one"));
  await vi.waitFor(() => expect(talk.state.loaded).toBe(true));
  const rows = page("one", "two", "three", "four").messages;
  const context = { used: 7, window: 10 };
  tell(row(2));
  tell(row(3));
  await vi.waitFor(() => expect(asked.length).toBe(3));
  expect(asked[1]?.path).toContain("limit=1&after=1");
  expect(asked[2]?.path).toContain("limit=2&after=1");
  // The later answer is there first; a fourth row was committed by then.
  asked[2]?.answer({ ...page(), messages: rows.slice(1, 3), after: 3, context });
  asked[1]?.answer({ ...page(), messages: rows.slice(1, 2), after: 2 });
  tell(row(4));
  await vi.waitFor(() => expect(asked.length).toBe(4));
  expect(asked[3]?.path).toMatch(/after=[13]/);
  asked[3]?.answer({ ...page(), messages: rows.slice(3) });
  await vi.waitFor(() => expect(talk.state.messages.map((one) => one.seq)).toEqual([1, 2, 3, 4]));
  expect(talk.state.context).toEqual(context);
});

test("what was said stays when its turn ends before its row could be read", async () => {
  const { asked, live, tell } = hive();
  const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
  await vi.waitFor(() => expect(asked.length).toBe(1));
  asked[0]?.answer(page("asked"));
  await vi.waitFor(() => expect(talk.state.loaded).toBe(true));
  const turn = { agent: "main", session: "s1", turn: "t1" };
  tell({ ...turn, type: "delta", token: 1, call: 1, index: 0, part: "text", text: "answered" });
  tell(row(2));
  tell({ ...turn, type: "turn_end" });
  expect(talk.state.saying[0]?.blocks).toEqual([{ type: "text", text: "answered" }]);
  await vi.waitFor(() => expect(asked.length).toBe(2));
  asked[1]?.answer(page("asked", "answered"));
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(2));
  expect(talk.state.saying).toEqual([]);
  tell(row(2));
  expect(asked.length).toBe(2);
});

test("what was said stays until its own row is read, not until an earlier one is", async () => {
  const { asked, live, tell } = hive();
  const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
  await vi.waitFor(() => expect(asked.length).toBe(1));
  asked[0]?.answer(page("before"));
  await vi.waitFor(() => expect(talk.state.loaded).toBe(true));
  const turn = { agent: "main", session: "s1", turn: "t1" };
  tell(row(2));
  tell({ ...turn, type: "delta", token: 1, call: 1, index: 0, part: "text", text: "answered" });
  tell(row(3));
  await vi.waitFor(() => expect(asked.length).toBe(3));
  asked[1]?.answer(page("before", "asked"));
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(2));
  expect(talk.state.saying[0]?.blocks).toEqual([{ type: "text", text: "answered" }]);
  asked[2]?.answer(page("before", "asked", "answered"));
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(3));
  expect(talk.state.saying).toEqual([]);
});

test("what is said while a page is on its way stays, unless the page has it", async () => {
  const said = { agent: "main", session: "s1", turn: "t1", type: "delta", part: "text" };
  const call = { turn: "t1", token: 1, call: 1 };
  const heard = [{ type: "text", text: "answered" }];
  const whole = [{ type: "text", text: "answered in full" }];
  const answer = { ...page("asked", "answered in full").messages[1], turn: "t1" };
  const cases: [object, object[]][] = [
    [{}, heard],
    [{ active: { ...call, call: 0, deltas: 0, content: [] } }, heard],
    [{ active: { ...call, deltas: 0, content: [] } }, heard],
    [{ active: { ...call, deltas: 2, content: whole } }, whole],
    [{ messages: [...page("asked").messages, answer] }, []],
  ];
  for (const [more, expected] of cases) {
    const { asked, live, tell } = hive();
    const talk = createTalk({ agent: "main", key: "main" }, live, () => {});
    await vi.waitFor(() => expect(asked.length).toBe(1));
    tell({ ...said, type: "turn_start", session_key: "main" });
    await vi.waitFor(() => expect(asked.length).toBe(2));
    tell({ ...said, ...call, index: 0, text: "answered" });
    asked[1]?.answer({ ...page("asked"), ...more });
    await vi.waitFor(() => expect(talk.state.messages.length).toBeGreaterThan(0));
    expect(talk.state.saying.flatMap((one) => one.blocks)).toEqual(expected);
  }
});

const FAILED = {
  turn: "t1",
  item: "i1",
  seq: 1,
  state: "failed",
  code: "provider_auth",
  started_at: 1,
  steps: 0,
  tools_run: 0,
};
const RETRY = { type: "model_retry", scope: "call", code: "overloaded", try: 2, of: 4, next_at: 9 };
const T1 = { agent: "main", session: "s1", turn: "t1" };

/** A conversation that has read one row. */
async function begun(turns: object[] = []) {
  const known = hive();
  const talk = createTalk({ agent: "main", key: "main" }, known.live, () => {});
  await vi.waitFor(() => expect(known.asked.length).toBe(1));
  const messages = page("asked").messages.map((one) => ({ ...one, turn: "t1" }));
  known.asked[0]?.answer({ ...page(), messages, turns });
  await vi.waitFor(() => expect(talk.state.loaded).toBe(true));
  return { ...known, talk };
}

test("a failed turn is the same row live and after a reload", async () => {
  const { asked, tell, talk } = await begun();
  expect(talk.state.outcomes).toEqual([]);
  tell({ ...T1, type: "turn_end", ok: false, code: "provider_auth" });
  await vi.waitFor(() => expect(asked.length).toBe(2));
  expect(asked[1]?.path).toContain("after=0");
  asked[1]?.answer({ ...page("asked"), turns: [FAILED] });
  await vi.waitFor(() => expect(talk.state.outcomes).toEqual([FAILED]));
  expect((await begun([FAILED])).talk.state.outcomes).toEqual([FAILED]);
});

test("a turn that is tried again is seen until it goes on", async () => {
  const { tell, talk } = await begun();
  tell({ ...T1, ...RETRY, at: 5 });
  expect(talk.state.outcomes).toMatchObject([{ turn: "t1", state: "retrying" }]);
  tell({ ...T1, ...RETRY, at: 6, try: 3 });
  expect(talk.state.outcomes.map((one) => one.retry?.try)).toEqual([3]);
  tell({ ...T1, type: "delta", token: 1, call: 1, index: 0, part: "text", text: "Well" });
  expect(talk.state.outcomes).toEqual([]);
});

test("rows of other pages keep their outcomes, and one that was tried again says so", async () => {
  const { asked, tell, talk } = await begun([FAILED]);
  tell(row(2));
  await vi.waitFor(() => expect(asked.length).toBe(2));
  const next = page("asked", "again").messages.slice(1);
  asked[1]?.answer({ ...page(), messages: next, turns: [{ ...FAILED, turn: "t2", seq: 2 }] });
  await vi.waitFor(() => expect(talk.state.outcomes.length).toBe(2));
  talk.retried("t1", "i9");
  expect(talk.state.outcomes.map((one) => one.retried_as)).toEqual(["i9", undefined]);
});

test("what is read again and has not changed is the same row", async () => {
  const { asked, back, talk } = await begun([FAILED]);
  const rows = () => [...unwrap(talk.state.messages), ...unwrap(talk.state.outcomes)];
  const before = rows();
  back();
  await vi.waitFor(() => expect(asked.length).toBe(2));
  const messages = page("asked", "new").messages.map((one) => ({ ...one, turn: "t1" }));
  asked[1]?.answer({ ...page(), messages, turns: [FAILED] });
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(2));
  expect(rows()[0]).toBe(before[0]);
  expect(rows()[2]).toBe(before[1]);
});

test("a pause that is over is gone with what is read, one that began meanwhile stays", async () => {
  const { asked, back, tell, talk } = await begun();
  tell({ ...T1, ...RETRY, at: 5 });
  back();
  await vi.waitFor(() => expect(asked.length).toBe(2));
  expect(talk.state.outcomes.length).toBe(1);
  tell({ ...T1, ...RETRY, turn: "t2", at: 6 });
  asked[1]?.answer(page("asked"));
  await vi.waitFor(() => expect(talk.state.loading).toBe(false));
  expect(talk.state.outcomes.map((one) => one.turn)).toEqual(["t2"]);
});

test("how a turn ended stays when what was asked before it ended comes later", async () => {
  const { asked, tell, talk } = await begun();
  tell(row(2));
  tell({ ...T1, type: "turn_end", ok: false, code: "provider_auth" });
  await vi.waitFor(() => expect(asked.length).toBe(3));
  asked[2]?.answer({ ...page("asked", "again"), turns: [{ ...FAILED, seq: 2 }] });
  await vi.waitFor(() => expect(talk.state.outcomes.length).toBe(1));
  const retry = { scope: "call", code: "overloaded", next_at: 9 };
  const older = { ...FAILED, seq: 2, state: "retrying", retry };
  const late = page("asked", "again").messages.slice(1);
  asked[1]?.answer({ ...page(), messages: late, turns: [older] });
  await vi.waitFor(() => expect(talk.state.messages.length).toBe(2));
  await new Promise((resolve) => setTimeout(resolve));
  expect(talk.state.outcomes).toMatchObject([{ turn: "t1", state: "failed" }]);
});
