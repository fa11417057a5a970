import { beforeEach, expect, test, vi } from "vitest";
import { createDrafts, draftId } from "./drafts";

let kept: Map<string, string>;
beforeEach(() => {
  kept = new Map();
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
  });
});

const main = { agent: "main", key: "main" };
const file = { name: "plan.png", mime: "image/png", size: 3, data: "AAAA" };

test("each conversation has its own draft", () => {
  const drafts = createDrafts("me");
  const [one, two] = [draftId(main, "s1"), draftId(main, "s2")];
  const other = draftId({ agent: "cto", key: "main" });
  drafts.change(one, { text: "first" });
  drafts.change(two, { text: "second", files: [file], mode: "interrupt" });
  expect(drafts.of(one)).toEqual({ text: "first", files: [], mode: "queue" });
  expect(drafts.of(two)).toEqual({ text: "second", files: [file], mode: "interrupt" });
  expect(drafts.of(other)).toEqual({ text: "", files: [], mode: "queue" });
  expect([one, two, other, draftId(main)].map(drafts.has)).toEqual([true, true, false, false]);
});

test("a reload keeps text and fork", () => {
  const at = draftId(main, "s1");
  createDrafts("me").change(at, { text: "edited", files: [file], fork: { session: "s1", seq: 3 } });
  const again = createDrafts("me").of(at);
  expect(again).toEqual({
    text: "edited",
    files: [],
    mode: "queue",
    fork: { session: "s1", seq: 3 },
  });
});

test("another person in the same tab does not see it, and it is there for who wrote it", () => {
  const at = draftId(main, "s1");
  createDrafts("person:ann").change(at, { text: "secret" });
  const bob = createDrafts("person:bob");
  expect(bob.has(at)).toBe(false);
  bob.change(at, { text: "his own" });
  expect(createDrafts("person:ann").of(at).text).toBe("secret");
});

test("what is empty is no draft", () => {
  const drafts = createDrafts("me");
  const at = draftId(main, "s1");
  drafts.change(at, { text: "x", fork: { session: "s1", seq: 3 } });
  drafts.change(at, { text: "" });
  expect(drafts.has(at)).toBe(true);
  drafts.change(at, { fork: undefined });
  expect(drafts.has(at)).toBe(false);
  expect(kept.get("skep.drafts me")).toBe("{}");
});

test("a draft follows its conversation from the key to the session", () => {
  const drafts = createDrafts("me");
  const [key, session] = [draftId(main), draftId(main, "s1")];
  drafts.change(key, { text: "begun", files: [file] });
  drafts.move(key, session);
  expect(drafts.has(key)).toBe(false);
  expect(drafts.of(session)).toEqual({ text: "begun", files: [file], mode: "queue" });
  drafts.change(key, { text: "more" });
  drafts.move(key, session);
  expect(drafts.of(session).text).toBe("begun\nmore");
});

test("storage that is broken or full loses nothing that is in memory", () => {
  kept.set("skep.drafts me", "{");
  const drafts = createDrafts("me");
  vi.stubGlobal("sessionStorage", {
    setItem: () => {
      throw new Error("full");
    },
  });
  drafts.change(draftId(main), { text: "x" });
  expect(drafts.of(draftId(main)).text).toBe("x");
});
