// What this browser keeps. It may refuse to, and what it kept may be broken: then there is nothing.

export function stored<T>(storage: Storage, place: string, none: T): T {
  try {
    return (JSON.parse(storage.getItem(place) ?? "null") as T | null) ?? none;
  } catch {
    return none;
  }
}

/** More than the browser keeps stays in memory alone. */
export function store(storage: Storage, place: string, value: unknown): void {
  try {
    storage.setItem(place, JSON.stringify(value));
  } catch {
    // Nothing to be done.
  }
}
