// The frame around every page: the page list, the line of state, the notice when the link is down.

import { createSignal, type JSX, onCleanup, Show } from "solid-js";
import { href, type PageName, type Route } from "../state/route";
import { clock } from "../text/format";
import { usePage } from "./context";
import { Brand, Icon, type IconName, Mark } from "./marks";

interface Props {
  children: JSX.Element;
  /** Without approvals: they have a count of their own. */
  needs: number;
  find: () => void;
}

export function Shell(props: Props) {
  const { approvals, router } = usePage();
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        Skip to content
      </a>
      <div class="app">
        <header class="topbar">
          <Brand class="brand-m" />
          <span>{TITLES[router.route().page]}</span>
          <LinkMark />
          <span class="grow" />
          <button class="btn bare sq" aria-label="Search" onClick={() => props.find()}>
            <Icon name="search" />
          </button>
        </header>
        <nav class="nav" aria-label="Pages">
          <div class="brand">
            <Brand />
            <div>
              <b>Skep</b>
              <span>{location.host}</span>
            </div>
          </div>
          <ul>
            <PageLink icon="home" page="home" needs={props.needs} />
            <PageLink icon="chat" page="chat" />
            <PageLink icon="approve" page="approvals" needs={approvals.state.open.length} />
          </ul>
          <ul>
            <PageLink icon="usage" page="usage" />
            <PageLink icon="log" page="log" />
          </ul>
          <LinkState />
        </nav>
        <main class="main" id="main" tabindex="-1">
          <LinkNotice />
          {props.children}
        </main>
        <nav class="tabs" aria-label="Main pages">
          <Tab icon="home" page="home" needs={props.needs} current={router.route().page} />
          <Tab icon="chat" page="chat" current={router.route().page} />
          <Tab
            icon="approve"
            page="approvals"
            needs={approvals.state.open.length}
            current={router.route().page}
          />
          <Tab icon="usage" page="usage" current={router.route().page} />
          <Tab icon="log" page="log" current={router.route().page} />
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
  approvals: "Approvals",
  usage: "Usage",
  log: "Log & audit",
};

/** Back to the talk one was in, else to main. */
let lastTalk: Route = { page: "chat", agent: "main", key: "main" };

function target(page: PageName): string {
  const { router } = usePage();
  const route = router.route();
  if (route.page === "chat") lastTalk = route;
  switch (page) {
    case "home":
    case "approvals":
      return href({ page });
    case "chat":
      return href(lastTalk);
    case "log":
      return href({ page, tab: "audit" });
    case "usage":
      return href({ page, span: "today" });
  }
}

function PageLink(props: { icon: IconName; page: PageName; needs?: number }) {
  const { router } = usePage();
  const current = () => (router.route().page === props.page ? "page" : undefined);
  return (
    <li>
      <a href={target(props.page)} aria-current={current()}>
        <Icon name={props.icon} />
        {TITLES[props.page]}
        <Needs count={props.needs} />
      </a>
    </li>
  );
}

function Tab(props: { icon: IconName; page: PageName; current: PageName; needs?: number }) {
  const current = () => (props.current === props.page ? "page" : undefined);
  return (
    <a href={target(props.page)} aria-current={current()}>
      <Icon name={props.icon} />
      {TITLES[props.page]}
      <Needs count={props.needs} />
    </a>
  );
}

function Needs(props: { count: number | undefined }) {
  return (
    <Show when={props.count}>
      <span class="count need">
        {props.count}
        <span class="sr"> waiting</span>
      </span>
    </Show>
  );
}

function LinkMark() {
  const { live } = usePage();
  const isLive = () => live.link().state === "live";
  return (
    <>
      <Mark name={isLive() ? "run" : "idle"} quiet />
      <span class="sr">{isLive() ? "Live" : "Not live"}</span>
    </>
  );
}

function LinkState() {
  const { live, me } = usePage();
  const words = () => {
    switch (live.link().state) {
      case "live":
        return `Live, event ${live.seq().toLocaleString("en").replaceAll(",", " ")}`;
      case "offline":
        return "Connection lost";
      default:
        return "Connecting";
    }
  };
  return (
    <div class="link-state">
      <Mark name={live.link().state === "live" ? "run" : "idle"} quiet />
      <span>{words()}</span>
      <span>{me}</span>
    </div>
  );
}

function LinkNotice() {
  const { live } = usePage();
  const [now, setNow] = createSignal(Date.now());
  const timer = setInterval(() => setNow(Date.now()), 1000);
  onCleanup(() => clearInterval(timer));
  const offline = () => {
    const link = live.link();
    return link.state === "offline" ? link : undefined;
  };
  const resync = () => {
    const link = live.link();
    return link.state === "resync" ? link : undefined;
  };
  const rest = (again: number) => Math.max(0, Math.ceil((again - now()) / 1000));
  return (
    <div class="notices" role="status">
      <Show when={offline()}>
        {(link) => (
          <div class="notice">
            <Mark name="queue" quiet />
            <span class="grow">
              Connection lost {clock(link().since)}. What you see is from then; what you send waits
              here and goes out once.
            </span>
            <span class="small faint nowrap">again in {rest(link().again)} s</span>
            <button class="btn bare" onClick={() => live.now()}>
              Now
            </button>
          </div>
        )}
      </Show>
      <Show when={resync()}>
        {(link) => (
          <div class="notice">
            <Mark name="run" quiet />
            <span class="grow">Back. Reading what happened since event {link().since}…</span>
          </div>
        )}
      </Show>
    </div>
  );
}
