import { expect, test } from "vitest";
import { bytes, count, ends, money, nameOf, sentence, span, title, undelivered } from "./format";

test("spans", () => {
  const cases: [number, string][] = [
    [0, "0 ms"],
    [40, "40 ms"],
    [3100, "3.1 s"],
    [38_000, "38 s"],
    [221_000, "3:41"],
    [3_660_000, "1 h 1 min"],
  ];
  for (const [ms, text] of cases) expect(span(ms)).toBe(text);
});

test("a channel that does not take a frame", () => {
  const frame = { kind: "response", attempts: 3 } as const;
  const refused = { ...frame, state: "refused", reason: "too long" } as const;
  expect(undelivered("chat", refused)).toBe("chat refused the response: too long");
  expect(undelivered("chat", { ...frame, state: "pending" })).toBe(
    "chat has not taken the response yet, after 3 tries",
  );
});

test("counts and bytes", () => {
  expect([0, 999, 1100, 61_200, 999_949, 1_900_000].map(count)).toEqual([
    "0",
    "999",
    "1.1 k",
    "61.2 k",
    "999.9 k",
    "1.9 M",
  ]);
  expect([12, 48_000, 5_200_000].map(bytes)).toEqual(["12 B", "48 kB", "5.2 MB"]);
});

test("money says when it does not know", () => {
  expect([undefined, 0, 0.0012, 0.09, 6.421].map(money)).toEqual([
    "price unknown",
    "$0.00",
    "$0.0012",
    "$0.09",
    "$6.42",
  ]);
});

test("words", () => {
  expect(["no room", "Is it?", "Done."].map(sentence)).toEqual(["No room.", "Is it?", "Done."]);
  expect(title("  first line\nsecond")).toBe("first line");
  expect(title("x".repeat(80))).toHaveLength(60);
  const of = { agent: "main", created_at: Date.now() };
  expect(nameOf({ ...of, title: "Winter" })).toBe("Winter");
  for (const title of ["", "\u200b"]) expect(nameOf({ ...of, title })).toMatch(/^main, \d/);
});

test("names that begin alike stay apart when they are shortened", () => {
  expect(ends("engineering", 15)).toBe("engineering");
  expect(ends("engineering-coder", 15)).toBe("enginee…g-coder");
  expect(ends("engineering-reviewer", 15)).toBe("enginee…eviewer");
  expect(ends("abcdefgh", 4)).toBe("ab…h");
});
