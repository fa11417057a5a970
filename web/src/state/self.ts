// What names mean to whoever is signed in. The hive sets a user's keys apart from everybody else's:
// `main` of Dora is `person:Dora/main`. On the page a key is whole, as the hive writes it, so that
// any two can be compared; in an address and before a person it is short.

import type { Me } from "../api/types";

let self = "operator";
let prefix = "";

export function signedInAs({ name, role }: Pick<Me, "name" | "role">): void {
  self = name;
  prefix = role === "user" ? `${name}/` : "";
}

export const wholeKey = (key: string) => (key.startsWith(prefix) ? key : prefix + key);
export const shortKey = (key: string) => (key.startsWith(prefix) ? key.slice(prefix.length) : key);

export const isSelf = (principal: string) => principal === self;
