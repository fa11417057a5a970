// Agents and their talks, at the side of the chat.

import { createResource, createSignal, For, Show } from "solid-js";
import { get } from "../api/http";
import type { AgentInfo, SessionPage } from "../api/types";
import { href } from "../state/route";
import { clock, title } from "../text/format";
import { usePage } from "./context";
import { Icon, Mark, type MarkName } from "./marks";

const SHOWN = 8;

export function Side(props: { agent: string; session: string | undefined; find: () => void }) {
  const { hive } = usePage();
  return (
    <aside class="side" aria-label="Agents and sessions">
      <button class="find" onClick={() => props.find()}>
        <Icon name="search" />
        <span class="grow">Find in all talk</span>
        <kbd>/</kbd>
      </button>
      <For each={hive.agents()} fallback={<p class="small faint">No agents yet.</p>}>
        {(agent) => (
          <AgentTalks agent={agent} current={props.agent === agent.name} session={props.session} />
        )}
      </For>
    </aside>
  );
}

function AgentTalks(props: { agent: AgentInfo; current: boolean; session: string | undefined }) {
  const { live } = usePage();
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
  const [talks] = createResource(
    () => (open() ? { agent: props.agent.name, limit: most(), stale: stale() } : undefined),
    async ({ agent, limit }) => {
      const path = `/agents/${encodeURIComponent(agent)}/sessions?limit=${limit}`;
      return get<SessionPage>(path);
    },
  );
  const sessions = () => (talks.error ? [] : (talks.latest?.sessions ?? []));
  return (
    <details open={open()} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Mark name={mark(props.agent)} />
        {props.agent.name}
        <span class="tag">{props.agent.engine}</span>
      </summary>
      <ul>
        <For each={sessions()} fallback={<Empty agent={props.agent.name} />}>
          {(session) => (
            <li>
              <a
                href={href({
                  page: "chat",
                  agent: props.agent.name,
                  key: session.session_key,
                  session: session.id,
                })}
                aria-current={props.current && props.session === session.id ? "page" : undefined}
              >
                <b class="clip">{title(session.title || session.session_key)}</b>
                <span>
                  {session.session_key} · {clock(session.last_at)}
                </span>
              </a>
            </li>
          )}
        </For>
        <Show when={sessions().length >= most()}>
          <li>
            <button class="text-button more-talks" onClick={() => setMost(most() + 24)}>
              Older talks
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
      <a href={href({ page: "chat", agent: props.agent, key: "main" })}>
        Start a talk
        <span>main</span>
      </a>
    </li>
  );
}

export function mark(agent: AgentInfo): MarkName {
  if (agent.status === "failed") return "fail";
  if ((agent.active_turns ?? 0) > 0) return "run";
  return (agent.queue_depth ?? 0) > 0 ? "queue" : "idle";
}
