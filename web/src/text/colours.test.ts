import { expect, test } from "vitest";
import { coloured } from "./colours";

const kinds = (text: string, language: string) =>
  coloured(text, language).flatMap(({ text, kind }) => (kind ? [[kind, text]] : []));

test("comments, strings and words of a language", () => {
  const python = 'def price(n):\n    """Ten off."""\n    return "a#b"  # line 12';
  expect(kinds(python, "python")).toEqual([
    ["word", "def"],
    ["string", '"""Ten off."""'],
    ["word", "return"],
    ["string", '"a#b"'],
    ["comment", "# line 12"],
  ]);
  expect(kinds("fn first<'a>(s: &'a str) -> char { 'x' } // 'end", "rust")).toEqual([
    ["word", "fn"],
    ["word", "char"],
    ["string", "'x'"],
    ["comment", "// 'end"],
  ]);
  expect(kinds("const a = `let\n${b}`; /* for\nall */", "ts")).toEqual([
    ["word", "const"],
    ["string", "`let\n${b}`"],
    ["comment", "/* for\nall */"],
  ]);
  expect(kinds("SELECT name FROM huts -- all", "sql")).toEqual([
    ["word", "SELECT"],
    ["word", "FROM"],
    ["comment", "-- all"],
  ]);
  expect(kinds("if [ $# -gt 0 ]; then echo \"it's\"; fi # done", "sh")).toEqual([
    ["word", "if"],
    ["word", "then"],
    ["string", '"it\'s"'],
    ["word", "fi"],
    ["comment", "# done"],
  ]);
});

test("no letter is lost, whatever it is", () => {
  const odd = "\"never closed\n'''\n/* nor this `\n# \\ <!-- \u{1f41d}";
  for (const language of ["python", "rust", "ts", "sql", "html", "json", "sh", "brainfuck", ""]) {
    const pieces = coloured(odd, language);
    expect(pieces.map((piece) => piece.text).join("")).toBe(odd);
  }
  expect(coloured("let a", "brainfuck")).toEqual([{ text: "let a" }]);
  expect(coloured("let a ".repeat(5000), "rust")).toHaveLength(1);
});
