import { expect, test } from "vitest";
import type { ApprovalInfo, DecisionInfo } from "../api/types";
import {
  allowed,
  danger,
  exact,
  hostOf,
  looksLikeAnswer,
  refusal,
  verdict,
  wishWords,
} from "./asks";

const approval = (given: Partial<ApprovalInfo>) =>
  ({ arguments: {}, shown: "", approvers: [["role:operator"]], ...given }) as ApprovalInfo;

test("a command is shown as it is, other arguments apart from it", () => {
  const command = "rm -rf build \\\n  && echo \u202e";
  const forged = { "a\nb": 1, timeout: 'x"\ny' };
  const shown = exact(approval({ arguments: { command, ...forged } }));
  expect(shown.text).toBe("rm -rf build \\\n  && echo ‹U+202E›");
  expect(shown.rest).toBe('"a\\nb": 1\n"timeout": "x\\"\\ny"');
  const write = approval({ arguments: { file_path: "a" }, shown: "file_path: a" });
  expect(exact(write)).toEqual({ text: "file_path: a", rest: "" });
});

test("only what has no walls or the whole network is called dangerous", () => {
  const cases: [string | null, string | null, string | undefined][] = [
    ["confined", "none", undefined],
    ["confined", "listed", undefined],
    ["confined", "host", undefined],
    ["confined", "proxy", undefined],
    [null, null, undefined],
    ["confined", "open", "full network"],
    ["confined", "full", "full network"],
    ["host", "open", "no walls"],
    ["host", "none", "no walls"],
  ];
  for (const [sandbox, network, words] of cases) {
    expect(danger({ sandbox, network }), `${sandbox} ${network}`).toBe(words);
  }
});

test("who decided, when, where and how far", () => {
  const decision: DecisionInfo = { by: "Ines", at: 0, from: "page", scope: "once", used: 1 };
  const decided = (state: ApprovalInfo["state"], given: Partial<DecisionInfo> = {}) =>
    verdict(approval({ state, decision: { ...decision, ...given } }), "14:33");
  expect(decided("approved")).toBe("Approved once by Ines, 14:33, in the dashboard");
  expect(decided("approved", { scope: "session" })).toBe(
    "Approved for this conversation by Ines, 14:33, in the dashboard",
  );
  expect(decided("approved", { used: null, from: "rest" })).toBe(
    "Approved once by Ines, 14:33, through the API, not used",
  );
  expect(decided("denied", { note: "No.\u001b", used: null })).toBe(
    "Denied by Ines, 14:33, in the dashboard: No.‹U+001B›",
  );
  expect(decided("approved", { from: "pattern of 1", note: "covered by 1" })).toBe(
    "Approved once by Ines, 14:33, by the pattern of another approval",
  );
});

test("what a lasting approval allows", () => {
  const decision: DecisionInfo = { by: "Ines", at: 0, from: "page", scope: "session" };
  const commands = [{ text: "date +%Y", patterns: [] }];
  const of = (given: Partial<ApprovalInfo>) =>
    allowed(approval({ state: "approved", tool: "look", commands: [], decision, ...given }));
  expect(of({ decision: { ...decision, patterns: ["echo", "wc"] } })).toEqual(["echo", "wc"]);
  expect(of({ commands })).toEqual(["date +%Y"]);
  expect(of({})).toEqual(["every call of look"]);
  expect(of({ decision: { ...decision, scope: "once" } })).toEqual([]);
  expect(of({ state: "denied" })).toEqual([]);
});

test("why somebody may not decide", () => {
  const refused = "only user:anna may decide this, and Ines (viewer) is not among them";
  expect(refusal(approval({ refused }))).toBe("Only operators can approve; you have view access.");
  const named = approval({ refused, approvers: [["user:anna"]] });
  expect(refusal(named)).toBe(
    "Only user:anna may decide this, and Ines (viewer) is not among them.",
  );
});

test("what an agent wants, in a few words", () => {
  const wants = (given: Partial<ApprovalInfo>) => wishWords(approval(given));
  const command = { command: "psql \\\n -f a" };
  const summary = "psql \u202e …";
  expect(wants({ class: "run", tool: "bash", arguments: command, summary })).toBe(
    "run psql ‹U+202E› …",
  );
  const write = { class: "write", arguments: { file_path: "a.md" }, summary: "a.md" };
  expect(wants({ ...write, tool: "write" })).toBe("change a.md");
  expect(wants({ class: "run", tool: "deploy", arguments: { to: "x" }, summary: "to: x" })).toBe(
    "use deploy",
  );
  const removes = "remove the team red, for good";
  expect(wants({ class: "shape", tool: "shutdown_team", summary: removes })).toBe(removes);
});

test("a typed yes is no answer", () => {
  for (const text of ["yes", " Yes! ", "y", "ok.", "go ahead", "NO"]) {
    expect(looksLikeAnswer(text), text).toBe(true);
  }
  for (const text of ["yes, and then tell me why", "/approve", "yesterday", "", "no, use rsync"]) {
    expect(looksLikeAnswer(text), text).toBe(false);
  }
});

test("a host is shown as the hive would dial it", () => {
  const host = {
    host: "xn--xample-2of.org",
    port: 443,
    url: "https://xn--xample-2of.org/",
    standing: "unlisted" as const,
    entry: "xn--xample-2of.org",
  };
  const why = { effect: "ask" as const, why: "", parts: [], host };
  expect(hostOf(approval({ why }))).toEqual(host);
  expect(hostOf(approval({ why: { ...why, host: null } }))).toBeUndefined();
  const asked = { class: "reach", arguments: { url: "https://еxample.org/" }, summary: host.url };
  expect(wishWords(approval(asked))).toBe("reach https://xn--xample-2of.org/");
});
