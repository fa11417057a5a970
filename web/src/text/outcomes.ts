// What became of a turn that was not simply answered, in the words of a person.

import type { Failure, Message, RetryInfo, TurnOutcome } from "../api/types";
import { textOf } from "./calls";
import { plural, sentence, span } from "./format";
import { inert, visible } from "./visible";

const FAILURES: Record<string, string> = {
  provider_unavailable: "provider not available",
  provider_auth: "provider rejected the key",
  provider_rejected: "provider rejected the request",
  context_too_long: "conversation too long for the model",
  limit_steps: "limit of steps reached",
  limit_time: "time limit reached",
  limit_cost: "cost limit reached",
  limit_tokens: "token limit reached",
  limit_loop: "the same tool call was repeated too often",
  engine_crashed: "engine crashed",
  engine_ungated: "the engine made a tool call without permission",
  agent_unavailable: "agent not available",
  dead: "no try left",
  interrupted: "a newer message came",
  client_gone: "the client disconnected",
};

/** What an error repeats of its title, and the number that the title takes from it. */
const REPEATED =
  /^the (?:\w+ at the )?model vendor (?:re\w+ the \w+|has (no credit))( \((\d+)\))?[;:]? ?/;
/** The provider answered, and nothing of the answer can be used. */
const UNUSABLE = /^the model(?:'s answer| used| vendor's filter)/;

const CANCELS: Record<string, string> = {
  interrupted: "Cancelled by a newer message",
  client_gone: "Cancelled, the client disconnected",
};

const RETRIES: Record<string, string> = {
  overloaded: "Overloaded",
  rate_limited: "Rate limited",
  unavailable: "Provider error",
  unreachable: "Provider not reachable",
  timeout: "No answer in time",
  cut: "Answer cut off",
  unusable: "Unusable answer",
  engine_crashed: "Engine crashed",
};

/** What may have to be changed before a try can succeed, where the error does not say it. */
const HINTS: Record<string, string> = {
  unreachable: "If it goes on, check the network and the profile's address.",
  unusable: "If it goes on, check the profile's address and model.",
};
const ASKS = /\b(?:check|pay)\b|\?/;

/** Why an answer without words ended; the usual reason explains nothing. */
const EMPTY: Record<string, string> = {
  max_tokens: "output limit reached",
  refusal: "the model refused",
};

/** `last` is the newest message of the turn. */
export function outcomeTitle(outcome: TurnOutcome, last: Message | undefined): string {
  const { code, retry } = outcome;
  const error = outcome.error ?? "";
  switch (outcome.state) {
    case "failed":
      return `Failed: ${failureWords({ code: code ?? "", error })}`;
    case "cancelled": {
      const { started_at, ended_at } = outcome;
      const took = ended_at == null ? "" : ` after ${span(ended_at - started_at)}`;
      return `${CANCELS[code ?? ""] ?? "Cancelled"}${took}`;
    }
    case "empty": {
      const why = EMPTY[last?.meta?.stopReason ?? ""];
      return why ? `Empty answer: ${why}` : "Empty answer";
    }
    case "retrying":
      return retry ? (RETRIES[retry.code] ?? retry.code) : "Retrying";
  }
}

function failure(code: string | null | undefined, error: string): string {
  const [, unpaid, number = "", status = ""] = REPEATED.exec(error) ?? [];
  const denied = status === "403" ? "provider denied access" : undefined;
  const known = unpaid ? "no credit at the provider" : denied;
  return `${known ?? FAILURES[code ?? ""] ?? (code || "unknown reason")}${number}`;
}

/** Whether a change of its model profile may help. */
export function isAboutProfile({ code, error, state }: TurnOutcome): boolean {
  const status = REPEATED.exec(error ?? "")?.[3];
  return state === "failed" && (code === "provider_auth" || status === "404");
}

/** `try 2 of 4`, with the attempt of the turn where that is not the first. */
export function tryWords({ attempt, of, scope, try: number }: RetryInfo): string {
  if (number == null) return "";
  if (scope === "turn") return `attempt ${number} of ${of} of the turn`;
  return `${attempt == null ? "" : `attempt ${attempt} of the turn, `}try ${number} of ${of}`;
}

/** `try 2 of 4, next in 8 s` */
export function retryWords(retry: RetryInfo, now: number): string {
  const number = retry.try == null ? "" : `${tryWords(retry)}, `;
  const rest = restWords(retry, now);
  return number + (rest ? `next ${rest}` : "now");
}

/** `in 8 s`; nothing when it is time. */
function restWords({ next_at }: RetryInfo, now: number): string | undefined {
  const rest = Math.ceil((next_at - now) / 1000);
  if (rest <= 0) return undefined;
  return `in ${rest < 60 ? `${rest} s` : span(rest * 1000)}`;
}

/** `Overloaded, next try in 8 s`: the same outside of the conversation, which counts the tries. */
export function pauseWords(retry: RetryInfo, now: number): string {
  return `${RETRIES[retry.code] ?? retry.code}, next try ${restWords(retry, now) ?? "now"}`;
}

/** `provider rejected the key (401)`: why something failed, as a title says it. */
export function failureWords({ code, error }: Failure): string {
  return UNUSABLE.test(error) ? "no usable answer from the model" : inert(failure(code, error));
}

/** What there is to know beside the title. */
export function outcomeDetails(outcome: TurnOutcome, last: Message | undefined): string {
  const error = (outcome.error ?? "").replace(REPEATED, "");
  const parts = error ? [visible(sentence(error))] : [];
  if (outcome.state === "cancelled" && last?.role === "assistant" && textOf(last.content)) {
    parts.push("The answer above is incomplete.");
  }
  if (outcome.state === "failed") {
    const calls = outcome.tools_run;
    const verb = calls === 1 ? "was" : "were";
    parts.push(calls ? `${plural(calls, "tool call")} ${verb} run.` : "No tool was run.");
  }
  if (outcome.state === "retrying" && !ASKS.test(error)) {
    parts.push(HINTS[outcome.retry?.code ?? ""] ?? "No action needed.");
  }
  const used = last?.meta?.usage?.output;
  if (outcome.state === "empty" && used) parts.push(`${used} output tokens were used.`);
  return parts.join(" ");
}
