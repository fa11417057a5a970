import { expect, test } from "vitest";
import { type Delta, fold, fromActive, type Saying, withPage } from "./fold";

function delta(token: number, call: number, index: number, text: string, part = "text"): Delta {
  const base = { at: 0, agent: "main", session: "s", turn: "t" };
  return { ...base, type: "delta", token, call, index, part: part as "text", text };
}

function all(deltas: Delta[], start: Saying[] = []): { texts: string[]; gaps: number } {
  let saying = start;
  let gaps = 0;
  for (const one of deltas) {
    const folded = fold(saying, one);
    saying = folded.saying;
    if (folded.gap) gaps += 1;
  }
  const texts = saying.map((one) =>
    one.blocks.map((b) => (b.type === "text" ? b.text : `<${b.type}>`)).join(""),
  );
  return { texts, gaps };
}

test("deltas append in order and once", () => {
  const one = delta(1, 1, 0, "he");
  expect(all([one, one, delta(1, 1, 1, "llo"), one])).toEqual({ texts: ["hello"], gaps: 0 });
});

test("a new call or token voids what was shown", () => {
  expect(all([delta(1, 1, 0, "a"), delta(1, 2, 0, "b")]).texts).toEqual(["b"]);
  expect(all([delta(1, 2, 0, "a"), delta(2, 1, 0, "b")]).texts).toEqual(["b"]);
});

test("what comes late from an older call is left out", () => {
  expect(all([delta(2, 1, 0, "new"), delta(1, 9, 0, "old")])).toEqual({ texts: ["new"], gaps: 0 });
});

test("a missing delta is a gap and changes nothing", () => {
  expect(all([delta(1, 1, 0, "a"), delta(1, 1, 2, "c")])).toEqual({ texts: ["a"], gaps: 1 });
  expect(all([delta(1, 1, 3, "c")])).toEqual({ texts: [], gaps: 1 });
});

test("whoever comes late goes on where the active turn is", () => {
  const active = {
    turn: "t",
    agent: "main",
    session: "s",
    session_key: "main",
    token: 1,
    call: 1,
    deltas: 2,
    content: [{ type: "text" as const, text: "ab" }],
  };
  const start = [fromActive(active)];
  expect(all([delta(1, 1, 1, "b"), delta(1, 1, 2, "c")], start)).toEqual({
    texts: ["abc"],
    gaps: 0,
  });
});

test("what is stored stays beside the next call until its message is shown", () => {
  const folded = fold([], delta(1, 1, 0, "first"));
  const stored = folded.saying.map((one) => ({ ...one, stored: 2 }));
  expect(all([delta(1, 2, 0, "second")], stored).texts).toEqual(["first", "second"]);
});

test("a page that knows no more of a call leaves it stored", () => {
  const [heard] = fold([], delta(1, 1, 0, "all of it")).saying;
  if (!heard) throw new Error("nothing was heard");
  const stored = { ...heard, stored: 2 };
  const { turn, token, call, deltas, blocks: content } = heard;
  const known = { turn, token, call, deltas, content };
  const active = { ...known, agent: "main", session: "s", session_key: "main" };
  expect(withPage([stored], active, [])).toEqual([stored]);
});

test("thinking and text are blocks of their own", () => {
  const { texts } = all([delta(1, 1, 0, "hm", "thinking"), delta(1, 1, 1, "so")]);
  expect(texts).toEqual(["<thinking>so"]);
});
