import { expect, test, vi } from "vitest";
import type { HiveState } from "../api/types";
import { createHive } from "./hive";
import type { Listener, Live } from "./live";

const now = Date.now();
const item = (ord: number, state: string, key: string, age = 0) => ({
  item_id: `i${ord}`,
  agent: "main",
  session_key: key,
  state,
  ord,
  created_at: now - age,
  finished_at: now - age,
});

test("failures of the last day stay, however many messages come after them elsewhere", async () => {
  const done = Array.from({ length: 100 }, (_, at) => item(200 - at, "done", `k${at}`));
  const failed = [
    item(30, "failed", "open"),
    item(20, "failed", "went on"),
    // Of an agent that was removed nothing is asked.
    { ...item(15, "failed", "gone"), agent: "gone" },
    item(10, "failed", "old", 25 * 3600 * 1000),
  ];
  const asked: string[] = [];
  const snapshot = { turns: [], agents: [{ name: "main" }] };
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path);
    const { pathname, searchParams: given } = new URL(path, "http://hive");
    if (pathname.endsWith("/state")) return Response.json(snapshot);
    if (pathname.endsWith("/history")) {
      const timestamp = given.get("session_key") === "went on" ? now + 1 : now;
      return Response.json({ messages: [{ timestamp }] });
    }
    const before = Number(given.get("after") ?? Infinity);
    const matching = given.get("state") === "failed" ? failed : given.get("state") ? [] : done;
    const items = matching.filter(({ ord }) => ord < before);
    return Response.json({ items, after: items.length === 100 ? items.at(-1)?.ord : null });
  });
  let listener: Listener | undefined;
  const hive = createHive({ on: (one: Listener) => void (listener = one) } as Live);
  listener?.snapshot(snapshot as unknown as HiveState);
  await vi.waitFor(() => expect(hive.state.read).toBe(true));
  expect(hive.state.recent.slice(100).map((one) => one.item_id)).toEqual(["i30", "i15"]);
  // Each is looked at once.
  await hive.refresh();
  expect(asked.filter((path) => path.includes("/history")).length).toBe(2);
});
