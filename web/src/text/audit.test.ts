import { expect, test } from "vitest";
import type { AuditInfo } from "../api/types";
import { outcomeWords, sentence, standing } from "./audit";

const row = (kind: string, outcome: string, fields: object, over: object = {}) =>
  ({ kind, outcome, arguments: fields, ...over }) as AuditInfo;
const NONE = { agents_added: [], agents_removed: [], agents_changed: [], hive_changed: false };
const config = (outcome: string, fields: object) =>
  row("change", outcome, { ...NONE, problems: [], needs_restart: [], ...fields });
const bash = { tool: "bash", agent: "main" };

test.each([
  [row("call", "ok", { command: "ls" }, bash), "ls"],
  // A tool may be called anything; only the kind says what a row is.
  [row("call", "granted", { command: "ls" }, bash), "ls"],
  [row("decision", "approved", { command: "rm -rf build" }, bash), "rm -rf build"],
  [row("decision", "did_not", { note: "No mail." }, bash), "Marked as not done: No mail."],
  [
    row("change", "signed_in", { browser: "b", name: "Ines", role: "viewer" }),
    "Ines (viewer) signed in with a browser",
  ],
  [row("change", "token_made", { name: "operator", role: "operator" }), "Token operator created"],
  [row("change", "granted", { command: "git push", until: null }, bash), "bash git push allowed"],
  [row("change", "rule_written", { rules: [] }, bash), "Rule for bash added to the policy of main"],
  [config("config_applied", { agents_added: ["reviewer"] }), "reviewer added"],
  [
    config("config_applied", { agents_changed: ["a", "b"], hive_changed: true }),
    "a, b changed; settings of the hive changed",
  ],
  [
    config("config_applied", { agents_removed: ["a"], needs_restart: ["port"] }),
    "a removed; port after a restart",
  ],
  [config("config_applied", {}), "Configuration read again, nothing changed"],
  [
    config("config_kept", { problems: ["skep.yaml:3: no such key"] }),
    "Configuration not applied, 1 error: skep.yaml:3: no such key",
  ],
  [
    config("config_applied", { agents_changed: ["a"], problems: ["a/config.yaml:1: no"] }),
    "a changed, 1 error: a/config.yaml:1: no",
  ],
  [row("contact", "reached", { host: "a.test" }, bash), "a.test was reached"],
  [
    row("contact", "host_unlisted", { host: "a.test" }, bash),
    "a.test was blocked: host unlisted",
  ],
  [row("contact", "unreachable", { host: "a.test" }, bash), "a.test failed: unreachable"],
  [row("checkpoint", "let_go", { rows: 1 }), "1 old row deleted"],
])("a row reads as a sentence", (row, words) => {
  expect(sentence(row)).toBe(words);
});

test.each([
  [row("call", "ok", {}), "done"],
  [row("call", "error", {}), "fail"],
  [row("call", "refused", {}), "stop"],
  [row("contact", "reached", { host: "a.test" }), "done"],
  [row("contact", "host_denied", { host: "a.test" }), "stop"],
  [row("contact", "host_unlisted", { host: "a.test" }), "stop"],
  // What a contact came to is a word of the guard, not one of a call.
  [row("contact", "ok", { host: "a.test" }), "stop"],
  [config("config_applied", { agents_changed: ["a"] }), "done"],
  [config("config_applied", { problems: ["a"] }), "fail"],
  [config("config_kept", { problems: ["a"] }), "fail"],
  // The arguments of a call are its own.
  [row("call", "ok", { problems: ["a"] }), "done"],
  [row("break", "found", {}), "fail"],
])("only what was done has the mark of it", (row, mark) => {
  expect(standing(row)).toBe(mark);
});

test("an outcome is read as words", () => {
  expect(outcomeWords(config("config_applied", {}))).toBe("config applied");
});
