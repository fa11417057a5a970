// What an approval asks for, in plain words.

import type { ApprovalInfo, HostListing, HostStanding, Scope } from "../api/types";
import { visible } from "./visible";

/** A command that is decided beside its row has to be seen whole there. */
const LINES = 4;
const CHARACTERS = 400;

const VERBS: Record<string, string> = {
  read: "read",
  write: "change",
  run: "run",
  reach: "reach",
};
/** Arguments that the summary of a call is taken from. */
const NAMED = ["command", "file_path", "path", "url", "host"];

/** `wants to …` do this, with that: a command, a path or an address. */
export function wish(approval: ApprovalInfo): { verb: string; about: string } {
  const verb = VERBS[approval.class];
  const named = NAMED.some((name) => typeof approval.arguments[name] === "string");
  if (verb && named) return { verb, about: visible(approval.summary) };
  // Said with its verb.
  if (approval.class === "shape") {
    const [does = "", ...about] = visible(approval.summary).split(" ");
    return { verb: does, about: about.join(" ") };
  }
  return { verb: "use", about: approval.tool };
}

export function wishWords(approval: ApprovalInfo): string {
  const { verb, about } = wish(approval);
  return `${verb} ${about}`;
}

/** What runs: the command as it is, other arguments apart from it. */
export function exact(approval: ApprovalInfo): { text: string; rest: string } {
  const { command, ...others } = approval.arguments;
  if (typeof command !== "string") return { text: visible(approval.shown), rest: "" };
  // As JSON each stays in its line, so that none can look like another one.
  const rest = Object.entries(others).map((one) => one.map((part) => JSON.stringify(part)));
  return { text: visible(command), rest: visible(rest.map((one) => one.join(": ")).join("\n")) };
}

/** What the hive would dial, where the call names a host. */
export function hostOf(approval: ApprovalInfo): HostStanding | undefined {
  return approval.why?.host ?? undefined;
}

export const STANDINGS: Record<HostListing, string> = {
  listed: "listed for this agent",
  unlisted: "not listed for this agent",
  denied: "denied for this agent",
};

/** Where programs run and what they reach, of a call or of an agent. */
export interface Walls {
  sandbox?: string | null;
  network?: string | null;
}

export type Danger = "no walls" | "full network";

/** What is unusual about them. */
export function danger(of: Walls): Danger | undefined {
  if (of.sandbox === "host") return "no walls";
  return of.network === "open" || of.network === "full" ? "full network" : undefined;
}

export function isShort(approval: ApprovalInfo): boolean {
  const { shown } = approval;
  return shown.length <= CHARACTERS && shown.split("\n").length <= LINES;
}

/** `23 h 38 min`, `38 min`, `under a minute`. */
export function left(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "under a minute";
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Who may answer: one of each list. */
export function approverWords(approval: ApprovalInfo): string {
  return approval.approvers.map((list) => list.join(" or ")).join(", and ");
}

/** Why whoever looks may not answer. */
export function refusal(approval: ApprovalInfo): string {
  if (approverWords(approval) === "role:operator") {
    return "Only operators can approve; you have view access.";
  }
  const why = approval.refused ?? "";
  return `${why.charAt(0).toUpperCase()}${why.slice(1)}.`;
}

export const SCOPE_WORDS: Record<Scope, string> = {
  once: "once",
  session: "for this conversation",
  always: "always",
};

const FROM: Record<string, string> = {
  page: "in the dashboard",
  terminal: "in the terminal",
  rest: "through the API",
  websocket: "in a channel",
};

/** `Approved once by Ines, 14:33, in the dashboard`; lists have the time elsewhere. */
export function verdict(approval: ApprovalInfo, time = ""): string {
  const { decision, state } = approval;
  if (state === "expired") return "Expired, can be reopened";
  if (state === "withdrawn") return "Withdrawn: its turn ended before a decision";
  if (!decision) return "";
  const what = state === "denied" ? "Denied" : `Approved ${SCOPE_WORDS[decision.scope]}`;
  const pattern = decision.from.startsWith("pattern of ");
  const from = pattern ? "by the pattern of another approval" : (FROM[decision.from] ?? "");
  const who = [`by ${decision.by}`, time, from].filter((part) => part !== "").join(", ");
  const note = decision.note && !pattern ? `: ${visible(decision.note)}` : "";
  const unused = state === "approved" && decision.used == null ? ", not used" : "";
  return `${what} ${who}${unused}${note}`;
}

/** What a lasting approval allows, beside its verdict. */
export function allowed({ commands, decision, state, tool }: ApprovalInfo): string[] {
  if (state !== "approved" || !decision || decision.scope === "once") return [];
  if (decision.patterns?.length) return decision.patterns;
  // Of earlier ones without patterns: what the call names.
  return commands.length ? commands.map(({ text }) => text) : [`every call of ${tool}`];
}

/** Words people type to answer, alone in a message. */
const ANSWERS = /^(y|yes|yep|yeah|ok|okay|sure|approved?|go( ahead)?|do it|allow|n|no|nope|deny)$/i;

/** Whether a message looks like the answer to an approval, which it never is. */
export function looksLikeAnswer(text: string): boolean {
  return ANSWERS.test(text.trim().replace(/[.!]+$/, ""));
}
