import "./styles/index.css";
import { createMemo, createSignal, Match, onMount, Show, Switch } from "solid-js";
import { render } from "solid-js/web";
import { signIn } from "./api/session";
import type { Action, Me } from "./api/types";
import { createApprovals } from "./state/approvals";
import { createDismissed } from "./state/dismissed";
import { createDrafts } from "./state/drafts";
import { createFirstRun } from "./state/firstRun";
import { createHive } from "./state/hive";
import { createLive } from "./state/live";
import { isOpen, needs } from "./state/needs";
import { createNotices } from "./state/notices";
import { createOutbox } from "./state/outbox";
import { createPeople } from "./state/people";
import { createQuestions } from "./state/questions";
import { createRoute, href, type PageName, type Route } from "./state/route";
import { signedInAs } from "./state/self";
import { standingOf } from "./state/standing";
import { wishWords } from "./text/asks";
import { visibleName } from "./text/visible";
import { createShortcuts } from "./view/Account";
import { ApprovalsPage } from "./view/approvals/Approvals";
import { Chat } from "./view/Chat";
import { PageContext } from "./view/context";
import { keepFocus } from "./view/focus";
import { headline, Home } from "./view/Home";
import { isTyping, onKey } from "./view/hooks";
import { LogPage } from "./view/log/LogPage";
import { Models } from "./view/Models";
import { PageBody } from "./view/parts";
import { Search } from "./view/Search";
import { Shell, TITLES } from "./view/Shell";
import { SignIn } from "./view/SignIn";
import { Sprite } from "./view/Sprite";
import { Team } from "./view/team/Team";
import { Usage } from "./view/Usage";
import { Vault } from "./view/Vault";
import { WorkPage } from "./view/work/Work";
import { Workspace } from "./view/Workspace";

function App(props: { me: Me }) {
  signedInAs(props.me);
  const live = createLive();
  const hive = createHive(live);
  const router = createRoute();
  const [searching, setSearching] = createSignal(false);
  const [conversation, setConversation] = createSignal<string>();
  const approvals = createApprovals(live);
  const dismissed = createDismissed();
  const { name: owner, role } = props.me;
  const drafts = createDrafts(owner);
  const outbox = createOutbox(live, drafts, owner);
  const may = (action: Action) => props.me.may.includes(action);
  const questions = createQuestions(live, drafts, may("read_audit"));
  const waiting = createMemo(() => {
    const list = needs(hive.state, approvals.state.open, questions.all(), dismissed.has);
    return list.filter(isOpen).length;
  });
  function at<P extends PageName>(page: P): Extract<Route, { page: P }> | undefined {
    const route = router.route();
    return route.page === page ? (route as Extract<Route, { page: P }>) : undefined;
  }
  const notices = createNotices(live, router);
  const shortcuts = createShortcuts();
  const firstRun = createFirstRun(hive, router, may("configure"));
  const who = owner.replace(/^person:/, "");
  const me = who === role ? who : `${who} (${role})`;
  const find = () => void setSearching(true);
  const name = () => {
    const route = router.route();
    if (firstRun.is()) return "Add a model provider";
    if (route.page === "home") return headline(waiting());
    const approval = route.page === "approvals" && route.id && approvals.find(route.id);
    if (approval) return `${approval.agent} wants to ${wishWords(approval)}`;
    if (route.page === "files" && route.path) return visibleName(route.path);
    if (route.page === "team" && route.agent) return `${visibleName(route.agent)}, team`;
    if (route.page !== "chat") return TITLES[route.page];
    const standing = standingOf(hive.state, { ...route, current: true });
    const words = conversation() ?? route.agent;
    return standing === "idle" ? words : `${words} (${standing})`;
  };

  const waits = { approvals, dismissed, questions };
  const state = { ...waits, drafts, firstRun, hive, live, notices, outbox, router };
  const whoIs = createPeople(may("manage_tokens"));
  const page = { ...state, find, shortcuts: shortcuts.open, me, may, whoIs, setConversation };

  onMount(() => live.start());
  onKey((event) => {
    const control = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    if (!control && (event.key !== "/" || isTyping(event))) return;
    event.preventDefault();
    find();
  });

  return (
    <PageContext.Provider value={page}>
      <Title text={`${name()} · Skep`} />
      <Show when={live.link().state !== "out"} fallback={<SignIn why="You were signed out." />}>
        <Shell needs={waiting()}>
          <Switch fallback={<Home />}>
            <Match when={firstRun.is() || at("models")}>
              <Models first={firstRun.is()} />
            </Match>
            <Match when={at("vault")}>
              <Vault />
            </Match>
            <Match when={at("none")}>
              <PageBody title={TITLES.none} text="No page has this address." beside={<></>}>
                <a class="btn" href={href({ page: "home" })}>
                  Home
                </a>
              </PageBody>
            </Match>
            <Match when={at("chat")}>{(route) => <Chat route={route()} />}</Match>
            <Match when={at("files")}>{(route) => <Workspace route={route()} />}</Match>
            <Match when={at("approvals")}>{(route) => <ApprovalsPage id={route().id} />}</Match>
            <Match when={at("team")}>{(route) => <Team route={route()} />}</Match>
            <Match when={at("work")}>{(route) => <WorkPage route={route()} />}</Match>
            <Match when={at("log")}>
              {(route) => <LogPage tab={route().tab} turn={route().turn} />}
            </Match>
            <Match when={at("usage")}>
              {(route) => <Usage span={route().span} agent={route().agent} />}
            </Match>
          </Switch>
        </Shell>
        {shortcuts.sheet()}
        <Show when={searching()}>
          <Search close={() => setSearching(false)} />
        </Show>
      </Show>
    </PageContext.Provider>
  );
}

function Title(props: { text: string }) {
  createMemo(() => (document.title = props.text));
  return null;
}

const root = document.getElementById("root");
if (root) {
  keepFocus();
  const outcome = await signIn();
  render(
    () => (
      <>
        <Sprite />
        {"me" in outcome ? <App me={outcome.me} /> : <SignIn why={outcome.why} />}
      </>
    ),
    root,
  );
}
