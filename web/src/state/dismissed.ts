// Failures that somebody does not want to see on Home any more. This browser alone remembers it.

import { createSignal } from "solid-js";
import { store, stored } from "./stored";

const STORED = "skep.dismissed";
/** A failure is on Home for a day; so many of one day are enough. */
const MOST = 200;

export function createDismissed() {
  const [items, setItems] = createSignal(stored<string[]>(localStorage, STORED, []));
  return {
    has: (item: string) => items().includes(item),
    add(...more: string[]): void {
      setItems([...items(), ...more].slice(-MOST));
      store(localStorage, STORED, items());
    },
  };
}

export type Dismissed = ReturnType<typeof createDismissed>;
