import { expect, test } from "vitest";
import type { RetryInfo, WorkItem } from "../api/types";
import { byEnd, columnItems } from "../state/workShow";
import { standingOfItem, whyWords } from "./work";

const item = (more: Partial<WorkItem>) => ({ state: "failed", created_at: 0, ...more }) as WorkItem;

test("why an item is not done, in the words of the conversation", () => {
  const auth = "the model vendor refused the key (401); check the profile's key";
  const gone = "the model vendor rejected the request (404): model: x";
  const cases: [Partial<WorkItem>, string | undefined][] = [
    [{ error: { code: "provider_auth", error: auth } }, "provider rejected the key (401)"],
    [{ error: { code: "provider_rejected", error: gone } }, "provider rejected the request (404)"],
    [{ error: { code: "provider_unavailable", error: "x" } }, "provider not available"],
    [{ state: "waiting", waiting_for: "approval of bash" }, "waiting for approval of bash"],
    [{ state: "done" }, undefined],
  ];
  for (const [more, words] of cases) expect(whyWords(item(more))).toBe(words);
});

test("an item that is tried again later says why and when, whatever its state is", () => {
  const retry: RetryInfo = { scope: "turn", code: "rate_limited", next_at: 9000 };
  for (const state of ["pending", "waiting"] as const) {
    const words = whyWords(item({ state, waiting_for: "the model vendor limits" }), retry, 1000);
    expect(words).toBe("Rate limited, next try in 8 s");
    expect(standingOfItem(state, true)).toEqual(["queue", "retrying"]);
  }
  expect(standingOfItem("dead", false)).toEqual(["fail", "failed"]);
});

test("what is tried again later stands among the queued items, what has ended by its end", () => {
  const [a, b, c] = [1, 2, 3].map((ord) => item({ item_id: `${ord}`, ord }));
  const lanes = { queued: [c!, a!], running: [], waiting: [b!], done: [], failed: [] };
  const of = (column: "queued" | "waiting", again: boolean) =>
    columnItems(lanes, column, (one) => again && one === b);
  expect([of("queued", true), of("waiting", true)]).toEqual([[c, b, a], []]);
  expect([of("queued", false), of("waiting", false)]).toEqual([[c, a], [b]]);
  const ended = [item({ finished_at: 5 }), item({ finished_at: 9 }), item({ created_at: 7 })];
  expect(byEnd(ended)).toEqual([ended[1], ended[2], ended[0]]);
});
