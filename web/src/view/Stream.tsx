// The messages of a talk. Long talks are drawn in groups: a group far from the eye is an empty box
// of its last height, so that ten thousand messages scroll like ten.

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  Index,
  type JSX,
  on,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { unwrap } from "solid-js/store";
import type { ApprovalInfo, Message, TurnOutcome } from "../api/types";
import { isAbout } from "../state/approvals";
import type { Sending } from "../state/outbox";
import type { ChatRoute } from "../state/route";
import { LARGEST, type Talk } from "../state/talk";
import { textOf } from "../text/calls";
import { AskCard, Decisions } from "./approvals/AskCard";
import { usePage } from "./context";
import { printing } from "./hooks";
import { Mark } from "./marks";
import { type Around, MessageView, SayingView, Who } from "./Message";
import { OutcomeRow } from "./Outcome";

/** Messages in a group; by `seq`, so that older pages do not move the borders. */
const GROUP = 32;
const groupOf = (seq: number) => Math.floor(seq / GROUP);
/** Groups closer than this to the window are drawn. */
const NEAR = "1600px 0px";
const AT_END = 48;

export function Stream(props: {
  talk: Talk;
  /** May name a message that is looked for. */
  route: ChatRoute;
  sending: Sending[];
  running: boolean;
  full: boolean;
  /** What of this talk waits for a person. */
  asked: ApprovalInfo[];
  fork: Around["fork"];
  regenerate: (() => void) | undefined;
}) {
  let scroll!: HTMLDivElement;
  let content!: HTMLDivElement;
  let top = 0;
  let found: ChatRoute | undefined;
  const [pinned, setPinned] = createSignal(true);
  const [unseen, setUnseen] = createSignal(0);
  const [sought, setSought] = createSignal<number>();
  const state = () => props.talk.state;
  /** Messages are replaced, never changed: as plain objects they are read far faster. */
  const messages = () => unwrap(state().messages);

  const results = createMemo(() => {
    const found = new Map<string, Message>();
    for (const message of messages()) {
      if (message.toolCallId) found.set(`${message.turn} ${message.toolCallId}`, message);
    }
    return found;
  });
  const newest = createMemo(() => messages().at(-1)?.seq);
  const around: Around = {
    resultOf: ({ turn, id }) => results().get(`${turn} ${id}`),
    running: () => props.running,
    waits: ({ turn, id }) => props.asked.some((one) => isAbout(one, turn, id)),
    full: () => props.full,
    fork: props.fork,
    regenerate: ({ seq }) => (seq === newest() ? props.regenerate : undefined),
  };
  const shown = createMemo(() =>
    props.full ? messages() : messages().filter((message) => isSpoken(message)),
  );
  const groups = createMemo(() =>
    Map.groupBy(shown(), (message) => groupOf(message.seq)),
  );

  /** Each below the last message of its turn that is shown. */
  const outcomes = createMemo(() =>
    Map.groupBy(state().outcomes, ({ seq }) => shown()[place(shown(), seq + 1) - 1]?.seq),
  );

  function toEnd(): void {
    scroll.scrollTop = scroll.scrollHeight;
    setPinned(true);
    setUnseen(0);
  }

  function scrolled(): void {
    const rest = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
    // What has grown since the last frame is not scrolled away from: only the way up is.
    const up = scroll.scrollTop < top;
    top = scroll.scrollTop;
    if (rest < AT_END) {
      setPinned(true);
      setUnseen(0);
    } else if (up) setPinned(false);
    if (scroll.scrollTop < 600) void older();
  }

  /** What is read stays under the eye when older messages come in above it. */
  async function older(): Promise<void> {
    if (state().before === undefined || state().loading) return;
    const [height, top] = [scroll.scrollHeight, scroll.scrollTop];
    await props.talk.older();
    scroll.scrollTop = top + (scroll.scrollHeight - height);
  }

  createEffect(
    on(
      () => messages().at(-1)?.seq,
      (seq, before) => {
        if (!pinned() && seq !== undefined && before !== undefined && seq > before) {
          setUnseen((number) => number + (seq - before));
        }
      },
    ),
  );
  // Older pages are read until the message is there, then it is shown once.
  createEffect(() => {
    const { route } = props;
    const { loaded, loading, error, before } = state();
    if (route.at === undefined || route === found || !loaded || loading || error) return;
    const isOlder = (messages()[0]?.seq ?? 0) > route.at;
    if (isOlder && before !== undefined) return void props.talk.older(LARGEST);
    found = route;
    setPinned(false);
    const { seq } = shown()[place(shown(), route.at + 1) - 1] ?? {};
    setSought(seq);
    queueMicrotask(() => {
      scroll.querySelector(`[data-seq="${seq}"] > *`)?.scrollIntoView({ block: "center" });
      scroll.focus({ preventScroll: true });
      scrolled();
    });
  });
  onMount(() => {
    const growth = new ResizeObserver(() => {
      if (pinned()) scroll.scrollTop = scroll.scrollHeight;
    });
    growth.observe(content);
    growth.observe(scroll);
    onCleanup(() => growth.disconnect());
  });

  return (
    <div class="stage">
      <div
        class="scroll"
        role="region"
        tabindex="0"
        aria-label="Messages"
        ref={scroll}
        onScroll={scrolled}
      >
        <div class="stream" ref={content}>
          <Show when={state().before !== undefined}>
            <button class="btn bare" onClick={() => void older()}>
              Older messages
            </button>
          </Show>
          <Show when={!state().loaded}>
            <div class="loading" role="status" aria-label="Loading">
              <div class="skel wide-60" />
              <div class="skel wide-80" />
              <div class="skel wide-40" />
            </div>
          </Show>
          <For each={[...groups().keys()]}>
            {(key) => (
              <Group
                root={() => scroll}
                messages={() => groups().get(key) ?? []}
                sought={sought()}
                holds={groupOf(sought() ?? -1) === key}
                beforeOf={(message) => shown()[place(shown(), message.seq) - 1]}
                after={(message) => outcomes().get(message.seq) ?? []}
                outcome={(outcome) => (
                  <OutcomeRow
                    outcome={outcome}
                    last={messages()[place(messages(), outcome.seq + 1) - 1]}
                    retried={(item) => props.talk.retried(outcome.turn, item)}
                  />
                )}
                around={around}
              />
            )}
          </For>
          <div role="log" aria-live="polite" class="now-saying">
            <Index each={state().saying}>
              {(saying) => (
                <>
                  <Show when={endsWithUser(shown())}>
                    <Who agent={props.talk.place.agent} at={Date.now()} />
                  </Show>
                  <SayingView saying={saying()} around={around} />
                </>
              )}
            </Index>
          </div>
          <For each={props.sending.filter((one) => one.state === "started")}>
            {(one) => <Unstored one={one} />}
          </For>
          <For each={props.asked}>
            {(approval, at) => <AskCard approval={approval} keys={at() === 0} />}
          </For>
          <For each={props.sending.filter((one) => one.state === "sending")}>
            {(one) => <Unstored one={one} />}
          </For>
          <For each={props.sending}>
            {(one) => <Show when={one.note}>{(note) => <pre class="note">{note()}</pre>}</Show>}
          </For>
        </div>
      </div>
      <Show when={!pinned()}>
        <button class="btn to-end" onClick={toEnd}>
          {unseen() ? `${unseen()} new below` : "Go to newest"}
        </button>
      </Show>
    </div>
  );
}

/** A message of mine that is no part of the history yet. */
function Unstored(props: { one: Sending }) {
  const { outbox } = usePage();
  return (
    <article class="mine" classList={{ unsent: props.one.late !== undefined }} aria-label="You">
      <Show when={props.one.late}>
        <div class="who">
          <b>You</b>
          <span class="small faint row" title={props.one.late}>
            <Mark name="queue" quiet />
            not sent yet
          </span>
          <button class="btn bare edit" onClick={() => void outbox.withdraw(props.one)}>
            Remove
          </button>
        </div>
      </Show>
      <p class="say words" dir="auto">
        {props.one.text}
      </p>
    </article>
  );
}

function Group(props: {
  root: () => HTMLElement;
  messages: () => Message[];
  /** The message that was looked for. */
  sought: number | undefined;
  /** Whether it is in here: then it is drawn, however far from the eye. */
  holds: boolean;
  beforeOf: (message: Message) => Message | undefined;
  after: (message: Message) => TurnOutcome[];
  outcome: (outcome: TurnOutcome) => JSX.Element;
  around: Around;
}) {
  let box!: HTMLDivElement;
  const [near, setNear] = createSignal(true);
  const [height, setHeight] = createSignal(0);
  const drawn = () => near() || props.holds || printing();
  onMount(() => {
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && near()) setHeight(box.offsetHeight);
        setNear(entry.isIntersecting);
      },
      { root: props.root(), rootMargin: NEAR },
    );
    watch.observe(box);
    onCleanup(() => watch.disconnect());
  });
  return (
    <div class="group" ref={box} style={{ height: drawn() ? undefined : `${height()}px` }}>
      <Show when={drawn()}>
        <For each={props.messages()}>
          {(message) => (
            <div
              class="of-message"
              classList={{ found: message.seq === props.sought }}
              data-seq={message.seq}
            >
              <MessageView
                message={message}
                before={props.beforeOf(message)}
                around={props.around}
              />
              {message.content.some((block) => block.type === "toolCall") && (
                <Decisions message={message} />
              )}
              <For each={props.after(message)}>{props.outcome}</For>
            </div>
          )}
        </For>
      </Show>
    </div>
  );
}

/** Where the first message from `seq` on is. */
function place(messages: Message[], seq: number): number {
  let [low, high] = [0, messages.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((messages[middle]?.seq ?? 0) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isSpoken(message: Message): boolean {
  if (message.role === "system") return true;
  const spoken = message.role === "user" || message.role === "assistant";
  return spoken && textOf(message.content) !== "";
}

function endsWithUser(messages: Message[]): boolean {
  return messages.at(-1)?.role !== "assistant" && messages.at(-1)?.role !== "toolResult";
}
