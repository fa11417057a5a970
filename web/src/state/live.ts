// The one stream of live events, and how the page stands to the hive: snapshot first, then every
// event after its `seq`; after a break the same again. Nothing is polled.

import { createSignal, getOwner, onCleanup } from "solid-js";
import { forget, get, query, Refusal, request, said } from "../api/http";
import { events } from "../api/sse";
import type { Event, HiveState } from "../api/types";

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "resync"; since: number }
  | { state: "offline"; since: number; again: number; why: string }
  | { state: "out" };

export interface Listener {
  snapshot(snapshot: HiveState): void;
  event(event: Event): void;
}

const PAUSES = [500, 1000, 2000, 4000, 8000];
/** The hive sends a sign of life every 15 s; a stream silent for longer is dead. */
const SILENCE = 40_000;

export function createLive() {
  const [link, setLink] = createSignal<Link>({ state: "connecting" });
  const [seq, setSeq] = createSignal(0);
  const listeners = new Set<Listener>();
  let hurry: (() => void) | undefined;

  async function follow(): Promise<void> {
    let failures = 0;
    let lostAt: number | undefined;
    for (;;) {
      try {
        if (seq() > 0) setLink({ state: "resync", since: seq() });
        const snapshot = await get<HiveState>("/state");
        setSeq(snapshot.seq);
        for (const listener of listeners) listener.snapshot(snapshot);
        await listen(snapshot.seq, () => {
          failures = 0;
          lostAt = undefined;
          setLink({ state: "live" });
        });
      } catch (error) {
        if (error instanceof Refusal && error.status === 401) {
          leave();
          return;
        }
        lostAt ??= Date.now();
        const pause = PAUSES[Math.min(failures, PAUSES.length - 1)] ?? 8000;
        failures += 1;
        const again = Date.now() + pause;
        setLink({ state: "offline", since: lostAt, again, why: said(error) });
        await rest(pause);
      }
    }
  }

  /** Signed out: the next request ends the following. */
  function leave(): void {
    forget();
    setLink({ state: "out" });
  }

  /** Ends normally when the hive says that something was left out. */
  async function listen(since: number, opened: () => void): Promise<void> {
    const abort = new AbortController();
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await request(`/events${query({ since })}`, { signal: abort.signal });
      opened();
      const source = alive(response, () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE);
      });
      for await (const sent of events(source)) {
        if (sent.event === "resync") return;
        const event = JSON.parse(sent.data) as Event;
        if (event.seq != null) setSeq(event.seq);
        for (const listener of listeners) listener.event(event);
      }
      throw new Refusal(0, "cut", "The connection to the hive was cut.");
    } catch (error) {
      if (abort.signal.aborted) throw new Refusal(0, "silent", "The hive has gone silent.");
      throw error;
    } finally {
      clearTimeout(watchdog);
      abort.abort();
    }
  }

  function rest(pause: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  return {
    link,
    seq,
    /** Since when the hive is away. */
    away(): number | undefined {
      const now = link();
      return now.state === "offline" ? now.since : undefined;
    },
    start: () => void follow(),
    leave,
    /** Tries again now. */
    now: () => hurry?.(),
    /** For as long as the view is there that asks for it. */
    on(listener: Listener): void {
      listeners.add(listener);
      if (getOwner()) onCleanup(() => listeners.delete(listener));
    },
  };
}

export type Live = ReturnType<typeof createLive>;

/** Does `act` once for all that asks for it within `pause`. */
export function settled(pause: number, act: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void act();
    }, pause);
  };
}

/**
 * For answers that come in another order than they were asked for: called when asking, it gives
 * whether the answer is newer than what is known.
 */
export function inOrder(): () => () => boolean {
  let [asked, known] = [0, 0];
  return () => {
    const mine = ++asked;
    return () => mine > known && (known = mine) > 0;
  };
}

/** The same response; every piece of it, a sign of life too, calls `beat`. */
function alive(response: Response, beat: () => void): Response {
  if (!response.body) return response;
  const watch = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      beat();
      controller.enqueue(piece);
    },
  });
  return new Response(response.body.pipeThrough(watch));
}
