// Where the page is. It stands behind the `#`, so that the server knows one page only.

import { createSignal } from "solid-js";
import { query, url } from "../api/http";
import { shortKey, wholeKey } from "./self";
import { type WorkShow, workParts, workShow } from "./workShow";

const TABS = ["audit", "why", "lines"] as const;
const SPANS = ["today", "week", "month", "quarter"] as const;
export const TEAM_TABS = ["now", "settings", "rules", "prompt", "skills"] as const;
export type LogTab = (typeof TABS)[number];
export type UsageSpan = (typeof SPANS)[number];
export type TeamTab = (typeof TEAM_TABS)[number];

type Given<T = string> = T | undefined;
export type Route =
  | { page: "home" }
  | { page: "chat"; agent: string; key: string; session?: Given; at?: Given<number> }
  | { page: "files"; agent: string; session?: Given; path?: Given }
  | { page: "approvals"; id?: Given }
  | { page: "team"; agent?: Given; tab: TeamTab }
  | ({ page: "work"; item?: Given } & WorkShow)
  | { page: "log"; tab: LogTab; turn?: Given }
  | { page: "usage"; span: UsageSpan; agent?: Given }
  | { page: "models" }
  | { page: "vault" }
  /** What the address says is no page. */
  | { page: "none" };

export type PageName = Route["page"];
export type ChatRoute = Extract<Route, { page: "chat" }>;
export type WorkRoute = Extract<Route, { page: "work" }>;
export type FilesRoute = Extract<Route, { page: "files" }>;
export type TeamRoute = Extract<Route, { page: "team" }>;

export function parse(hash: string): Route {
  const [path = "", search] = hash.replace(/^#\/?/, "").split("?");
  const steps = decoded(path);
  if (!steps) return { page: "none" };
  const [page, rest, last] = steps;
  const parameters = new URLSearchParams(search);
  const given = (name: string) => parameters.get(name) || undefined;
  switch (page) {
    case "chat": {
      const [agent, session, at] = [rest || "main", given("session"), Number(given("at"))];
      const key = wholeKey(given("key") ?? "main");
      return { page, agent, key, session, at: Number.isInteger(at) && at > 0 ? at : undefined };
    }
    case "files":
      return { page, agent: rest || "main", session: given("session"), path: given("path") };
    case "approvals":
      return { page, id: rest || undefined };
    case "team":
      return { page, agent: rest || undefined, tab: teamTab(last) };
    case "work":
      return { page, item: rest || undefined, ...workShow(given) };
    case "log":
      return { page, tab: TABS.find((one) => one === rest) ?? "audit", turn: given("turn") };
    case "usage":
      return { page, span: SPANS.find((one) => one === rest) ?? "today", agent: given("agent") };
    case "models":
    case "vault":
      return { page };
    default:
      return { page: page ? "none" : "home" };
  }
}

/** Nothing where a step is no text: somebody wrote the address by hand. */
function decoded(path: string): string[] | undefined {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

const teamTab = (word: string | undefined) => TEAM_TABS.find((one) => one === word) ?? "now";

export function href(route: Route): string {
  switch (route.page) {
    case "home":
    case "none":
      return "#/";
    case "chat": {
      const { agent, session, at } = route;
      const key = shortKey(route.key);
      const named = key === "main" ? undefined : key;
      return url`#/chat/${agent}` + query({ session, key: named, at });
    }
    case "files":
      return url`#/files/${route.agent}` + query({ session: route.session, path: route.path });
    case "approvals":
      return route.id ? url`#/approvals/${route.id}` : "#/approvals";
    case "team": {
      const { agent, tab } = route;
      if (!agent) return "#/team";
      return tab === "now" ? url`#/team/${agent}` : url`#/team/${agent}/${tab}`;
    }
    case "work":
      return (route.item ? url`#/work/${route.item}` : "#/work") + query(workParts(route));
    case "log":
      return `#/log/${route.tab}${query({ turn: route.turn })}`;
    case "usage":
      return `#/usage/${route.span}${query({ agent: route.agent })}`;
    case "models":
      return "#/models";
    case "vault":
      return "#/vault";
  }
}

/** Keys of conversations that began on the page say nothing to a person. */
export const isMadeUp = (key: string) => /^(chat|fork|import):[0-9a-f]{8}/.test(shortKey(key));
export const madeUp = (kind: "chat" | "fork") => wholeKey(`${kind}:${random().slice(0, 8)}`);

/** 128 bits as hex digits. Browsers have `randomUUID` for HTTPS and localhost only. */
export function random(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The talk that something belongs to; without a key the main one of its agent. */
export function talkOf(
  thing: { agent: string; session_key?: string; session?: string | null | undefined },
  at?: number,
): ChatRoute {
  const { agent, session_key: key = "main", session } = thing;
  return { page: "chat", agent, key: wholeKey(key), session: session ?? undefined, at };
}

export function createRoute() {
  const [route, setRoute] = createSignal(parse(location.hash));
  addEventListener("hashchange", () => setRoute(parse(location.hash)));
  /** Also where the page is already: a message that is sought again is shown again. */
  function go(next: Route, how: "step" | "same step" = "step"): void {
    const hash = href(next);
    const isSame = location.hash === hash;
    if (!isSame && how === "step") {
      location.hash = hash;
      return;
    }
    if (!isSame) history.replaceState(null, "", hash);
    setRoute(next);
  }
  return { route, go };
}

export type Router = ReturnType<typeof createRoute>;
