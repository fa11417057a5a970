// Who wrote something, in the words people know them by.

import { createSignal } from "solid-js";
import { get } from "../api/http";
import type { Tokens } from "../api/types";

/** Letters of a token's id where its name is not known. */
const SHORT = 8;

/** `mayRead` the names of tokens; they are read when the first one has to be shown. */
export function createPeople(mayRead: boolean) {
  const [names, set] = createSignal(new Map<string, string>());
  let asked = !mayRead;

  async function read(): Promise<void> {
    asked = true;
    try {
      const { tokens } = await get<Tokens>("/tokens");
      set(new Map(tokens.map(({ id, name }) => [id, name])));
    } catch {
      // The short form says enough.
    }
  }

  return (principal: string): string => {
    const [kind, id = ""] = principal.split(/:(.*)/s);
    if (kind === "person") return id;
    if (kind !== "token") return principal;
    if (!asked) void read();
    return names().get(id) || `token ${id.slice(0, SHORT)}`;
  };
}

export type People = ReturnType<typeof createPeople>;
