// The parts of a prompt, and how they are called where there is little room.

import type { PromptPartInfo } from "../api/types";

/** Whose file of rules it is: `teams/cto/org-rules/style.md` is one of `cto`. */
const ownerOf = (source: string | null | undefined) => source?.split("/")[1] ?? "";

/** Where a rule comes from. */
export function tierWords({ tier, source }: PromptPartInfo): string {
  switch (tier) {
    case "hive":
      return "hive";
    case "above":
      return `from ${ownerOf(source)}`;
    case "own_org":
      return "own, for its team";
    default:
      return "own";
  }
}

export interface PromptSum {
  title: string;
  tokens: number;
}

/** What of the prompt comes from where, in the order in which it stands there. */
export function promptSums(parts: PromptPartInfo[]): PromptSum[] {
  const sums: PromptSum[] = [];
  for (const part of parts) {
    const title = sumTitle(part);
    const known = sums.find((one) => one.title === title);
    if (known) known.tokens += part.tokens;
    else sums.push({ title, tokens: part.tokens });
  }
  return sums;
}

function sumTitle({ part, tier, source }: PromptPartInfo): string {
  if (part === "tools") return "Tools";
  if (part === "system" || tier === "hive") return "System and hive rules";
  if (tier === "above") return `Rules of ${ownerOf(source)}`;
  return part === "rules" ? "Own rules" : "About the agent";
}
