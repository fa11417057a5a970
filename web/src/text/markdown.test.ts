import { expect, test } from "vitest";
import { lex } from "./markdown";

const table = (columns: number, rows: number) =>
  `${"|a".repeat(columns)}\n${"|-".repeat(columns)}\n${"|b\n".repeat(rows)}`;

/** By the size that is wanted. */
const HOSTILE: Record<string, (size: number) => string> = {
  "marks that open and never close": (size) => "_a*b".repeat(size / 4),
  "marks of two kinds": (size) => "**_a".repeat(size / 4),
  "marks behind words": (size) => "a_".repeat(size / 2),
  "marks in each line": (size) => `${"_a*b".repeat(50)}\n`.repeat(size / 201),
  "links that never close": (size) => "[a](http://x".repeat(size / 12),
  "addresses in quotes": (size) => 'http://a.b"'.repeat(size / 11),
  "a table of many columns": (size) => table(size / 4, 1),
  "a table of many columns and short rows": (size) => table(size / 8, size / 6),
  "a table of short rows": (size) => table(30, size / 3),
  "what could be a table in each line": (size) => "a\n-\n".repeat(size / 4),
  "quotes in quotes": (size) => "> ".repeat(size / 2),
  "lists in lists": (size) => "- ".repeat(size / 2),
};

type Used = { user: number };
declare const process: { cpuUsage(since?: Used): Used };
/** Milliseconds of the processor: what else runs on the machine does not count. */
function fastest(text: string): number {
  const times = Array.from({ length: 3 }, () => {
    const begun = process.cpuUsage();
    lex(text);
    return process.cpuUsage(begun).user / 1000;
  });
  return Math.min(...times);
}

const each = test.each(Object.entries(HOSTILE));
each("the time for %s grows with the length alone", { timeout: 60_000 }, (_, text) => {
  const [small, large] = [text(5_000), text(40_000)];
  fastest(small);
  // Eight times the length; by its square it would be 64 times the time.
  expect(fastest(large)).toBeLessThan(32 * Math.max(fastest(small), 4));
});

/** Types of tokens, and texts where there is nothing below. */
function shape(text: string): unknown {
  const of = (tokens: ReturnType<typeof lex>): unknown[] =>
    tokens.map((token) => {
      const inside = "tokens" in token && token.tokens ? of(token.tokens) : token.raw;
      return [token.type, inside];
    });
  return of(lex(text));
}

test.each([
  ['{"url": "https://docs.rs/"}', "https://docs.rs/"],
  ['{\\"url\\": \\"https://docs.rs/\\"}', "https://docs.rs/"],
  ["get('https://docs.rs/a'), then", "https://docs.rs/a"],
  ["“https://docs.rs/” says", "https://docs.rs/"],
  ["https://a.test/O'Neill_(x).", "https://a.test/O'Neill_(x)"],
  ["a https://docs.rs/?q=1#x b", "https://docs.rs/?q=1#x"],
])("a bare address ends at a quote: %s", (text, address) => {
  const [block] = lex(text);
  const tokens = block && "tokens" in block ? (block.tokens ?? []) : [];
  const links = tokens.filter((token) => token.type === "link");
  expect(links.map((token) => [token.raw, "href" in token && token.href])).toEqual([
    [address, address],
  ]);
  expect(tokens.map((token) => token.raw).join("")).toBe(text);
});

test("what people write is taken apart, the rest stays as it is", () => {
  expect(shape("a **b**")).toEqual([
    ["paragraph", [["text", "a "], ["strong", [["text", "b"]]]]],
  ]);
  expect(shape("|a|b|\n|-|-|\n|1|2|")).toEqual([["table", "|a|b|\n|-|-|\n|1|2|"]]);
  // A line of too many marks is plain; those around it are not.
  const line = "_a*b".repeat(60);
  expect(shape(`**a**\n${line}\n**b**`)).toEqual([
    [
      "paragraph",
      [
        ["strong", [["text", "a"]]],
        ["br", "\n"],
        ["text", line],
        ["br", "\n"],
        ["strong", [["text", "b"]]],
      ],
    ],
  ]);
  expect(lex("x".repeat(100_001)).map((token) => token.type)).toEqual(["code"]);
});
