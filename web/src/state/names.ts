// What conversations are called, where only their keys are known.

import { createEffect } from "solid-js";
import { createStore } from "solid-js/store";
import { get, url } from "../api/http";
import type { SessionPage } from "../api/types";
import { nameOf } from "../text/format";
import type { Live } from "./live";
import { isMadeUp } from "./route";
import { shortKey } from "./self";

interface Keyed {
  agent: string;
  session_key: string;
}
const idOf = ({ agent, session_key }: Keyed) => `${agent}\n${session_key}`;

/** Read when a key without a name turns up, and when somebody changes one. */
export function createNames(
  live: Live,
  shown: () => Keyed[],
  /** One that was removed has no conversations to ask for; the key will do. */
  isThere: (agent: string) => boolean,
): (of: Keyed) => string {
  const [names, set] = createStore<Record<string, string>>({});
  const asked = new Set<string>();

  async function read(agent: string): Promise<void> {
    try {
      const page = await get<SessionPage>(url`/agents/${agent}/sessions?limit=200`);
      const current = page.sessions.filter((one) => one.current);
      set(Object.fromEntries(current.map((one) => [idOf(one), nameOf(one)])));
    } catch {
      // Its agent may be gone meanwhile.
    }
  }

  createEffect(() => {
    const missing = shown().filter((one) => isThere(one.agent) && !asked.has(idOf(one)));
    for (const one of missing) asked.add(idOf(one));
    for (const agent of new Set(missing.map((one) => one.agent))) void read(agent);
  });
  live.on({
    snapshot: () => undefined,
    event(event) {
      if (event.type === "session_changed" && event.agent) void read(event.agent);
    },
  });
  return (of) => names[idOf(of)] ?? (isMadeUp(of.session_key) ? "" : shortKey(of.session_key));
}
