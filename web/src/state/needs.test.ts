import { expect, test } from "vitest";
import type { AgentInfo, HiveState, InboxItem } from "../api/types";
import { isOpen, needs } from "./needs";

const now = 1_800_000_000_000;
const none = () => false;

function snapshot(over: Partial<HiveState>): HiveState {
  const config = { problems: [], needs_restart: [] };
  const integrity = { state: "ok" };
  const times = { started_at: 0, uptime_ms: 0 };
  const hive = { version: "0", ...times, model_note: "", store: "ok", config, integrity };
  const work = { running: 0, waiting: 0, queued: 0 };
  return { seq: 1, hive, agents: [], turns: [], work, unknown_calls: [], approvals: [], ...over };
}

function item(state: InboxItem["state"], key: string, age = 0): InboxItem {
  return {
    item_id: "i",
    message_id: "m",
    agent: "main",
    session_key: key,
    kind: "message",
    priority: "normal",
    state,
    attempts: 1,
    preview: "fix it\nplease",
    error: { code: "dead", error: "Tried three times." },
    created_at: now - age,
    ord: 1,
  };
}

test("nothing before the first snapshot", () => {
  expect(needs({ recent: [item("failed", "main")] }, [], [], none, now)).toEqual([]);
});

test("a failure counts until the talk went on, and for a day", () => {
  const whats = (recent: InboxItem[]) =>
    needs({ snapshot: snapshot({}), recent }, [], [], none, now).map((need) => need.what);
  expect(whats([item("failed", "main")])).toEqual(["failed: fix it"]);
  expect(whats([item("dead", "main")])).toEqual(["failed: fix it"]);
  expect(whats([item("done", "main"), item("failed", "main")])).toEqual([]);
  expect(whats([item("done", "other"), item("failed", "main")])).toEqual(["failed: fix it"]);
  expect(whats([item("failed", "main", 25 * 3600 * 1000)])).toEqual([]);
  expect(whats([item("cancelled", "main")])).toEqual([]);
});

test("a failure that was dismissed stays away, and so do older ones of its conversation", () => {
  const recent = [item("failed", "main"), { ...item("failed", "main"), item_id: "older" }];
  expect(needs({ snapshot: snapshot({}), recent }, [], [], (id) => id === "i", now)).toEqual([]);
});

test("unknown outcomes and broken agents", () => {
  const broken = {
    name: "books",
    description: "",
    status: "failed" as const,
    error: "line 3",
    engine: "native",
    model: "",
    work: { running: 0, waiting: 0, queued: 0 },
  };
  const lacking = { ...broken, name: "plug", status: "active", missing_tools: ["a.b"] };
  const denied = { ...broken, name: "shut", status: "active", policy_error: "config.yaml:3: aks" };
  const place = { turn: "t", call_id: "c", agent: "main", session_key: "main" };
  const call = { ...place, tool: "bash", at: now - 5 };
  const list = needs(
    {
      snapshot: snapshot({ agents: [broken, lacking, denied], unknown_calls: [call] }),
      recent: [],
    },
    [],
    [],
    none,
    now,
  );
  expect(list.at(-1)?.open).toBe("#/chat/main");
  expect(list.map((need) => [need.agent, need.what])).toEqual([
    ["books", "cannot work"],
    ["plug", "has tools that are not available"],
    ["shut", "has a policy that cannot be read: all of its tool calls are denied"],
    ["main", "does not know the outcome of bash"],
  ]);
});

test("a question needs somebody until it has ended", () => {
  const times = { created_at: now - 5, until: now + 5 };
  const about = { kind: "question" as const, options: [], multi: false, text: "Why?", ...times };
  const asked = { id: "q", agent: "main", session_key: "main", root: "r", ...about };
  const ended = { ...asked, id: "p", ended: { state: "answered" as const, here: true } };
  const list = needs({ snapshot: snapshot({}), recent: [] }, [], [asked, ended], none, now);
  expect(list.map((need) => [need.id, isOpen(need)])).toEqual([
    ["q", true],
    ["p", false],
  ]);
});

test("a failure of an agent that was removed is told, and leads nowhere", () => {
  const agents = [{ name: "main", status: "active" }] as AgentInfo[];
  const recent = [item("failed", "a"), { ...item("failed", "b"), agent: "gone" }];
  const list = needs({ snapshot: snapshot({ agents }), recent }, [], [], none, now);
  const seen = list.map(({ agent, again, open }) => [agent, again, open]);
  expect(seen).toEqual([
    ["main", true, "#/chat/main?key=a"],
    ["gone", undefined, undefined],
  ]);
});
