import { afterEach, expect, test, vi } from "vitest";
import type { Event, HiveState } from "../api/types";
import { createDrafts } from "./drafts";
import type { Listener, Live } from "./live";
import { createQuestions, draftOf } from "./questions";

afterEach(() => void vi.useRealTimers());

const question = (id: string) => ({
  id,
  kind: "question",
  agent: "main",
  session_key: "main",
  root: "r",
  text: "Which colour?",
  options: [],
  multi: false,
  created_at: 1,
  until: 2,
});

function stage(open: object[], reads = true) {
  vi.useFakeTimers();
  vi.stubGlobal("sessionStorage", { getItem: () => null, setItem: () => {} });
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
    asked.push(`${init.method ?? "GET"} ${path}`);
    if (init.method === "POST") return new Response(null, { status: 204 });
    return Response.json({ questions: open });
  });
  let listener: Listener | undefined;
  const drafts = createDrafts("operator");
  const live = { on: (one: Listener) => void (listener = one) } as Live;
  const questions = createQuestions(live, drafts, reads);
  const answered = (id: string) => {
    open.splice(0, open.length, ...open.filter((one) => (one as { id: string }).id !== id));
    const of = { state: "answered", at: 3 };
    listener?.event({ type: "question_ended", question: id, ...of } as unknown as Event);
    return vi.advanceTimersByTimeAsync(100);
  };
  const look = () => {
    listener?.snapshot({} as HiveState);
    return vi.advanceTimersByTimeAsync(100);
  };
  const ids = () => questions.all().map(({ id, ended }) => [id, ended?.here]);
  return { answered, asked, drafts, ids, look, questions };
}

test("what another one answered leaves at once, unless an answer is being written", async () => {
  const { answered, drafts, ids, look, questions } = stage([question("q1"), question("q2")]);
  await look();
  expect(ids()).toEqual([["q1", undefined], ["q2", undefined]]);
  drafts.change(draftOf("q2"), { text: "the blue one" });
  await answered("q1");
  expect(ids()).toEqual([["q2", undefined]]);
  await answered("q2");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ids()).toEqual([["q2", false]]);
  expect(drafts.of(draftOf("q2")).text).toBe("the blue one");
  questions.forget("q2");
  expect(ids()).toEqual([]);
  expect(drafts.of(draftOf("q2")).text).toBe("");
});

test("what was answered here stands for a moment as answered", async () => {
  const { answered, asked, drafts, ids, look, questions } = stage([question("q1")]);
  await look();
  drafts.change(draftOf("q1"), { text: "blue" });
  const sending = questions.answer("q1", { answer: "blue" });
  // The event may come before the answer to the request.
  await answered("q1");
  await sending;
  expect(asked).toContain("POST /api/v1/questions/q1/answer");
  expect(ids()).toEqual([["q1", true]]);
  expect(drafts.of(draftOf("q1")).text).toBe("");
  await vi.advanceTimersByTimeAsync(6000);
  expect(ids()).toEqual([]);
});

test("a message that was put away leaves at once", async () => {
  const { answered, asked, ids, look, questions } = stage([question("m1")]);
  await look();
  const sending = questions.putAway("m1");
  await answered("m1");
  await sending;
  expect(asked).toContain("POST /api/v1/questions/m1/close");
  expect(ids()).toEqual([]);
});

test("an answer that was refused is there to be sent again", async () => {
  const { drafts, ids, look, questions } = stage([question("q1")]);
  await look();
  drafts.change(draftOf("q1"), { text: "blue" });
  const problem = { title: "no", detail: "The store is busy.", code: "store_busy", status: 503 };
  vi.stubGlobal("fetch", async () => Response.json(problem, { status: 503 }));
  await expect(questions.answer("q1", { answer: "blue" })).rejects.toThrow();
  expect(drafts.of(draftOf("q1")).text).toBe("blue");
  expect(ids()).toEqual([["q1", undefined]]);
});

test("who may not know of them does not ask", async () => {
  const { asked, look } = stage([question("q1")], false);
  await look();
  expect(asked).toEqual([]);
});
