// Agents and their conversations, at the side of the chat.

import { createEffect, createSignal, For, Show } from "solid-js";
import type { AgentInfo, SessionInfo } from "../api/types";
import { draftId } from "../state/drafts";
import { href, isMadeUp, talkOf } from "../state/route";
import { shortKey } from "../state/self";
import { agentStanding, standingOf } from "../state/standing";
import { createTalks } from "../state/talks";
import { clock, nameOf } from "../text/format";
import { inert } from "../text/visible";
import { usePage } from "./context";
import { useNewTalk } from "./Conversation";
import { Icon } from "./marks";
import { DangerTag, Find } from "./parts";
import { StandingMark, standingWords } from "./Standing";

/** The conversation on the page: its session, or that nothing was said in it yet. */
export interface OpenTalk {
  agent: string;
  session: string | undefined;
  info: SessionInfo | undefined;
  isNew: boolean;
}

export function Side(props: { open: OpenTalk }) {
  const { hive, may } = usePage();
  const start = useNewTalk();
  return (
    <aside class="side" aria-label="Agents and conversations">
      <div class="side-top">
        <Find words="Search conversations" />
        <Show when={may("talk")}>
          <button class="btn" onClick={() => start(props.open.agent)}>
            <Icon name="plus" />
            New conversation
          </button>
        </Show>
      </div>
      <For each={hive.agents()} fallback={<p class="small faint">No agents yet.</p>}>
        {(agent) => <AgentTalks agent={agent} open={props.open} />}
      </For>
    </aside>
  );
}

function AgentTalks(props: { agent: AgentInfo; open: OpenTalk }) {
  const { hive } = usePage();
  const isOpen = () => props.open.agent === props.agent.name;
  const [open, setOpen] = createSignal(isOpen());
  const [archive, setArchive] = createSignal(false);
  createEffect(() => isOpen() && setOpen(true));
  const of = () => (isOpen() ? props.open : undefined);
  return (
    <details open={open()} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <StandingMark of={agentStanding(hive.state, props.agent)} />
        <span class="clip" title={props.agent.name}>
          {props.agent.name}
        </span>
        <span class="tag">{props.agent.engine}</span>
        <DangerTag of={props.agent} />
      </summary>
      <Talks agent={props.agent.name} archived={false} read={open()} open={of()} />
      <details class="archive" onToggle={(event) => setArchive(event.currentTarget.open)}>
        <summary>Archived</summary>
        <Talks agent={props.agent.name} archived read={open() && archive()} open={of()} />
      </details>
    </details>
  );
}

function Talks(props: {
  agent: string;
  archived: boolean;
  read: boolean;
  open: OpenTalk | undefined;
}) {
  const { live, router } = usePage();
  const { archived } = props;
  const talks = createTalks(live, () => props.agent, archived, () => props.read);
  const rows = () => talks.state.rows;
  /** The open one is always in the list, however old it is. */
  const beyond = () => {
    const info = props.open?.info;
    const isListed = !info || info.archived !== archived || rows().some(({ id }) => id === info.id);
    return isListed || !talks.state.read ? undefined : info;
  };
  const isEmpty = () => talks.state.read && rows().length === 0 && !beyond();
  return (
    <ul>
      <Show when={!archived && (props.open?.isNew || isEmpty())}>
        <li>
          <a
            href={href(props.open?.isNew ? router.route() : talkOf({ agent: props.agent }))}
            aria-current={props.open?.isNew ? "page" : undefined}
          >
            New conversation
            <span>nothing sent yet</span>
          </a>
        </li>
      </Show>
      <Show when={archived && isEmpty()}>
        <li class="small faint">No archived conversations.</li>
      </Show>
      <For each={rows()}>
        {(session) => <Row session={session} isOpen={props.open?.session === session.id} />}
      </For>
      <Show when={beyond()} keyed>
        {(session) => <Row session={session} isOpen />}
      </Show>
      <Show when={talks.state.more}>
        <li>
          <button class="text-button more-talks" onClick={talks.older}>
            Older conversations
          </button>
        </li>
      </Show>
    </ul>
  );
}

function Row(props: { session: SessionInfo; isOpen: boolean }) {
  const { drafts, hive, live } = usePage();
  const { agent, id, session_key: key } = props.session;
  const doing = () =>
    standingOf(hive.state, { agent, key, session: id, current: props.session.current });
  return (
    <li>
      <Show when={doing() !== "idle"}>
        <StandingMark of={doing()} />
      </Show>
      <a
        href={href(talkOf({ ...props.session, session: id }))}
        aria-current={props.isOpen ? "page" : undefined}
      >
        <b class="clip">{nameOf(props.session)}</b>
        <span>
          <Show when={!isMadeUp(key)}>
            <span class="clip">{inert(shortKey(key))}</span>
            {" · "}
          </Show>
          {doing() === "idle" ? clock(props.session.last_at) : standingWords(doing(), live.away())}
          <Show when={drafts.has(draftId({ agent, key }, id))}>
            <i>draft</i>
          </Show>
          <Show when={props.session.pinned}>
            <i>pinned</i>
          </Show>
        </span>
      </a>
    </li>
  );
}
