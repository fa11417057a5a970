// What needs a person: the one list behind the title of Home.

import type { ApprovalInfo, HiveState, InboxItem, UnknownCall } from "../api/types";
import { sentence } from "../text/format";
import { inert, visible } from "../text/visible";
import type { Question } from "./questions";
import { href, talkOf } from "./route";
import { isFailure } from "./standing";

export interface Need {
  /** The same for the same thing. */
  id: string;
  agent: string;
  /** Both empty for an approval and a question, which say it themselves. */
  what: string;
  why: string;
  at?: number;
  /** Where the talk is. */
  open?: string;
  /** Without one of these two, something failed. */
  approval?: ApprovalInfo;
  question?: Question;
  /** What a turn failed at. */
  item?: string;
  /** A person sent it, and may again. */
  again?: boolean;
  /** A call whose outcome somebody has to say. */
  unknown?: UnknownCall;
}

export function needs(
  state: { snapshot?: HiveState; recent: InboxItem[] },
  approvals: ApprovalInfo[],
  questions: Question[],
  dismissed: (item: string) => boolean,
  now = Date.now(),
): Need[] {
  const { snapshot } = state;
  if (!snapshot) return [];
  const list: Need[] = [];
  for (const agent of snapshot.agents) {
    if (agent.missing_tools?.length) {
      const why = agent.missing_tools.join(", ");
      const id = `tools ${agent.name}`;
      list.push({ id, agent: agent.name, what: "has tools that are not available", why });
    }
    if (agent.policy_error) {
      const what = "has a policy that cannot be read: all of its tool calls are denied";
      const why = visible(agent.policy_error);
      list.push({ id: `policy ${agent.name}`, agent: agent.name, what, why });
    }
    if (agent.status !== "failed") continue;
    const why = agent.error ?? "its settings are broken";
    list.push({ id: `agent ${agent.name}`, agent: agent.name, what: "cannot work", why });
  }
  for (const call of snapshot.unknown_calls) {
    list.push({
      id: `call ${call.turn} ${call.call_id}`,
      agent: call.agent,
      what: `does not know the outcome of ${call.tool}`,
      why: "It was running when the hive stopped and was not repeated.",
      at: call.at,
      open: href(talkOf(call)),
      unknown: call,
    });
  }
  const names = new Set<string>(snapshot.agents.map(({ name }) => name));
  const talks = new Set<string>();
  for (const item of state.recent) {
    const talk = `${item.agent}\n${item.session_key}`;
    // What was said after it in the same talk has dealt with it.
    if (talks.has(talk)) continue;
    talks.add(talk);
    if (!isFailure(item, now) || dismissed(item.item_id)) continue;
    list.push({
      id: item.item_id,
      agent: item.agent,
      what: `failed: ${inert(item.preview.split("\n", 1)[0] ?? "")}`,
      why: visible(sentence(item.error?.error ?? "The turn failed.")),
      at: item.finished_at ?? item.created_at,
      item: item.item_id,
      // The conversations of an agent that was removed lead nowhere.
      ...(names.has(item.agent)
        ? { open: href(talkOf(item)), again: item.kind === "message" }
        : {}),
    });
  }
  const failures = list.sort((a, b) => (b.at ?? now) - (a.at ?? now));
  // Approvals first: what comes later moves none of their buttons.
  return [...approvals.map(asked), ...questions.map(asks), ...failures];
}

/** What was answered stays for a moment, and needs nobody. */
export const isOpen = (need: Need) => need.question?.ended === undefined;

/** They come soonest expiry first. */
function asked(approval: ApprovalInfo): Need {
  return {
    id: approval.id,
    agent: approval.agent,
    what: "",
    why: "",
    at: approval.asked_at,
    open: href({ page: "approvals", id: approval.id }),
    approval,
  };
}

/** They come oldest first. */
function asks(question: Question): Need {
  return {
    id: question.id,
    agent: question.agent,
    what: "",
    why: "",
    at: question.created_at,
    open: href(talkOf(question)),
    question,
  };
}
