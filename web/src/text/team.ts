// What stands in the picture of an agent, in few words.

import type { AgentDay, AgentInfo, ApprovalInfo } from "../api/types";
import type { RunningTurn } from "../state/hive";
import { retryOf } from "../state/standing";
import type { TeamStanding } from "../state/team";
import { wishWords } from "./asks";
import { count, money, span, title } from "./format";
import { pauseWords } from "./outcomes";
import { inert } from "./visible";

/** What of the day is used, and of how much. */
export function spendWords(day: AgentDay): string {
  const { calls, tokens, known_cost: cost, unpriced_calls: unpriced } = day;
  const used = `${count(tokens)} tokens`;
  if (day.cost_per_day != null) return `${money(cost)} of ${round(day.cost_per_day)}`;
  if (day.tokens_per_day != null) return `${count(tokens)} of ${count(day.tokens_per_day)} tokens`;
  // A local model costs nothing, and a price may be unknown: tokens say more.
  if (calls > 0 && (unpriced === calls || cost === 0)) return used;
  return unpriced ? `${money(cost)} and more` : money(cost);
}

const round = (dollars: number) => (Number.isInteger(dollars) ? `$${dollars}` : money(dollars));

/** From 0 to 1; nothing where nothing limits the day. */
export function spendShare(day: AgentDay): number | undefined {
  const shares = [
    [day.known_cost, day.cost_per_day],
    [day.tokens, day.tokens_per_day],
  ] as const;
  const limited = shares.flatMap(([used, limit]) => (limit ? [Math.min(1, used / limit)] : []));
  return limited.length ? Math.max(...limited) : undefined;
}

export function queueWords(agent: AgentInfo): string {
  const queued = agent.work?.queued ?? 0;
  return queued ? `${queued} queued` : "no queue";
}

/** In place of tools such as `bash`, what is meant with them. */
export function approvalWords(approval: ApprovalInfo): string {
  return title(wishWords(approval), 60);
}

interface Doing {
  agent: AgentInfo;
  standing: TeamStanding;
  turn: RunningTurn | undefined;
  approval: ApprovalInfo | undefined;
  asks: boolean;
  now: number;
}

/** What an agent does now, and whether a person is needed for that. */
export function doingWords(of: Doing): { text: string; need: boolean; bad?: boolean } {
  const { agent, standing, turn, approval, asks, now } = of;
  const since = turn ? ` · ${span(Math.max(0, now - turn.since))}` : "";
  if (standing === "failed") {
    const text = (agent.error ?? "its settings have a mistake").replace(/^\S*\/teams\/[^/]+\//, "");
    return { text: title(text), need: false, bad: true };
  }
  if (approval) return { text: `Approval: ${approvalWords(approval)}`, need: true };
  if (asks) return { text: "Question for you", need: true };
  const retry = retryOf(turn, now);
  if (retry) return { text: pauseWords(retry, now), need: false };
  const does = title(agent.doing ?? turn?.body ?? "");
  if (standing === "waiting") {
    return { text: `Waiting: ${inert(turn?.waiting_for ?? "another try")}${since}`, need: false };
  }
  if (standing === "running") return { text: `${does || "Working"}${since}`, need: false };
  if (standing === "paused") return { text: "Paused", need: false };
  if (standing === "stopped") return { text: "Stopped", need: false };
  return { text: title(agent.doing ?? agent.description), need: false };
}
