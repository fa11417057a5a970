// The settings of an agent in force, as rows of a table.

import type { AgentLimits, EffectiveSettings } from "../api/types";
import { count, money, plural, sentence } from "./format";

/** The key of the file, and what it comes to. */
export type SettingRow = [key: string, value: string];

export function settingRows(of: EffectiveSettings): SettingRow[] {
  const { sandbox, network } = of;
  const hosts = network.hosts.length ? network.hosts.join(", ") : "no hosts";
  const denied = network.deny.length ? `; never ${network.deny.join(", ")}` : "";
  return [
    ["parent", of.parent ?? "none"],
    ["engine", of.engine],
    ["profile", `${of.profile} (${of.model})`],
    ["think", of.think ?? "as the profile says"],
    ["allowed_tools", `${of.allowed_tools.join(" ")} (${plural(of.tools.length, "tool")})`],
    ["max_steps", String(of.max_steps)],
    ["parallel", of.parallel === "one" ? "one turn at a time" : "one turn in each conversation"],
    ["queue_mode", of.queue_mode],
    ["manager", of.manager ? "yes" : "no"],
    ["allowed_recipients", of.allowed_recipients.join(", ")],
    ["workspace", of.workspace],
    ["sandbox", `${sandbox.level}, network ${sandbox.network}`],
    ["network", hosts + denied],
    ["budgets", limits(of.budgets)],
    ["policy", plural(of.policy_rules, "rule")],
  ];
}

function limits(of: AgentLimits): string {
  const said: [string, number | null | undefined, (value: number) => string][] = [
    ["a day", of.cost_per_day, money],
    ["a day", of.tokens_per_day, tokens],
    ["a day with its team", of.team_cost_per_day, money],
    ["a day with its team", of.team_tokens_per_day, tokens],
    ["a turn", of.cost_per_turn, money],
    ["a turn", of.tokens_per_turn, tokens],
    ["a turn", of.turn_seconds, (seconds) => plural(seconds, "second")],
  ];
  const set = said.flatMap(([span, value, words]) =>
    value == null ? [] : [`${words(value)} ${span}`],
  );
  return set.join(", ") || "none";
}

const tokens = (value: number) => `${count(value)} tokens`;

/** What is wrong with a file: the word that was meant before all of those that there are. */
export function problemWords(text: string): string {
  const parts = /^(.*?); (expected .*); (did you mean .*\?)$/s.exec(text);
  const [, before, expected, meant] = parts ?? [];
  return meant ? `${before}; ${meant} ${sentence(expected ?? "")}` : text;
}
