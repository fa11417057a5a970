import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLone } from "./lone";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A page with an approval; the composer takes what is typed once it has the focus. */
function page() {
  const lone = createLone();
  const acted: string[] = [];
  let composer: string | undefined;
  lone.on({ key: (key) => "ysan".includes(key) && acted.push(key) > 0 });
  lone.on({ word: (begun) => void (composer = (composer ?? "") + begun) });
  return {
    acted,
    text: () => composer,
    type(keys: Iterable<string>, gap: number) {
      for (const key of keys) {
        lone.press(key, composer !== undefined);
        if (composer !== undefined && key.length === 1) composer += key;
        vi.advanceTimersByTime(gap);
      }
      vi.advanceTimersByTime(2000);
    },
  };
}

const WORDS = ["sorry", "why", "already", "any", "stay", "yes", "no", "you say nay", "año", "да"];
const GAPS = [10, 50, 130, 200, 250, 350];

test.each(WORDS.flatMap((word) => GAPS.map((gap) => [word, gap] as const)))(
  "the word %s decides nothing with %i ms between its keys",
  (word, gap) => {
    const here = page();
    here.type([...word, "Enter"], gap);
    expect(here.acted).toEqual([]);
    expect(here.text()).toBe(word);
  },
);

test("a letter alone decides, and the next one after it", () => {
  const here = page();
  here.type("s", 0);
  here.type("y", 0);
  expect(here.acted).toEqual(["s", "y"]);
});

test("a letter soon after another one, or with a key soon after it, decides nothing", () => {
  for (const keys of [["y", "Enter"], ["y", "Shift"], ["x", "y"], ["y", "y"]]) {
    const here = page();
    here.type(keys, 300);
    expect(here.acted).toEqual([]);
  }
});
