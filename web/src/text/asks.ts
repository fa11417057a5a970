// What an approval asks for, in plain words.

import type { ApprovalInfo } from "../api/types";
import { mainArgument } from "./calls";
import { title } from "./format";
import { visible } from "./visible";

/** A command that is decided beside its row has to be seen whole there. */
const LINES = 4;
const CHARACTERS = 400;

/** `wants to …` */
export function wish(approval: ApprovalInfo): string {
  const about = title(visible(mainArgument(approval.arguments)));
  switch (approval.class) {
    case "read":
      return `read ${about || approval.tool}`;
    case "write":
      return about ? `change ${about}` : `use ${approval.tool}`;
    case "run":
      return "run a command";
    case "reach":
      return about ? `reach ${about}` : `reach out with ${approval.tool}`;
    case "shape":
      return `change the hive with ${approval.tool}`;
    default:
      return `use ${approval.tool}`;
  }
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

/** Who decided, how far and from where, in one line. */
export function verdict(approval: ApprovalInfo): string {
  const decision = approval.decision;
  if (approval.state === "expired") return "Expired, can be reopened";
  if (approval.state === "withdrawn") return "Its turn ended before anybody decided";
  if (!decision) return "";
  const note = decision.note ? `: ${decision.note}` : "";
  const from = decision.from ? `, from ${decision.from}` : "";
  if (approval.state === "denied") return `${decision.by} denied${note}${from}`;
  const unused = decision.used == null ? ", not used" : "";
  return `${decision.by}, ${decision.scope}${from}${note}${unused}`;
}
