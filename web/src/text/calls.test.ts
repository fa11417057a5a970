import { expect, test } from "vitest";
import { allArguments, mainArgument, ranFor } from "./calls";

test("the argument that says most", () => {
  const cases: [unknown, string][] = [
    [{ file_path: "a.rs", limit: 3 }, "a.rs"],
    [{ pattern: "x", path: "src" }, "x in src"],
    [{ command: "one\n  two" }, "one ⏎ two"],
    [{ n: 1, deep: { a: [] } }, 'n 1  deep {"a":[]}'],
    [null, ""],
    ["text", "text"],
  ];
  for (const [input, text] of cases) expect(mainArgument(input)).toBe(text);
  expect(mainArgument({ command: "x".repeat(999) })).toHaveLength(200);
});

test("all arguments", () => {
  expect(allArguments({ a: "x", b: 2, c: "l1\nl2" })).toBe("a: x\nb: 2\nc:\nl1\nl2");
});

test("a call does not run while it waits for a person", () => {
  expect(ranFor(1000, undefined, 1400)).toBe(400);
  expect(ranFor(1000, 57_000, 57_400)).toBe(400);
});
