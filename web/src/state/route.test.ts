import { expect, test } from "vitest";
import { href, parse, type Route } from "./route";

test("what is written is what is read", () => {
  const routes: Route[] = [
    { page: "home" },
    { page: "chat", agent: "main", key: "main" },
    { page: "chat", agent: "cto", key: "ws:a/b?c#d", session: "0198-ab", at: 41 },
    { page: "files", agent: "cto", session: "0198-ab", path: "a b/ü?#%2e.md" },
    { page: "files", agent: "main" },
    { page: "approvals" },
    { page: "approvals", id: "0198-cd" },
    { page: "team", tab: "now" },
    { page: "team", agent: "cto", tab: "now" },
    { page: "team", agent: "cto", tab: "settings" },
    { page: "log", tab: "lines" },
    { page: "log", tab: "audit", turn: "0198-ef" },
    { page: "usage", span: "month" },
    { page: "usage", span: "today", agent: "cto" },
    { page: "vault" },
    { page: "work" },
    { page: "work", item: "0198-ab", agent: "cto", column: "failed", today: true },
    { page: "work", view: "table", kind: "task", text: "a b&c=d", mine: true },
  ];
  for (const route of routes) expect(parse(href(route))).toEqual(route);
});

test("what cannot be read leads to main, or is no page", () => {
  expect(parse("")).toEqual({ page: "home" });
  expect(parse("#/nowhere")).toEqual({ page: "none" });
  expect(parse("#/team/100%")).toEqual({ page: "none" });
  expect(parse("#/chat")).toEqual({ page: "chat", agent: "main", key: "main" });
  expect(parse("#/team/cto/nothing")).toEqual({ page: "team", agent: "cto", tab: "now" });
  expect(parse("#/usage/century")).toEqual({ page: "usage", span: "today" });
  expect(parse("#/work?state=asleep&kind=x&view=wide")).toEqual({ page: "work" });
  expect(parse("#/chat/x?at=-3")).toEqual({ page: "chat", agent: "x", key: "main" });
});
