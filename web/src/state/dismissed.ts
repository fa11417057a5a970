// Failures that somebody does not want to see on Home any more. This browser alone remembers it.

import { createSignal } from "solid-js";

const STORED = "skep.dismissed";
/** A failure is on Home for a day; so many of one day are enough. */
const MOST = 200;

export function createDismissed() {
  const [items, setItems] = createSignal(stored());
  return {
    has: (item: string) => items().includes(item),
    add(...more: string[]): void {
      setItems([...items(), ...more].slice(-MOST));
      localStorage.setItem(STORED, JSON.stringify(items()));
    },
  };
}

export type Dismissed = ReturnType<typeof createDismissed>;

function stored(): string[] {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "[]") as string[];
  } catch {
    return [];
  }
}
