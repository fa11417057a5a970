// The conversations of one agent, as they are listed: pinned ones first, then the latest.

import { createEffect, createSignal, on } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { get, query, url } from "../api/http";
import type { Event, SessionInfo, SessionPage } from "../api/types";
import { inOrder, type Live, settled } from "./live";

const FIRST = 8;
/** The hive gives no more at once. */
const LARGEST = 500;
const SETTLE = 100;
const MOVES: Event["type"][] = ["turn_start", "turn_end", "session_changed", "session_deleted"];

export function createTalks(
  live: Live,
  agent: () => string,
  archived: boolean,
  open: () => boolean,
) {
  const [state, set] = createStore({ rows: [] as SessionInfo[], more: false, read: false });
  const [most, setMost] = createSignal(FIRST);
  const soon = settled(SETTLE, read);
  const asking = inOrder();

  async function read(): Promise<void> {
    const [of, wanted] = [agent(), most()];
    const isNewer = asking();
    const rows: SessionInfo[] = [];
    // Pinned ones stand above and take no place of the latest.
    const missing = () => wanted - rows.filter((row) => !row.pinned).length;
    let after: string | undefined;
    try {
      do {
        const limit = Math.min(LARGEST, missing());
        const parts = query({ archived: String(archived), limit, after });
        const page = await get<SessionPage>(url`/agents/${of}/sessions` + parts);
        rows.push(...page.sessions);
        after = page.after ?? undefined;
      } while (after && missing() > 0);
    } catch {
      // The stream breaks as well; the next snapshot reads them anew.
      return;
    }
    if (of !== agent() || wanted !== most() || !isNewer()) return;
    set("rows", reconcile(rows, { key: "id" }));
    set({ more: after !== undefined, read: true });
  }

  createEffect(on([open, most, agent], ([open]) => open && void read()));
  live.on({
    snapshot: () => open() && soon(),
    event: (event) => {
      if (open() && event.agent === agent() && MOVES.includes(event.type)) soon();
    },
  });

  return { state, older: () => setMost(most() * 4) };
}
