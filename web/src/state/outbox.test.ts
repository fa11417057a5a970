import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Event, HiveState, InboxItem } from "../api/types";
import { createDrafts, draftId } from "./drafts";
import type { Listener, Live } from "./live";
import { createOutbox, queued } from "./outbox";

const kept = new Map<string, string>();
beforeEach(() => {
  kept.clear();
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

interface Asked {
  path: string;
  key: string | null;
  body: { message?: string };
  answer: (status: number, body: object) => void;
  proxy: (status: number) => void;
  away: () => void;
}

function page(owner = "me") {
  const asked: Asked[] = [];
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    return new Promise<Response>((resolve, reject) => {
      asked.push({
        path,
        key: new Headers(init.headers).get("Idempotency-Key"),
        body: JSON.parse(String(init.body)),
        answer: (status, body) => resolve(Response.json(body, { status })),
        proxy: (status) => resolve(new Response("<h1>Bad Gateway</h1>", { status })),
        away: () => reject(new TypeError("failed to fetch")),
      });
    });
  });
  let listener: Listener | undefined;
  const link = { away: true };
  const live = {
    on: (one: Listener) => void (listener = one),
    away: () => (link.away ? 1 : undefined),
  } as unknown as Live;
  const drafts = createDrafts(owner);
  const outbox = createOutbox(live, drafts, owner);
  const tell = (event: object) => listener?.event(event as Event);
  const back = () => {
    link.away = false;
    listener?.snapshot({} as HiveState);
  };
  return { asked, drafts, outbox, tell, back };
}

const at = draftId({ agent: "main", key: "main" });
const file = { name: "plan.heic", mime: "image/heic", size: 3, data: "AAAA" };
const words = { agent: "main", sessionKey: "main", draft: at, mode: "queue" as const };
const written = { ...words, text: "hello", files: [] };
const states = ({ outbox }: ReturnType<typeof page>) =>
  outbox.of("main", "main").map((one) => one.state);

test("a message goes out once, however often the hive is away", async () => {
  const here = page();
  here.outbox.send(written);
  here.asked[0]?.away();
  await vi.waitFor(() => expect(here.outbox.of("main", "main")[0]?.late).toBeDefined());
  here.back();
  here.back();
  expect(here.asked.length).toBe(2);
  expect(here.asked[1]?.key).toBe(here.asked[0]?.key);
  here.asked[1]?.answer(202, { item_id: "i1", state: "queued" });
  await vi.waitFor(() => expect(states(here)).toEqual(["queued"]));
  here.tell({ type: "inbox_ended", item: "i1", state: "done" });
  expect(states(here)).toEqual([]);
});

test("what is refused goes back to its draft, with its files and the reason", async () => {
  const here = page();
  here.drafts.change(at, { text: "the next one" });
  here.outbox.send({ ...written, files: [file] });
  here.asked[0]?.answer(422, { code: "file", detail: "plan.heic is no picture." });
  await vi.waitFor(() => expect(states(here)).toEqual([]));
  expect(here.drafts.of(at)).toMatchObject({
    text: "hello\n\nthe next one",
    files: [file],
    problem: "Not sent: plan.heic is no picture.",
  });
  here.drafts.change(at, { files: [] });
  expect(here.drafts.of(at).problem).toBeUndefined();
});

test("a proxy in front of a hive that is away refuses nothing", async () => {
  const here = page();
  here.outbox.send(written);
  for (const [time, status] of [502, 503, 504].entries()) {
    here.asked[time]?.proxy(status);
    await vi.waitFor(() => expect(here.outbox.of("main", "main")[0]?.late).toBeDefined());
    expect(here.drafts.of(at).problem).toBeUndefined();
    await vi.waitFor(() => {
      here.back();
      expect(here.asked.length).toBe(time + 2);
    });
  }
  expect(new Set(here.asked.map(({ key }) => key)).size).toBe(1);
  here.asked[3]?.proxy(413);
  await vi.waitFor(() => expect(here.drafts.of(at).problem).toMatch("The hive answered 413."));
});

test("a request that fails after the hive is back is made again", async () => {
  vi.useFakeTimers();
  const here = page();
  here.outbox.send(written);
  here.back();
  expect(here.asked.length).toBe(1);
  here.asked[0]?.away();
  await vi.advanceTimersByTimeAsync(2000);
  expect(here.asked.length).toBe(2);
});

test("a busy hive is asked again", async () => {
  vi.useFakeTimers();
  const here = page();
  here.outbox.send(written);
  here.asked[0]?.answer(503, { code: "disk_full", detail: "The disk is full." });
  await vi.advanceTimersByTimeAsync(0);
  expect(here.outbox.of("main", "main")[0]?.late).toBe("The disk is full.");
  await vi.advanceTimersByTimeAsync(2000);
  expect(here.asked.length).toBe(2);
});

test("a message whose row is shown before its receipt comes is shown once", async () => {
  const here = page();
  here.outbox.send(written);
  here.outbox.arrived(["i1"]);
  here.asked[0]?.answer(202, { item_id: "i1", state: "started" });
  await vi.waitFor(() => expect(states(here)).toEqual([]));
});

test("a command's answer stays until the next message", async () => {
  const here = page();
  here.outbox.send({ ...written, text: "/status" });
  here.asked[0]?.answer(200, { item_id: "i1", state: "done", note: "All is well." });
  await vi.waitFor(() => expect(here.outbox.of("main", "main")[0]?.note).toBe("All is well."));
  expect(here.outbox.of("main", "other")).toEqual([]);
  here.outbox.send(written);
  expect(states(here)).toEqual(["sending"]);
});

test("a reload keeps what the hive does not have, and says which files are missing", async () => {
  const before = page();
  before.outbox.send(written);
  before.outbox.send({ ...written, text: "with a file", files: [file] });
  const here = page();
  here.back();
  expect(here.asked.map(({ key, body }) => [key, body.message])).toEqual([
    [before.asked[0]?.key, "hello"],
  ]);
  expect(here.drafts.of(at)).toMatchObject({
    text: "with a file",
    problem: "Not sent: the page was reloaded. Attach the files again.",
  });
});

test("what one person did not get sent is not sent by the next one in the tab", () => {
  page("person:ann").outbox.send(written);
  const bob = page("person:bob");
  bob.back();
  expect(bob.asked).toEqual([]);
  expect(states(bob)).toEqual([]);
  const ann = page("person:ann");
  ann.back();
  expect(ann.asked.map(({ body }) => body.message)).toEqual(["hello"]);
});

test("what is queued is known from the hive too, each message once and the oldest first", () => {
  const of = (item_id: string, state: string, kind = "message") =>
    ({ item_id, state, kind, agent: "main", session_key: "main", preview: item_id }) as InboxItem;
  const mine = { ...written, key: "k", item: "mine", mode: "queue" as const };
  const sending = [
    { ...mine, state: "queued" as const },
    { ...mine, item: "begins", state: "started" as const },
  ];
  const items = [
    of("mine", "pending"),
    of("second", "pending"),
    of("begins", "pending"),
    of("stored", "pending"),
    of("taken", "running"),
    of("decided", "pending", "approval"),
    of("first", "pending"),
  ];
  const found = queued(sending, items, (item) => item === "stored");
  expect(found.map((one) => one.item)).toEqual(["first", "second", "mine"]);
});

test("a queued message of another tab comes next when the turn is stopped", async () => {
  const here = page();
  const one = { ...written, key: "item", item: "item", state: "queued" as const };
  const hurried = here.outbox.hurry(one);
  expect(here.asked.map(({ path }) => path)).toEqual(["/api/v1/agents/main/stop"]);
  here.asked[0]?.answer(200, {});
  expect(await hurried).toBeUndefined();
  expect(here.asked.length).toBe(1);
});
