// The messages of a talk. Long talks are drawn in groups: a group far from the eye is an empty box
// of its last height, so that ten thousand messages scroll like ten.

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import type { ApprovalInfo, Message, TurnOutcome } from "../api/types";
import type { Sending } from "../state/outbox";
import type { Talk } from "../state/talk";
import { textOf } from "../text/calls";
import { AskCard, Decisions } from "./approvals/AskCard";
import { usePage } from "./context";
import { Mark } from "./marks";
import { type Around, MessageView, SayingView, Who } from "./Message";
import { OutcomeRow } from "./Outcome";

/** Messages in a group; by `seq`, so that older pages do not move the borders. */
const GROUP = 32;
/** Groups closer than this to the window are drawn. */
const NEAR = "1600px 0px";
const AT_END = 48;

export function Stream(props: {
  talk: Talk;
  sending: Sending[];
  running: boolean;
  full: boolean;
  /** What of this talk waits for a person. */
  asked: ApprovalInfo[];
  fork: Around["fork"];
}) {
  let scroll!: HTMLDivElement;
  let content!: HTMLDivElement;
  let top = 0;
  const [pinned, setPinned] = createSignal(true);
  const [unseen, setUnseen] = createSignal(0);
  const state = () => props.talk.state;

  const results = createMemo(() => {
    const found = new Map<string, Message>();
    for (const message of state().messages) {
      if (message.toolCallId) found.set(message.toolCallId, message);
    }
    return found;
  });
  const around: Around = {
    results,
    running: () => props.running,
    waits: (call) => props.asked.some((one) => one.call === call),
    full: () => props.full,
    fork: props.fork,
  };
  const shown = createMemo(() =>
    props.full ? state().messages : state().messages.filter((message) => isSpoken(message)),
  );
  const groups = createMemo(() =>
    Map.groupBy(shown(), (message) => Math.floor(message.seq / GROUP)),
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
      () => state().messages.at(-1)?.seq,
      (seq, before) => {
        if (!pinned() && seq !== undefined && before !== undefined && seq > before) {
          setUnseen((number) => number + (seq - before));
        }
      },
    ),
  );
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
                beforeOf={(message) => shown()[place(shown(), message.seq) - 1]}
                after={(message) => outcomes().get(message.seq) ?? []}
                outcome={(outcome) => (
                  <OutcomeRow
                    outcome={outcome}
                    last={state().messages[place(state().messages, outcome.seq + 1) - 1]}
                    retried={(item) => props.talk.retried(outcome.turn, item)}
                  />
                )}
                around={around}
              />
            )}
          </For>
          <div role="log" aria-live="polite" class="now-saying">
            <For each={state().saying}>
              {(saying) => (
                <>
                  <Show when={endsWithUser(shown())}>
                    <Who agent={props.talk.place.agent} at={Date.now()} />
                  </Show>
                  <SayingView saying={saying} around={around} />
                </>
              )}
            </For>
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
          <button class="btn bare edit" onClick={() => void outbox.withdraw(props.one.key)}>
            Remove
          </button>
        </div>
      </Show>
      <p class="say" dir="auto">
        {props.one.text}
      </p>
    </article>
  );
}

function Group(props: {
  root: () => HTMLElement;
  messages: () => Message[];
  beforeOf: (message: Message) => Message | undefined;
  after: (message: Message) => TurnOutcome[];
  outcome: (outcome: TurnOutcome) => JSX.Element;
  around: Around;
}) {
  let box!: HTMLDivElement;
  const [near, setNear] = createSignal(true);
  const [height, setHeight] = createSignal(0);
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
    <div class="group" ref={box} style={{ height: near() ? undefined : `${height()}px` }}>
      <Show when={near()}>
        <For each={props.messages()}>
          {(message) => (
            <>
              <MessageView
                message={message}
                before={props.beforeOf(message)}
                around={props.around}
              />
              {message.content.some((block) => block.type === "toolCall") && (
                <Decisions message={message} />
              )}
              <For each={props.after(message)}>{props.outcome}</For>
            </>
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
