import { afterEach, expect, test, vi } from "vitest";
import type { HiveState } from "../api/types";
import { createApprovals } from "./approvals";
import type { Listener, Live } from "./live";

afterEach(() => void vi.useRealTimers());

test("buttons are still for a moment after the list has changed, and not otherwise", async () => {
  vi.useFakeTimers();
  let open = [{ id: "a1", expires_at: 1 }];
  vi.stubGlobal("fetch", async (path: string) =>
    Response.json({ approvals: path.includes("open") ? open : [] }),
  );
  let listener: Listener | undefined;
  const approvals = createApprovals({ on: (one: Listener) => void (listener = one) } as Live);
  const look = () => {
    listener?.snapshot({} as HiveState);
    return vi.advanceTimersByTimeAsync(100);
  };
  await look();
  expect(approvals.moved()).toBe(true);
  await vi.advanceTimersByTimeAsync(500);
  await look();
  expect(approvals.moved()).toBe(false);
  open = [{ id: "a2", expires_at: 1 }];
  await look();
  expect(approvals.moved()).toBe(true);
});

test("a decision is about the call of its own turn: vendors give ids anew", async () => {
  const decision = { by: "Ines", at: 1, from: "page", scope: "once" };
  const given = { id: "a1", turn: "t1", call: "toolu_1", state: "approved", decision };
  vi.stubGlobal("fetch", async (path: string) =>
    Response.json({ approvals: path.includes("decided") ? [given] : [] }),
  );
  let listener: Listener | undefined;
  const approvals = createApprovals({ on: (one: Listener) => void (listener = one) } as Live);
  listener?.snapshot({} as HiveState);
  await vi.waitFor(() => expect(approvals.state.loaded).toBe(true));
  expect(approvals.decidedOn("t1", "toolu_1")?.id).toBe("a1");
  expect(approvals.decidedOn("t2", "toolu_1")).toBeUndefined();
});

test("calls of one message stand in their order, what expires first before them", async () => {
  const newestFirst = [
    { id: "later", expires_at: 3 },
    { id: "third", expires_at: 2 },
    { id: "second", expires_at: 2 },
    { id: "first", expires_at: 2 },
  ];
  vi.stubGlobal("fetch", async (path: string) =>
    Response.json({ approvals: path.includes("open") ? newestFirst : [] }),
  );
  let listener: Listener | undefined;
  const approvals = createApprovals({ on: (one: Listener) => void (listener = one) } as Live);
  listener?.snapshot({} as HiveState);
  await vi.waitFor(() => expect(approvals.state.loaded).toBe(true));
  const order = approvals.state.open.map((one) => one.id);
  expect(order).toEqual(["first", "second", "third", "later"]);
});
