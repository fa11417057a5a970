// Whether the hive has no model yet and nothing was said to it: then Home is the form for one.

import { createMemo, createSignal } from "solid-js";
import type { HiveModel } from "./hive";
import type { Router } from "./route";

const SKIPPED = "skep.rehearsal";

export function createFirstRun(hive: HiveModel, router: Router, configures: boolean) {
  const [skipped, setSkipped] = createSignal(localStorage.getItem(SKIPPED) !== null);
  /** Something was said, or is being. */
  const begun = () => hive.state.recent.length > 0 || hive.turns().length > 0;
  // With a profile of any kind, also one of the rehearsal model, the note is another.
  const none = () => hive.state.snapshot?.hive.model_note.startsWith("rehearsal:") === true;
  // Once shown it stays, with what became of it, until the person goes on.
  const is = createMemo<boolean>((shown) => {
    if (!configures || skipped() || begun() || router.route().page !== "home") return false;
    return shown || (hive.state.read && none());
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
