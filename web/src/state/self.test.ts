import { afterEach, expect, test } from "vitest";
import { href, isMadeUp, madeUp, parse, talkOf } from "./route";
import { isSelf, shortKey, signedInAs, wholeKey } from "./self";

afterEach(() => signedInAs({ name: "operator", role: "operator" }));

test("a user's key is the hive's on the page, and short in an address", () => {
  signedInAs({ name: "person:dora", role: "user" });
  const main = talkOf({ agent: "main" });
  expect(main.key).toBe("person:dora/main");
  expect(href(main)).toBe("#/chat/main");
  // As the hive gives it and as it is written, in an address too, it is the same conversation.
  expect(talkOf({ agent: "main", session_key: "person:dora/main" })).toEqual(main);
  expect(parse("#/chat/main")).toEqual(main);
  expect(parse("#/chat/main?key=person:dora/main")).toEqual(main);
  const fresh = madeUp("chat");
  expect(fresh).toMatch(/^person:dora\/chat:/);
  expect(isMadeUp(fresh)).toBe(true);
  expect([wholeKey("a/b"), shortKey("person:dora/a/b")]).toEqual(["person:dora/a/b", "a/b"]);
  expect([isSelf("person:dora"), isSelf("operator")]).toEqual([true, false]);
});

test("whoever sees all conversations names them by their whole keys", () => {
  for (const role of ["operator", "viewer"] as const) {
    signedInAs({ name: "person:vera", role });
    expect(talkOf({ agent: "main" }).key).toBe("main");
    const other = parse("#/chat/main?key=person:dora/main");
    expect(other).toEqual(talkOf({ agent: "main", session_key: "person:dora/main" }));
    expect(shortKey("person:dora/main")).toBe("person:dora/main");
  }
});
