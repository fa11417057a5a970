import { expect, test } from "vitest";
import type { Message, RetryInfo, TurnOutcome } from "../api/types";
import {
  failureWords,
  isAboutProfile,
  outcomeDetails,
  outcomeTitle,
  pauseWords,
  retryWords,
} from "./outcomes";

const turn = { turn: "t", seq: 3, started_at: 1000, steps: 0, tools_run: 0 };
const outcome = (state: TurnOutcome["state"], over: Partial<TurnOutcome> = {}) =>
  ({ ...turn, state, ...over }) as TurnOutcome;
const said = (text: string, stopReason = "end_turn") =>
  ({
    role: "assistant",
    content: text ? [{ type: "text", text }] : [],
    meta: { stopReason, usage: { output: 8192 } },
  }) as unknown as Message;
const retry = (over: object) =>
  ({ scope: "call", code: "overloaded", next_at: 9000, ...over }) as RetryInfo;

test.each([
  [
    outcome("failed", { code: "provider_auth", error: "the vendor refused the key (401)" }),
    undefined,
    "Failed: provider rejected the key",
    "The vendor refused the key (401). No tool was run.",
  ],
  [
    outcome("failed", {
      code: "provider_auth",
      error: "the model vendor refused the key (401); check the profile's key",
    }),
    undefined,
    "Failed: provider rejected the key (401)",
    "Check the profile's key. No tool was run.",
  ],
  [
    outcome("failed", {
      code: "provider_rejected",
      error: "the model vendor rejected the request (400): no such tool",
    }),
    undefined,
    "Failed: provider rejected the request (400)",
    "No such tool. No tool was run.",
  ],
  [
    outcome("failed", {
      code: "provider_rejected",
      error: "the model used its whole output limit before it said anything",
    }),
    undefined,
    "Failed: no usable answer from the model",
    "The model used its whole output limit before it said anything. No tool was run.",
  ],
  [
    outcome("failed", { code: "limit_time", tools_run: 1 }),
    undefined,
    "Failed: time limit reached",
    "1 tool call was run.",
  ],
  [
    outcome("failed", { code: "brand_new", tools_run: 2 }),
    undefined,
    "Failed: brand_new",
    "2 tool calls were run.",
  ],
  [
    outcome("cancelled", { code: "cancelled", ended_at: 10_000 }),
    said("Starting with 2019, by"),
    "Cancelled after 9.0 s",
    "The answer above is incomplete.",
  ],
  [
    outcome("cancelled", { code: "interrupted", ended_at: 10_000 }),
    undefined,
    "Cancelled by a newer message after 9.0 s",
    "",
  ],
  [
    outcome("empty"),
    said("", "max_tokens"),
    "Empty answer: output limit reached",
    "8192 output tokens were used.",
  ],
  [
    outcome("failed", {
      code: "provider_auth",
      error: "the account at the model vendor has no credit (402); pay there, or check the key",
    }),
    undefined,
    "Failed: no credit at the provider (402)",
    "Pay there, or check the key. No tool was run.",
  ],
  [
    outcome("failed", {
      code: "provider_auth",
      error: "the model vendor refused the key (403): not allowed to use this model; check it",
    }),
    undefined,
    "Failed: provider denied access (403)",
    "Not allowed to use this model; check it. No tool was run.",
  ],
  [
    outcome("failed", {
      code: "provider_rejected",
      error: "the model vendor rejected the request (404): no such model",
    }),
    undefined,
    "Failed: provider rejected the request (404)",
    "No such model. No tool was run.",
  ],
  [outcome("retrying", { retry: retry({}) }), undefined, "Overloaded", "No action needed."],
  [
    outcome("retrying", { retry: retry({ code: "unreachable" }) }),
    undefined,
    "Provider not reachable",
    "If it goes on, check the network and the profile's address.",
  ],
  [
    outcome("retrying", { retry: retry({ code: "unreachable" }), error: "check api_url" }),
    undefined,
    "Provider not reachable",
    "Check api_url.",
  ],
])("a row says what happened and what there is to know", (outcome, last, title, details) => {
  expect([outcomeTitle(outcome, last), outcomeDetails(outcome, last)]).toEqual([title, details]);
});

test("a change of the profile may help when the provider refuses the key or the model", () => {
  const is = (code: string, error: string) => isAboutProfile(outcome("failed", { code, error }));
  expect(is("provider_auth", "the model vendor refused the key (401)")).toBe(true);
  expect(is("provider_rejected", "the model vendor rejected the request (404)")).toBe(true);
  expect(is("provider_rejected", "the model vendor rejected the request (400)")).toBe(false);
});

test.each([
  [{ try: 2, of: 4 }, 1000, "try 2 of 4, next in 8 s"],
  [{ try: 2, of: 4 }, 9001, "try 2 of 4, now"],
  // What is counted anew says what it belongs to.
  [{ scope: "turn", try: 2, of: 3 }, 1000, "attempt 2 of 3 of the turn, next in 8 s"],
  [{ attempt: 2, try: 2, of: 4 }, 1000, "attempt 2 of the turn, try 2 of 4, next in 8 s"],
  // The vendor named the time: such a pause is no try of a few.
  [{}, 1000, "next in 8 s"],
  [{ next_at: 301_000 }, 1000, "next in 5:00"],
])("a pause counts down", (over, now, words) => {
  expect(retryWords(retry(over), now)).toBe(words);
});

test("a pause says why, and a failure says it without its code", () => {
  expect(pauseWords(retry({ try: 2, of: 4 }), 1000)).toBe("Overloaded, next try in 8 s");
  expect(pauseWords(retry({ code: "rate_limited" }), 9001)).toBe("Rate limited, next try now");
  const error = "the model vendor refused the key (401); check the profile's key";
  expect(failureWords({ code: "provider_auth", error })).toBe("provider rejected the key (401)");
  expect(failureWords({ code: "limit_time", error: "" })).toBe("time limit reached");
  expect(failureWords({ code: "", error: "" })).toBe("unknown reason");
});
