import { expect, test } from "vitest";
import { changedFiles, parse } from "./diff";

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

test("changes come to one line per file, named by the diff where nothing else names it", () => {
  const fresh = "--- b.md\n+++ b.md\n@@ -0,0 +1,2 @@\n+one\n+two\n";
  const more = "--- b.md\n+++ b.md\n@@ -1,2 +1 @@\n-one\n two\n";
  expect(changedFiles([{ diff: fresh }, { diff: more }, { path: "x.rs", diff: text }])).toEqual([
    { path: "b.md", added: 2, removed: 1, isNew: true },
    { path: "x.rs", added: 2, removed: 1, isNew: false },
  ]);
});
