import { expect, test } from "vitest";
import type { ItemInfo, TaskInfo } from "../api/types";
import { lineage, NODE, place } from "./lineage";

function task(item_id: string, more: Partial<TaskInfo> = {}): TaskInfo {
  return {
    item_id,
    from: "main",
    agent: "research",
    session_key: "task:r",
    kind: "delegate",
    state: "done",
    item_state: "done",
    hops: 1,
    open: 0,
    preview: `work of ${item_id}`,
    created_at: 1000,
    ended_at: 3000,
    ...more,
  };
}

function root(chain: TaskInfo[], more: Partial<ItemInfo> = {}): ItemInfo {
  return {
    item_id: "r",
    message_id: "m",
    agent: "main",
    session_key: "main",
    kind: "message",
    priority: "normal",
    state: "done",
    attempts: 0,
    preview: "make a book",
    text: "make a book",
    from: "person:Ines",
    channel: "ws:1",
    steps: 1,
    created_at: 0,
    started_at: 0,
    finished_at: 2000,
    ord: 1,
    chain,
    ...more,
  } as ItemInfo;
}

const whoIs = (name: string) => name.replace("person:", "");
const lines = (of: ItemInfo, picked = "r") =>
  lineage(of, picked, whoIs, 10_000).map(
    (node) => `${"  ".repeat(node.depth)}${node.who} ${node.how} ${node.what} ${node.state}`,
  );

test("tasks stand below what gave them", () => {
  const chain = [
    task("a"),
    task("b", { agent: "press", kind: "query" }),
    task("s", { agent: "operator", kind: "shape", preview: 'spawn_team {"name":"x","y":1}' }),
    task("q", { from: "research", agent: "main", kind: "escalate", parent_task: "a" }),
    task("o", { agent: "operator", kind: "question", parent_task: "q", state: "open" }),
  ];
  expect(lines(root(chain))).toEqual([
    "Ines  ws ",
    "  main  make a book done",
    "    research delegate_task work of a done",
    "      main escalate work of q done",
    "        operator question work of o waiting",
    "    press query_team work of b done",
    "    operator change spawn_team x done",
  ]);
});

test("approvals stand with the turn that asked", () => {
  const approvals = [
    { id: "p1", item_id: "a", tool: "bash", state: "approved", decided_by: "operator" },
    { id: "p2", item_id: "a", tool: "write", state: "open" },
  ].map((one) => ({ ...one, asked_at: 1, decided_at: null }));
  const of = root([task("a")], { approvals: approvals as NonNullable<ItemInfo["approvals"]> });
  expect(lines(of).slice(3)).toEqual([
    "      approval bash approved by operator approved",
    "      approval write waiting waiting",
  ]);
});

test("an open task of an agent is no wait for a person", () => {
  const open = task("a", { state: "open", item_state: "done", ended_at: null, open: 1 });
  const [, , node] = lineage(root([open]), "a", whoIs, 10_000);
  expect(node).toMatchObject({ mark: "run", state: "open", when: "9.0 s", picked: true });
});

test("children stand beside their parent and none on another", () => {
  const chain = ["a", "b", "c"].map((id) => task(id));
  const nodes = lineage(root(chain), "r", whoIs);
  const { placed, width, height } = place(nodes);
  const [sender, first, a, b, c] = placed;
  expect(sender!.y).toBe(first!.y);
  expect(first!.y).toBe(b!.y);
  expect(b!.y - a!.y).toBe(NODE.height + NODE.gap);
  expect([a!.x, b!.x]).toEqual([c!.x, c!.x]);
  expect(c!.y + NODE.height).toBeLessThanOrEqual(height);
  expect(c!.x + c!.width).toBeLessThanOrEqual(width);
  expect(place([])).toMatchObject({ placed: [], width: 2 });
});

test("work that is tried again is told from work that waits, a failure without its code", () => {
  const chain = [
    task("a", { state: "open", item_state: "waiting" }),
    task("b", { state: "open", item_state: "pending" }),
    task("c", { state: "failed", code: "provider_auth", result: "no key" }),
  ];
  const of = root(chain, { state: "pending", turn: "t" });
  const retries = (one: { session_key: string }) => one.session_key === "task:r";
  const seen = lineage(of, "r", whoIs, 10_000, (one) => one.turn === "t" || retries(one));
  // Of what is queued nothing says whether it was begun.
  expect(seen.map(({ mark, state, result }) => [mark, state, result])).toEqual([
    ["done", "", undefined],
    ["queue", "retrying", undefined],
    ["queue", "retrying", undefined],
    ["queue", "queued", undefined],
    ["fail", "failed", "provider rejected the key"],
  ]);
});
