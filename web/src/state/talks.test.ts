import { createRoot } from "solid-js";
import { expect, test, vi } from "vitest";
import type { Live } from "./live";
import { createTalks } from "./talks";

test("pinned conversations take no place of the latest ones", async () => {
  const all = Array.from({ length: 30 }, (_, at) => ({ id: `s${at}`, pinned: at < 10 }));
  vi.stubGlobal("fetch", async (path: string) => {
    const { searchParams: given } = new URL(path, "http://hive");
    const from = Number(given.get("after") ?? 0);
    const until = from + Number(given.get("limit"));
    const after = until < all.length ? String(until) : null;
    return Response.json({ sessions: all.slice(from, until), after });
  });
  const live = { on: () => undefined } as unknown as Live;
  await createRoot(async (dispose) => {
    const talks = createTalks(live, () => "main", false, () => true);
    await vi.waitFor(() => expect(talks.state.read).toBe(true));
    expect(talks.state.rows.map((row) => row.id)).toEqual(all.slice(0, 18).map((row) => row.id));
    expect(talks.state.more).toBe(true);
    dispose();
  });
});
