// What a row of the audit trail says, in one line; the record itself is shown below it.

import type { AuditInfo } from "../api/types";
import { mainArgument } from "./calls";
import { clock, plural } from "./format";

type Fields = Record<string, unknown>;

export function sentence(row: AuditInfo): string {
  const fields = (row.arguments ?? {}) as Fields;
  if (row.kind === "contact") return contact(String(fields["host"]), row);
  const words = row.kind === "call" ? undefined : WORDS[row.outcome]?.(fields, row);
  return words ?? mainArgument(row.arguments);
}

/** `config_applied` is read as `config applied`. */
export function outcomeWords(row: AuditInfo): string {
  return row.outcome.replaceAll("_", " ");
}

const FAILED = ["error", "unknown", "timeout", "config_kept"];

/** Whether a row says that something was refused, that it failed, or that it was done. */
export function standing(row: AuditInfo): "stop" | "fail" | "done" {
  if (row.kind === "contact") return row.outcome === "reached" ? "done" : "stop";
  if (["refused", "denied", "cancelled"].includes(row.outcome)) return "stop";
  if (FAILED.includes(row.outcome) || row.kind === "break") return "fail";
  const isChange = row.kind === "change";
  return isChange && problemsOf((row.arguments ?? {}) as Fields).length ? "fail" : "done";
}

/** Nobody forbade these: the host did not answer, or the connection was not used. */
const FAILURES = ["connect_timeout", "idle", "name_unknown", "unreachable"];

function contact(host: string, row: AuditInfo): string {
  if (row.outcome === "reached") return `${host} was reached`;
  const became = FAILURES.includes(row.outcome) ? "failed" : "was blocked";
  return `${host} ${became}: ${outcomeWords(row)}`;
}

const who = ({ name, role }: Fields) => (name === role ? `${name}` : `${name} (${role})`);

const WORDS: Record<string, (fields: Fields, row: AuditInfo) => string> = {
  signed_in: (fields) => `${who(fields)} signed in with a browser`,
  signed_out: (fields) => `${who(fields)} signed out of a browser`,
  token_made: (fields) => `Token ${who(fields)} created`,
  token_revoked: (fields) => `Token ${who(fields)} revoked`,
  granted: (fields, row) => {
    const about = [fields["command"], fields["path"], fields["host"]].filter((one) => one != null);
    const until = typeof fields["until"] === "number" ? ` until ${clock(fields["until"])}` : "";
    return `${[row.tool, ...about].join(" ")} allowed${until}`;
  },
  grant_revoked: (_, row) => `Grant for ${row.tool} revoked`,
  rule_written: (_, row) => `Rule for ${row.tool} added to the policy of ${row.agent}`,
  config_applied: (fields) =>
    (changes(fields) || "Configuration read again, nothing changed") + errors(fields),
  config_kept: (fields) => `Configuration not applied${errors(fields)}`,
  let_go: (fields) => `${plural(Number(fields["rows"]), "old row")} deleted`,
  happened: (fields) => `Marked as done${note(fields)}`,
  did_not: (fields) => `Marked as not done${note(fields)}`,
  run_again: (fields) => `Run again${note(fields)}`,
};

function changes(fields: Fields): string {
  const agents = (name: string, verb: string) => {
    const named = list(fields[name]);
    return named.length ? [`${named.join(", ")} ${verb}`] : [];
  };
  const restart = list(fields["needs_restart"]);
  return [
    ...agents("agents_added", "added"),
    ...agents("agents_removed", "removed"),
    ...agents("agents_changed", "changed"),
    ...(fields["hive_changed"] === true ? ["settings of the hive changed"] : []),
    ...(restart.length ? [`${restart.join(", ")} after a restart`] : []),
  ].join("; ");
}

const problemsOf = (fields: Fields) => list(fields["problems"]);

function errors(fields: Fields): string {
  const problems = problemsOf(fields);
  return problems.length ? `, ${plural(problems.length, "error")}: ${problems[0]}` : "";
}

const list = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const note = (fields: Fields) => (fields["note"] ? `: ${fields["note"]}` : "");
