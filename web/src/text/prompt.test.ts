import { expect, test } from "vitest";
import type { PromptPartInfo } from "../api/types";
import { promptSums, tierWords } from "./prompt";

const part = (part: string, tokens: number, more: Partial<PromptPartInfo> = {}) =>
  ({ part, title: part, text: "", bytes: 0, tokens, ...more }) as PromptPartInfo;
const above = { tier: "above", source: "teams/cto/org-rules/style.md" } as const;

test("parts of one origin are counted together", () => {
  const sums = promptSums([
    part("tools", 4000),
    part("system", 900),
    part("rules", 100, { tier: "hive", source: "rules/all.md" }),
    part("rules", 60, { tier: "above", source: "teams/main/org-rules/a.md" }),
    part("rules", 40, above),
    part("rules", 30, { tier: "own_org", source: "teams/api/org-rules/b.md" }),
    part("rules", 20, { tier: "team", source: "teams/api/team-rules/c.md" }),
    part("identity", 5),
    part("availability", 5),
  ]);
  expect(sums).toEqual([
    { title: "Tools", tokens: 4000 },
    { title: "System and hive rules", tokens: 1000 },
    { title: "Rules of main", tokens: 60 },
    { title: "Rules of cto", tokens: 40 },
    { title: "Own rules", tokens: 50 },
    { title: "About the agent", tokens: 10 },
  ]);
});

test("a rule says whose it is", () => {
  expect(tierWords(part("rules", 1, above))).toBe("from cto");
  expect(tierWords(part("rules", 1, { tier: "team" }))).toBe("own");
});
