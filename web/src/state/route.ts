// Where the page is. It stands behind the `#`, so that the server knows one page only.

import { createSignal } from "solid-js";

export type Route =
  { page: "home" } | { page: "chat"; agent: string; key: string; session?: string; at?: number };

export function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, agent] = path.split("/").map(decodeURIComponent);
  if (page !== "chat") return { page: "home" };
  const parameters = new URLSearchParams(search);
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
  if (route.page === "home") return "#/";
  const parameters = new URLSearchParams();
  if (route.session) parameters.set("session", route.session);
  if (route.key !== "main") parameters.set("key", route.key);
  if (route.at) parameters.set("at", String(route.at));
  const search = parameters.toString();
  return `#/chat/${encodeURIComponent(route.agent)}${search ? `?${search}` : ""}`;
}

export function createRoute() {
  const [route, setRoute] = createSignal(parse(location.hash));
  addEventListener("hashchange", () => setRoute(parse(location.hash)));
  return { route, go: (next: Route) => (location.hash = href(next)) };
}

export type Router = ReturnType<typeof createRoute>;
