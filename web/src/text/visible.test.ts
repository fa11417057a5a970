import { expect, test } from "vitest";
import { inert, isBlank, lineCount, visible, visibleName } from "./visible";

test("in what is only read, marks that mislead have a name and scripts stay whole", () => {
  expect(inert("a\u202etxt.exe\u001b[2K\u2066x")).toBe("a‹U+202E›txt.exe‹U+001B›[2K‹U+2066›x");
  const plain = "tab\tline\r\n שלום\u200f ✔️ no\u00a0blank";
  expect(inert(plain)).toBe(plain);
});

test("what the eye would miss has a name", () => {
  const cases: [string, string][] = [
    ["rm -rf build", "rm -rf build"],
    ["tab\tand\nline", "tab\tand\nline"],
    ["\u001b[2K\u001b[1Als", "‹U+001B›[2K‹U+001B›[1Als"],
    ["ls\rrm -rf ~", "ls‹U+000D›rm -rf ~"],
    ["a\u202etxt.exe", "a‹U+202E›txt.exe"],
    ["zero\u200bwidth\ufeff", "zero‹U+200B›width‹U+FEFF›"],
    ["no\u00a0blank", "no‹U+00A0›blank"],
    ["tag\u{e0041}", "tag‹U+E0041›"],
    ["Grüße, 日本語 🐝", "Grüße, 日本語 🐝"],
    [`ls${" ".repeat(5000)}; rm`, "ls‹5000 blanks, 0 line ends›; rm"],
    [`ls${"\n".repeat(300)}\trm`, "ls‹1 blanks, 300 line ends›rm"],
    [`a\n${" ".repeat(60)}b\n\n\nc`, `a\n${" ".repeat(60)}b\n\n\nc`],
  ];
  for (const [given, shown] of cases) expect(visible(given)).toBe(shown);
});

test("a name has one line, and something of it is seen", () => {
  expect(visibleName("notes\n.md\t")).toBe("notes‹U+000A›.md‹U+0009›");
  expect(["", " ", "\u200b", "\u200b\u3000"].map(isBlank)).toEqual([true, true, true, true]);
  expect(["a", "\u200bא", "✔️"].map(isBlank)).toEqual([false, false, false]);
});

test("lines are counted as they are read", () => {
  expect(["", "a", "a\n", "a\nb", "\n"].map(lineCount)).toEqual([0, 1, 1, 2, 1]);
});
