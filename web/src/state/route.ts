// Where the page is. It stands behind the `#`, so that the server knows one page only.

import { createSignal } from "solid-js";

export type LogTab = "audit" | "why" | "lines";
export type UsageSpan = "today" | "week" | "month" | "quarter";

export type Route =
  | { page: "home" }
  | { page: "chat"; agent: string; key: string; session?: string; at?: number }
  | { page: "approvals"; id?: string }
  | { page: "log"; tab: LogTab; turn?: string }
  | { page: "usage"; span: UsageSpan; agent?: string };

export type PageName = Route["page"];
export type ChatRoute = Extract<Route, { page: "chat" }>;

const TABS: LogTab[] = ["audit", "why", "lines"];
const SPANS: UsageSpan[] = ["today", "week", "month", "quarter"];

export function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, rest] = path.split("/").map(decodeURIComponent);
  const parameters = new URLSearchParams(search);
  switch (page) {
    case "chat":
      return chat(rest, parameters);
    case "approvals":
      return rest ? { page: "approvals", id: rest } : { page: "approvals" };
    case "log": {
      const tab = TABS.find((one) => one === rest) ?? "audit";
      const turn = parameters.get("turn");
      return turn ? { page: "log", tab, turn } : { page: "log", tab };
    }
    case "usage": {
      const span = SPANS.find((one) => one === rest) ?? "today";
      const agent = parameters.get("agent");
      return agent ? { page: "usage", span, agent } : { page: "usage", span };
    }
    default:
      return { page: "home" };
  }
}

function chat(agent: string | undefined, parameters: URLSearchParams): Route {
  const route: Route = {
    page: "chat",
    agent: agent || "main",
    key: parameters.get("key") ?? "main",
  };
  const session = parameters.get("session");
  if (session) route.session = session;
  const at = Number(parameters.get("at"));
  if (Number.isInteger(at) && at > 0) route.at = at;
  return route;
}

export function href(route: Route): string {
  const parameters = new URLSearchParams();
  switch (route.page) {
    case "home":
      return "#/";
    case "chat":
      if (route.session) parameters.set("session", route.session);
      if (route.key !== "main") parameters.set("key", route.key);
      if (route.at) parameters.set("at", String(route.at));
      return address(`chat/${encodeURIComponent(route.agent)}`, parameters);
    case "approvals":
      return route.id ? `#/approvals/${encodeURIComponent(route.id)}` : "#/approvals";
    case "log":
      if (route.turn) parameters.set("turn", route.turn);
      return address(`log/${route.tab}`, parameters);
    case "usage":
      if (route.agent) parameters.set("agent", route.agent);
      return address(`usage/${route.span}`, parameters);
  }
}

function address(path: string, parameters: URLSearchParams): string {
  const search = parameters.toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

export function createRoute() {
  const [route, setRoute] = createSignal(parse(location.hash));
  addEventListener("hashchange", () => setRoute(parse(location.hash)));
  return { route, go: (next: Route) => (location.hash = href(next)) };
}

export type Router = ReturnType<typeof createRoute>;
