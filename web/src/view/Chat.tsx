// One talk with an agent: sessions at the side, the messages, the composer, facts at the right.

import { createEffect, createMemo, createSignal, on, onCleanup, Show, untrack } from "solid-js";
import { post, said, url } from "../api/http";
import type { Commands, InboxItem, Message, ProviderList, SessionInfo, View } from "../api/types";
import { type Draft, draftId } from "../state/drafts";
import { queued } from "../state/outbox";
import { type ChatRoute, href, madeUp, talkOf } from "../state/route";
import { shortKey } from "../state/self";
import { retryOf, standingOf } from "../state/standing";
import { createTalk } from "../state/talk";
import { textOf } from "../text/calls";
import { clock, money, nameOf } from "../text/format";
import { pauseWords } from "../text/outcomes";
import { inert } from "../text/visible";
import { Composer } from "./Composer";
import { usePage } from "./context";
import { ConversationMenu, ConversationTitle } from "./Conversation";
import { createAction, createHiveClock, createReading, onKey } from "./hooks";
import { Inspector } from "./Inspector";
import { Icon } from "./marks";
import { Empty, Notice, Radios } from "./parts";
import { Side } from "./Side";
import { StandingMark } from "./Standing";
import { Stream } from "./Stream";

const VIEWS: [View, string][] = [
  ["simple", "Simple"],
  ["full", "Full"],
];

export function Chat(props: { route: ChatRoute }) {
  const { approvals, drafts, hive, live, may, outbox, questions, router, setConversation } =
    usePage();
  const { problem, run, forget } = createAction();
  const [renaming, setRenaming] = createSignal(false);
  const [changed, setChanged] = createSignal(0);
  const stored = localStorage.getItem("skep.view") === "simple" ? "simple" : "full";
  const [view, setView] = createSignal<View>(stored);
  const [sheet, setSheet] = createSignal(false);
  const commands = createReading<Commands>(() => "/commands");
  const providers = createReading<ProviderList>(
    () => (may("read_settings") ? "/providers" : undefined),
    () => hive.state.snapshot?.hive.model_note,
  );
  const listed = () => providers.latest?.providers ?? [];

  const place = createMemo(
    () => {
      const { agent, key, session } = props.route;
      return { agent, key, session };
    },
    undefined,
    { equals: (a, b) => a.agent === b.agent && a.key === b.key && a.session === b.session },
  );
  const talk = createMemo(() => {
    const at = place();
    return untrack(() => createTalk(at, live, outbox.arrived));
  });
  const session = () => talk().state.session ?? props.route.session;
  createEffect(
    on(place, () => {
      forget();
      setRenaming(false);
      setSheet(false);
    }),
  );
  const draft = createMemo(() => draftId(place(), session()));
  // Once its session is known, or another one follows, what is written goes along.
  createEffect(
    on([talk, draft], ([talk, at], before) => {
      if (before?.[0] === talk) drafts.move(before[1], at);
    }),
  );
  createEffect(() => {
    if (talk().state.session) drafts.move(draftId(place()), draft());
  });
  const agent = () => hive.agents().find((one) => one.name === props.route.agent);
  const turn = () => hive.turnOf(props.route.agent, session(), props.route.key);
  const now = createHiveClock(1000);
  // Again after each call of the model, and when somebody changes its name or place.
  const info = createReading<SessionInfo>(
    () => session() && url`/agents/${props.route.agent}/sessions/${session()!}`,
    () => [talk().state.context?.used, changed()],
  );
  live.on({
    snapshot: () => setChanged(changed() + 1),
    event(event) {
      if (event.session !== session()) return;
      if (event.type === "session_changed") setChanged(changed() + 1);
      const { agent, key } = props.route;
      if (event.type === "session_deleted") router.go(talkOf({ agent, session_key: key }));
    },
  });
  onKey((event) => {
    if (event.key === "F2" && known() && may("talk")) setRenaming(true);
  });
  const known = () => (info.latest?.id === session() ? info.latest : undefined);
  createEffect(() => {
    const info = known();
    setConversation(info && nameOf(info));
  });
  onCleanup(() => setConversation(undefined));
  /** Whether a message under its key goes on in it. */
  const current = () => known()?.current ?? true;
  const standing = () => {
    const { agent, key } = props.route;
    return standingOf(hive.state, { agent, key, session: session(), current: current() });
  };
  const sending = () => outbox.of(props.route.agent, props.route.key);
  const waiting = createMemo(() => {
    const { agent, key } = props.route;
    const { loaded, messages } = talk().state;
    const isHere = (item: InboxItem) => item.agent === agent && item.session_key === key;
    const items = loaded && current() ? hive.state.recent.filter(isHere) : [];
    const isStored = (item: string) => messages.some(({ origin }) => origin?.item === item);
    return queued(sending(), items, isStored);
  });
  const asked = () => approvals.of(props.route.agent, session());
  /** Agents that ask the operator something in the course of what was asked here. */
  const asking = createMemo(() => {
    const items = new Set(talk().state.messages.flatMap(({ origin }) => origin?.item ?? []));
    const open = questions.state.open.filter((one) => one.root && items.has(one.root));
    return [...new Set(open.map((one) => inert(one.agent)))];
  });
  const isNew = () => talk().state.loaded && session() === undefined;
  const open = () => ({
    agent: props.route.agent,
    session: session(),
    info: known(),
    isNew: isNew(),
  });

  function choose(view: View): void {
    localStorage.setItem("skep.view", view);
    setView(view);
  }

  function startFork(message: Message): void {
    const { seq, sessionId } = message;
    const { fork, text } = drafts.of(draft());
    const before = fork ? (fork.before ?? "") : text;
    const next = { session: sessionId, seq, before };
    drafts.change(draft(), { text: textOf(message.content), fork: next });
  }

  /** In a copy without the last answer, to which the key leads from then on. */
  async function regenerate(): Promise<void> {
    const { agent, key, session: shown } = props.route;
    await post(url`/agents/${agent}/sessions/${session()!}/regenerate`, {});
    if (shown) router.go(talkOf({ agent, session_key: key }));
  }

  /** To the conversation whose draft it is, wherever the person goes meanwhile. */
  async function send({ text, mode, files, fork }: Draft): Promise<void> {
    const [at, from] = [draft(), place()];
    const { agent, key } = from;
    const before = fork?.before ?? "";
    drafts.change(at, { text: before, files: [], mode: "queue", fork: undefined });
    if (!fork) {
      outbox.send({ agent, sessionKey: key, draft: at, text, mode, files });
      return current() ? undefined : void router.go(talkOf({ agent, session_key: key }));
    }
    try {
      const session_key = madeUp("fork");
      // Before the first message there is nothing to copy.
      if (fork.seq > 1) {
        const path = url`/agents/${agent}/sessions/${fork.session}/fork`;
        await post(path, { at: fork.seq - 1, session_key });
      }
      const there = draftId({ agent, key: session_key });
      outbox.send({ agent, sessionKey: session_key, draft: there, text, mode, files });
      if (place() === from) router.go(talkOf({ agent, session_key }));
    } catch (error) {
      drafts.change(at, { text, files, fork, problem: `Not sent: ${said(error)}` });
    }
  }

  return (
    <div class="chat" classList={{ "with-sheet": sheet() }}>
      <Side open={open()} />
      <section class="talk" aria-label="Conversation">
        <header class="talk-head">
          <button
            class="btn bare sq only-s"
            aria-label="Agents and conversations"
            onClick={() => setSheet(!sheet())}
          >
            <Icon name="menu" />
          </button>
          <div class="grow">
            <ConversationTitle
              info={known()}
              words={isNew() ? "New conversation" : inert(shortKey(props.route.key))}
              renaming={renaming()}
              run={run}
              close={() => setRenaming(false)}
            />
            <div class="small faint">
              <StandingMark of={standing()} />
              <span class="clip">{facts()}</span>
            </div>
          </div>
          <Radios
            class="hide-s"
            label="View"
            name="view"
            of={VIEWS}
            chosen={view()}
            choose={choose}
          />
          <ConversationMenu
            agent={props.route.agent}
            info={known()}
            view={view()}
            choose={choose}
            rename={() => setRenaming(true)}
            run={run}
          />
        </header>
        <Notice text={problem() ?? talk().state.error} marked dismiss={forget} />
        <Show when={talk().state.loaded && talk().state.messages.length === 0 && !turn()}>
          <Empty title="No messages yet" first>
            <p>
              Write a message, or type <code>/</code> for commands. Messages are saved when sent.
            </p>
          </Empty>
        </Show>
        <Show when={talk()} keyed>
          {(talk) => (
            <Stream
              talk={talk}
              route={props.route}
              sending={sending()}
              running={turn() !== undefined}
              full={view() === "full"}
              asked={asked()}
              fork={may("talk") ? startFork : undefined}
              regenerate={
                may("talk") && known()?.current && !turn()
                  ? () => void run(regenerate, "Not sent: ")
                  : undefined
              }
            />
          )}
        </Show>
        <Show when={asking().length}>
          <p class="compose small muted" role="status">
            {asking().join(", ")} {asking().length > 1 ? "wait" : "waits"} for an answer of the
            operator. <a href={href({ page: "home" })}>Answer on Home</a>
          </p>
        </Show>
        <Show
          when={may("talk")}
          fallback={<p class="compose small muted">You have view access.</p>}
        >
          <Composer
            talk={talk()}
            asks={asked().length > 0}
            queued={waiting()}
            unsent={sending().filter((one) => one.state === "sending").length}
            running={turn() !== undefined}
            commands={commands.latest?.commands ?? []}
            at={draft()}
            older={!current()}
            info={known()}
            models={listed()}
            send={(draft) => void send(draft)}
          />
        </Show>
      </section>
      <Inspector talk={talk()} turn={turn()} asked={asked()} info={known()} />
    </div>
  );

  function facts(): string {
    const { profile } = known() ?? {};
    const chosen = profile && (listed().find((one) => one.name === profile)?.model ?? profile);
    const parts = [props.route.agent, inert(chosen ?? agent()?.model ?? "")];
    const away = live.away();
    if (away !== undefined) return [...parts, `as of ${clock(away)}`].join(" · ");
    const retry = retryOf(turn(), now());
    if (retry) parts.splice(1, 0, pauseWords(retry, now()));
    const context = talk().state.context;
    if (context?.window) {
      parts.push(`${Math.round((context.used / context.window) * 100)} % of context`);
    }
    const usages = talk().state.messages.flatMap(({ meta }) => meta?.usage ?? []);
    const costs = usages.map((usage) => usage.cost);
    if (costs.length && talk().state.before === undefined) {
      const known = costs.every((cost) => cost != null);
      parts.push(money(known ? costs.reduce((sum, cost) => sum + cost, 0) : undefined));
    }
    return parts.filter((part) => part !== "").join(" · ");
  }
}
