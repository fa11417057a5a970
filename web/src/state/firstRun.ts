// Whether the hive has no model yet and nothing was said to it: then Home is the form for one.

import { createMemo, createSignal } from "solid-js";
import type { HiveModel } from "./hive";
import type { Router } from "./route";

const SKIPPED = "skep.rehearsal";

export function createFirstRun(hive: HiveModel, router: Router, configures: boolean) {
  const [skipped, setSkipped] = createSignal(localStorage.getItem(SKIPPED) !== null);
  const empty = () => {
    const { read, recent, snapshot } = hive.state;
    // With a profile of any kind, also one of the rehearsal model, the note is another.
    return read && recent.length === 0 && snapshot?.hive.model_note.startsWith("rehearsal:");
  };
  // Once shown it stays, with what became of it, until the person goes on.
  const is = createMemo<boolean>((shown) => {
    if (!configures || skipped() || router.route().page !== "home") return false;
    return shown || empty() === true;
  }, false);
  return {
    is,
    /** The rehearsal model will do. */
    skip(): void {
      localStorage.setItem(SKIPPED, "yes");
      setSkipped(true);
    },
  };
}

export type FirstRun = ReturnType<typeof createFirstRun>;
