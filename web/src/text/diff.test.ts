import { expect, test } from "vitest";
import { parse } from "./diff";

const text = [
  "--- a/x.rs",
  "+++ b/x.rs",
  "@@ -11,3 +11,3 @@",
  " fn overlaps() {",
  "-    a.from.local() < b.to",
  "+    a.from.utc() < b.to",
  " }",
  "@@ -40 +40,2 @@",
  "+new",
  "\\ No newline at end of file",
  "",
].join("\n");

test("numbers, signs, counts and changed words", () => {
  const diff = parse(text);
  expect([diff.added, diff.removed]).toEqual([2, 1]);
  expect(diff.lines).toEqual([
    { sign: " ", number: 11, pieces: [{ text: "fn overlaps() {", changed: false }] },
    {
      sign: "-",
      number: 12,
      pieces: [
        { text: "    a.from.", changed: false },
        { text: "local", changed: true },
        { text: "() < b.to", changed: false },
      ],
    },
    {
      sign: "+",
      number: 12,
      pieces: [
        { text: "    a.from.", changed: false },
        { text: "utc", changed: true },
        { text: "() < b.to", changed: false },
      ],
    },
    { sign: " ", number: 13, pieces: [{ text: "}", changed: false }] },
    "gap",
    { sign: "+", number: 40, pieces: [{ text: "new", changed: false }] },
  ]);
});

test("lines that share nothing are not marked", () => {
  const { lines } = parse("@@ -1 +1 @@\n-one\n+two\n");
  expect(lines.map((line) => (line === "gap" ? line : line.pieces.length))).toEqual([1, 1]);
});

test("what is no diff has no lines", () => {
  expect(parse("hello\n+not a diff").lines).toEqual([]);
});
