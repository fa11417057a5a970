import { expect, test } from "vitest";
import type { EffectiveSettings } from "../api/types";
import { problemWords, settingRows } from "./settings";

const SETTINGS: EffectiveSettings = {
  description: "Keeps the books",
  parent: "main",
  engine: "native",
  profile: "default",
  model: "some-model",
  allowed_tools: ["@files", "bash"],
  tools: ["read", "write", "bash"],
  tools_known: 40,
  max_steps: 50,
  manager: false,
  parallel: "one",
  allowed_recipients: ["parent", "operator"],
  queue_mode: "queue",
  workspace: "/home/x/teams/books/work",
  sandbox: { level: "confined", network: "proxy" },
  network: { hosts: ["example.org"], private: [], deny: ["*.test"], requests_per_minute: 60 },
  budgets: { cost_per_day: 4, tokens_per_turn: 90_000, turn_seconds: 60 },
  policy_rules: 1,
};

test("settings in force are said by their keys", () => {
  const rows = Object.fromEntries(settingRows(SETTINGS));
  expect(rows.profile).toBe("default (some-model)");
  expect(rows.allowed_tools).toBe("@files bash (3 tools)");
  expect(rows.network).toBe("example.org; never *.test");
  expect(rows.budgets).toBe("$4.00 a day, 90.0 k tokens a turn, 60 seconds a turn");
  expect(rows.think).toBe("as the profile says");
  expect(rows.policy).toBe("1 rule");
  const none = { ...SETTINGS, parent: null, budgets: {} };
  expect(Object.fromEntries(settingRows(none))).toMatchObject({ parent: "none", budgets: "none" });
});

test("the key that was meant comes before all that there are", () => {
  const place = "teams/a/config.yaml:5:1: `descripton`: unknown key";
  const text = `${place}; expected one of name, description; did you mean \`description\`?`;
  const words = `${place}; did you mean \`description\`? Expected one of name, description.`;
  expect(problemWords(text)).toBe(words);
  const plain = `${place}; expected one of name, description`;
  expect(problemWords(plain)).toBe(plain);
});
