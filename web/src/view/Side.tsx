// Agents and their talks, at the side of the chat.

import { createSignal, For, Show } from "solid-js";
import { query, url } from "../api/http";
import type { AgentInfo, SessionInfo, SessionPage } from "../api/types";
import { draftId } from "../state/drafts";
import { href, talkOf } from "../state/route";
import { agentStanding, standingOf } from "../state/standing";
import { clock, title } from "../text/format";
import { usePage } from "./context";
import { createReading } from "./hooks";
import { Find } from "./parts";
import { StandingMark, standingWords } from "./Standing";

const SHOWN = 8;

export function Side(props: { agent: string; session: string | undefined }) {
  const { hive } = usePage();
  return (
    <aside class="side" aria-label="Agents and conversations">
      <Find words="Search conversations" />
      <For each={hive.agents()} fallback={<p class="small faint">No agents yet.</p>}>
        {(agent) => (
          <AgentTalks agent={agent} current={props.agent === agent.name} session={props.session} />
        )}
      </For>
    </aside>
  );
}

function AgentTalks(props: { agent: AgentInfo; current: boolean; session: string | undefined }) {
  const { drafts, hive, live } = usePage();
  const [open, setOpen] = createSignal(props.current);
  const [most, setMost] = createSignal(SHOWN);
  // Read again when something of this agent ended: then its talks stand in another order.
  const [stale, setStale] = createSignal(0);
  live.on({
    snapshot: () => setStale((number) => number + 1),
    event: (event) => {
      const moved = event.type === "turn_start" || event.type === "turn_end";
      if (moved && event.agent === props.agent.name) setStale((number) => number + 1);
    },
  });
  const path = () => url`/agents/${props.agent.name}/sessions` + query({ limit: most() });
  const talks = createReading<SessionPage>(() => (open() ? path() : undefined), stale);
  const sessions = () => talks.latest?.sessions ?? [];
  const doing = (session: SessionInfo) =>
    standingOf(hive.state, {
      agent: props.agent.name,
      key: session.session_key,
      session: session.id,
      current: session.current,
    });
  const idOf = (session: SessionInfo) =>
    draftId({ agent: props.agent.name, key: session.session_key }, session.id);
  return (
    <details open={open()} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <StandingMark of={agentStanding(hive.state, props.agent)} />
        {props.agent.name}
        <span class="tag">{props.agent.engine}</span>
      </summary>
      <ul>
        <For each={sessions()} fallback={<Empty agent={props.agent.name} />}>
          {(session) => (
            <li>
              <Show when={doing(session) !== "idle"}>
                <StandingMark of={doing(session)} />
              </Show>
              <a
                href={href(talkOf({ ...session, session: session.id }))}
                aria-current={props.current && props.session === session.id ? "page" : undefined}
              >
                <b class="clip">{title(session.title || session.session_key)}</b>
                <span>
                  {session.session_key} ·{" "}
                  {doing(session) === "idle"
                    ? clock(session.last_at)
                    : standingWords(doing(session), live.away())}
                  <Show when={drafts.has(idOf(session))}>
                    <i>draft</i>
                  </Show>
                </span>
              </a>
            </li>
          )}
        </For>
        <Show when={sessions().length >= most()}>
          <li>
            <button class="text-button more-talks" onClick={() => setMost(most() + 24)}>
              Older conversations
            </button>
          </li>
        </Show>
      </ul>
    </details>
  );
}

function Empty(props: { agent: string }) {
  return (
    <li>
      <a href={href(talkOf({ agent: props.agent }))}>
        New conversation
        <span>main</span>
      </a>
    </li>
  );
}
