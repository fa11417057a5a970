// A key that decides stands alone: letters of a word decide nothing, and go to where one writes.

/** In milliseconds: no letter so long before it, and so long after it. */
const BEFORE = 600;
const AFTER = 400;

export interface LoneListener {
  /** A letter alone, and when it was pressed; gives whether it did something. */
  key?: (key: string, at: number) => boolean;
  /** A word is typed where nothing takes it; this much of it is gone already. */
  word?: (begun: string) => void;
}

export function createLone() {
  const listeners = new Set<LoneListener>();
  let last = -Infinity;
  let waiting: { key: string; timer: ReturnType<typeof setTimeout> } | undefined;

  /** `taken` when a field takes it. */
  function press(key: string, taken: boolean): void {
    const begun = waiting?.key ?? "";
    clearTimeout(waiting?.timer);
    waiting = undefined;
    if (!/^\p{L}$/u.test(key)) return;
    const at = Date.now();
    const within = at - last < BEFORE;
    last = at;
    if (taken) return;
    if (within) return listeners.forEach((listener) => listener.word?.(begun));
    const timer = setTimeout(() => {
      waiting = undefined;
      const acted = [...listeners].map((listener) => listener.key?.(key, at) ?? false);
      // The next one belongs to no word with it.
      if (acted.includes(true)) last = -Infinity;
    }, AFTER);
    waiting = { key, timer };
  }

  return {
    press,
    on(listener: LoneListener): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
