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

  function read(): void {
    asked = true;
    const named = ({ tokens }: Tokens) => set(new Map(tokens.map(({ id, name }) => [id, name])));
    // Where that fails the short form says enough.
    get<Tokens>("/tokens").then(named, () => undefined);
  }

  return (principal: string): string => {
    const [kind, id = ""] = principal.split(/:(.*)/s);
    if (kind === "person") return id;
    if (kind !== "token") return principal;
    if (!asked) read();
    return names().get(id) || `token ${id.slice(0, SHORT)}`;
  };
}

export type People = ReturnType<typeof createPeople>;
