// What several views do for as long as they are on the page.

import { createSignal, onCleanup, onMount } from "solid-js";
import { said } from "../api/http";

/** The time of day, read again after every `pause` milliseconds. */
export function createClock(pause: number): () => number {
  const [now, setNow] = createSignal(Date.now());
  const timer = setInterval(() => setNow(Date.now()), pause);
  onCleanup(() => clearInterval(timer));
  return now;
}

/** Keys pressed anywhere on the page. */
export function onKey(act: (event: KeyboardEvent) => void): void {
  onMount(() => {
    addEventListener("keydown", act);
    onCleanup(() => removeEventListener("keydown", act));
  });
}

/** Runs what a person asks for, one at a time; `problem` says why the last one failed. */
export function createAction() {
  const [problem, setProblem] = createSignal<string>();
  const [busy, setBusy] = createSignal(false);
  async function run(work: () => Promise<unknown>, failed = ""): Promise<void> {
    if (busy()) return;
    setBusy(true);
    setProblem(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(failed + said(error));
    } finally {
      setBusy(false);
    }
  }
  return { busy, problem, run, forget: () => setProblem(undefined) };
}
