// One talk with an agent: sessions at the side, the messages, the composer, facts at the right.

import {
  createEffect,
  createMemo,
  createResource,
  createSignal,
  on,
  onCleanup,
  Show,
  untrack,
} from "solid-js";
import { get, post, said } from "../api/http";
import type { Commands, Message, View } from "../api/types";
import type { ChatRoute } from "../state/route";
import { type Attachment, createTalk, type Mode } from "../state/talk";
import { money, title } from "../text/format";
import { Composer } from "./Composer";
import { usePage } from "./context";
import { Inspector } from "./Inspector";
import { Icon, Mark } from "./marks";
import { textOf } from "./Message";
import { Empty, Notice } from "./parts";
import { mark, Side } from "./Side";
import { Stream } from "./Stream";

export function Chat(props: { route: ChatRoute; find: () => void }) {
  const { approvals, hive, live, router } = usePage();
  const [full, setFull] = createSignal(localStorage.getItem("skep.view") !== "simple");
  const [fork, setFork] = createSignal<Message>();
  const [draft, setDraft] = createSignal<{ text: string }>();
  const [problem, setProblem] = createSignal<string>();
  const [sheet, setSheet] = createSignal(false);
  const [commands] = createResource(() => get<Commands>("/commands"));

  const place = createMemo(
    () => {
      const { agent, key, session } = props.route;
      return session ? { agent, key, session } : { agent, key };
    },
    undefined,
    { equals: (a, b) => a.agent === b.agent && a.key === b.key && a.session === b.session },
  );
  const talk = createMemo(() => {
    const at = place();
    const made = untrack(() => createTalk(at, live));
    onCleanup(() => made.close());
    return made;
  });
  createEffect(
    on(place, () => {
      setFork(undefined);
      setProblem(undefined);
      setSheet(false);
    }),
  );
  const agent = () => hive.agents().find((one) => one.name === props.route.agent);
  const turn = () => {
    const { agent, key } = props.route;
    return hive.turnOf(agent, talk().state.session ?? props.route.session, key);
  };
  const asked = () =>
    approvals.of(props.route.agent, talk().state.session ?? props.route.session);
  const name = () => {
    const first = talk().state.messages.find((message) => message.role === "user");
    const begun = talk().state.before === undefined;
    return first && begun ? title(textOf(first.content)) : props.route.key;
  };

  function choose(view: View): void {
    localStorage.setItem("skep.view", view);
    setFull(view === "full");
  }

  function startFork(message: Message): void {
    setFork(message);
    setDraft({ text: textOf(message.content) });
  }

  async function send(text: string, mode: Mode, files: Attachment[]): Promise<void> {
    const from = fork();
    if (!from) {
      talk().send(text, mode, files, crypto.randomUUID());
      return;
    }
    try {
      const agent = encodeURIComponent(props.route.agent);
      const key = `fork:${crypto.randomUUID().slice(0, 8)}`;
      // Before the first message there is nothing to copy.
      if (from.seq > 1) {
        const path = `/agents/${agent}/sessions/${from.sessionId}/fork`;
        await post(path, { at: from.seq - 1, session_key: key });
      }
      const message = { message: text, session_key: key };
      await post(`/agents/${agent}/messages`, message, crypto.randomUUID());
      setFork(undefined);
      router.go({ page: "chat", agent: props.route.agent, key });
    } catch (error) {
      setProblem(`Forking failed: ${said(error)}`);
      setDraft({ text });
    }
  }

  return (
    <div class="chat" classList={{ "with-sheet": sheet() }}>
      <Side
        agent={props.route.agent}
        session={talk().state.session ?? props.route.session}
        find={props.find}
      />
      <section class="talk" aria-label="Conversation">
        <header class="talk-head">
          <button
            class="btn bare sq only-s"
            aria-label="Agents and sessions"
            onClick={() => setSheet(!sheet())}
          >
            <Icon name="menu" />
          </button>
          <div class="grow">
            <h1 class="clip">{name()}</h1>
            <div class="small faint">
              <Show when={agent()}>
                {(agent) => (
                  <Mark name={asked().length ? "wait" : turn() ? "run" : mark(agent())} />
                )}
              </Show>
              <span class="clip">{facts()}</span>
            </div>
          </div>
          <div class="seg hide-s" role="group" aria-label="View">
            <label>
              <input type="radio" name="view" checked={!full()} onChange={() => choose("simple")} />
              Simple
            </label>
            <label>
              <input type="radio" name="view" checked={full()} onChange={() => choose("full")} />
              Full
            </label>
          </div>
        </header>
        <Notice
          text={problem() ?? talk().state.error}
          marked
          dismiss={() => setProblem(undefined)}
        />
        <Show when={talk().state.loaded && talk().state.messages.length === 0 && !turn()}>
          <Empty title="Nothing said yet" first>
            <p>
              Write below, or begin with <code>/</code> for commands. What you send is kept,
              whatever happens to this page.
            </p>
          </Empty>
        </Show>
        <Show when={talk()} keyed>
          {(talk) => (
            <Stream
              talk={talk}
              running={turn() !== undefined}
              full={full()}
              asked={asked()}
              fork={startFork}
            />
          )}
        </Show>
        <Composer
          talk={talk()}
          running={turn() !== undefined}
          commands={commands.error ? [] : (commands()?.commands ?? [])}
          draft={draft()}
          forking={
            fork() && {
              label: "Edit and fork: the talk goes on from here in a new session",
              cancel: () => setFork(undefined),
            }
          }
          send={(text, mode, files) => void send(text, mode, files)}
        />
      </section>
      <Inspector talk={talk()} turn={turn()} asked={asked()} />
    </div>
  );

  function facts(): string {
    const parts = [props.route.agent, agent()?.model ?? ""];
    const context = talk().state.context;
    if (context?.window) {
      parts.push(`${Math.round((context.used / context.window) * 100)} % of context`);
    }
    let cost: number | undefined = 0;
    let called = false;
    for (const message of talk().state.messages) {
      if (!message.meta) continue;
      called = true;
      const one = message.meta.usage.cost;
      cost = cost === undefined || one == null ? undefined : cost + one;
    }
    if (called && talk().state.before === undefined) parts.push(money(cost));
    return parts.filter((part) => part !== "").join(" · ");
  }
}
