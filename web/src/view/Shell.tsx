// The frame around every page: the page list, the line of state, the notice when the link is down.
// A conversation has that notice above its composer, so that nothing moves.

import { createEffect, For, type JSX, on, Show } from "solid-js";
import type { Action } from "../api/types";
import { type ChatRoute, href, type PageName, talkOf } from "../state/route";
import { Account } from "./Account";
import { usePage } from "./context";
import { LinkNotice } from "./LinkNotice";
import { Brand, Icon, Mark } from "./marks";

/** Files are a part of Chat. */
type ListedPage = Exclude<PageName, "files" | "none">;
/** Those everybody has: on a phone there is room for five tabs. */
const MAIN: ListedPage[] = ["home", "chat", "approvals", "team", "work"];
/** Pages that not everybody may read; on a phone they are in the menu. */
const READINGS: [ListedPage, Action][] = [
  ["usage", "read_metrics"],
  ["log", "read_audit"],
  ["models", "configure"],
  ["vault", "manage_tokens"],
];

/** `needs` is what the title of Home counts; approvals among them are counted at theirs too. */
export function Shell(props: { needs: number; children: JSX.Element }) {
  const { approvals, find, live, may, router } = usePage();
  const links = (pages: ListedPage[], link: (link: JSX.Element) => JSX.Element) => (
    <For each={pages}>{(page) => link(<PageLink page={page} needs={needs(page)} />)}</For>
  );
  const readings = () => READINGS.filter(([, action]) => may(action)).map(([page]) => page);
  let main!: HTMLElement;
  createEffect(on(() => router.route().page, () => (main.scrollTop = 0)));
  const isLive = () => live.link().state === "live";
  const needs = (page: PageName) => {
    if (page === "home") return props.needs;
    return page === "approvals" ? approvals.state.open.length : 0;
  };
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        Skip to content
      </a>
      <div class="app">
        <header class="topbar">
          <Brand class="brand-m" />
          <span>{TITLES[router.route().page]}</span>
          <Mark name={isLive() ? "run" : "idle"} label={isLive() ? "Live" : "Disconnected"} />
          <span class="grow" />
          <button class="btn bare sq" aria-label="Search" onClick={find}>
            <Icon name="search" />
          </button>
          <Account
            class="from-top"
            summary={<Icon name="menu" />}
            pages={readings().map((page) => [TITLES[page], target(page)])}
          />
        </header>
        <nav class="nav" aria-label="Pages">
          <div class="brand">
            <Brand />
            <div>
              <b>Skep</b>
              <span>{location.host}</span>
            </div>
          </div>
          <ul>{links(MAIN, (link) => <li>{link}</li>)}</ul>
          <ul>{links(readings(), (link) => <li>{link}</li>)}</ul>
          <LinkState />
        </nav>
        <main class="main" id="main" tabindex="-1" ref={main}>
          <Show when={router.route().page !== "chat"}>
            <LinkNotice class="notice" />
          </Show>
          {props.children}
        </main>
        <nav class="tabs" aria-label="Main pages">
          {links(MAIN, (link) => link)}
        </nav>
      </div>
    </>
  );
}

function toMain(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

export const TITLES: Record<PageName, string> = {
  home: "Home",
  chat: "Chat",
  files: "Files",
  approvals: "Approvals",
  team: "Team",
  work: "Work",
  usage: "Usage",
  log: "Log & audit",
  models: "Models",
  vault: "Vault & access",
  none: "Page not found",
};

/** Back to the talk one was in, else to main. */
let lastTalk: ChatRoute | undefined;

function target(page: ListedPage): string {
  const { router } = usePage();
  const route = router.route();
  if (route.page === "chat") lastTalk = route;
  switch (page) {
    case "home":
    case "approvals":
    case "models":
    case "vault":
    case "work":
      return href({ page });
    case "team":
      return href({ page, tab: "now" });
    case "chat":
      return href(lastTalk ?? talkOf({ agent: "main" }));
    case "log":
      return href({ page, tab: "audit" });
    case "usage":
      return href({ page, span: "today" });
  }
}

function PageLink(props: { page: ListedPage; needs: number }) {
  const { hive, router } = usePage();
  /** Items that have not ended. */
  const open = () => {
    const work = props.page === "work" ? hive.state.snapshot?.work : undefined;
    return work ? work.queued + work.running + work.waiting : 0;
  };
  const current = () => {
    const { page } = router.route();
    return (page === "files" ? "chat" : page) === props.page ? "page" : undefined;
  };
  return (
    <a href={target(props.page)} aria-current={current()}>
      <Icon name={props.page === "approvals" ? "approve" : props.page} />
      {TITLES[props.page]}
      <Show when={props.needs}>
        <span class="count need">
          {props.needs}
          <span class="sr"> waiting</span>
        </span>
      </Show>
      <Show when={open()}>
        <span class="count hide-s">
          {open()}
          <span class="sr"> open</span>
        </span>
      </Show>
    </a>
  );
}

function LinkState() {
  const { live, me } = usePage();
  const words = () => {
    switch (live.link().state) {
      case "live":
        return `Live, event ${live.seq().toLocaleString("en").replaceAll(",", " ")}`;
      case "offline":
        return "Disconnected";
      default:
        return "Connecting";
    }
  };
  return (
    <div class="link-state small faint">
      <Mark name={live.link().state === "live" ? "run" : "idle"} quiet />
      <span>{words()}</span>
      <Account
        class="up"
        summary={
          <>
            <span class="clip">{me}</span>
            <Icon name="menu" />
          </>
        }
      />
    </div>
  );
}
