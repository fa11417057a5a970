// What several views do for as long as they are on the page.

import { createMemo, createResource, createSignal, onCleanup, onMount } from "solid-js";
import { get, said } from "../api/http";
import { createLone, type LoneListener } from "../state/lone";
import { usePage } from "./context";

/** The time of day, read again after every `pause` milliseconds. */
export function createClock(pause: number): () => number {
  const [now, setNow] = createSignal(Date.now());
  const timer = setInterval(() => setNow(Date.now()), pause);
  onCleanup(() => clearInterval(timer));
  return now;
}

/** The same, and still while the hive is away: what it has done since then is not known. */
export function createHiveClock(pause: number): () => number {
  const { live } = usePage();
  const now = createClock(pause);
  const isLive = () => live.link().state === "live";
  return createMemo((before) => (isLive() ? now() : before), Date.now());
}

/** What the hive answers, read again when the address or anything `stale` looks at changes. */
export function createReading<T>(address: () => string | undefined, stale?: () => unknown) {
  const path = createMemo(address);
  const [answer] = createResource(
    () => {
      stale?.();
      const now = path();
      return now === undefined ? undefined : { now };
    },
    ({ now }) => get<T>(now),
  );
  return {
    /** Not what was read before a failure. */
    get latest(): T | undefined {
      return answer.error ? undefined : answer.latest;
    },
    get error(): string | undefined {
      return answer.error && said(answer.error);
    },
    get loading(): boolean {
      return answer.loading;
    },
  };
}

const [printing, setPrinting] = createSignal(false);
/** Whether the page is drawn for paper. */
export { printing };
addEventListener("beforeprint", () => setPrinting(true));
addEventListener("afterprint", () => setPrinting(false));

/** Keys act where nothing is typed. */
export function isTyping(event: KeyboardEvent): boolean {
  const field = (event.target as HTMLElement).closest("input, textarea, select");
  const typed = field && (field as HTMLInputElement).type !== "radio";
  return Boolean(typed) || event.ctrlKey || event.metaKey || event.altKey;
}

/** Keys pressed anywhere on the page. */
export function onKey(act: (event: KeyboardEvent) => void): void {
  onMount(() => {
    addEventListener("keydown", act);
    onCleanup(() => removeEventListener("keydown", act));
  });
}

const lone = createLone();
addEventListener(
  "keydown",
  (event) => {
    const inDialog = (event.target as HTMLElement).closest("dialog") !== null;
    lone.press(event.key, event.repeat || inDialog || isTyping(event));
  },
  // Whoever stops a key on its way has pressed it all the same.
  true,
);

/** Letters pressed where nothing takes them: alone, or as a word. */
export function onLone(listener: LoneListener): void {
  onCleanup(lone.on(listener));
}

/**
 * Runs what a person asks for, one at a time and none while the hive is away; `problem` says why
 * the last one failed.
 */
export function createAction() {
  const { live } = usePage();
  const [problem, setProblem] = createSignal<string>();
  const [running, setBusy] = createSignal(false);
  const busy = () => running() || live.away() !== undefined;
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
