// One stored message, or what is being said right now.

import { createMemo, createResource, For, Index, Match, Show, Switch } from "solid-js";
import { get } from "../api/http";
import type { Block, File, ItemInfo, Message, Meta, Origin, Usage } from "../api/types";
import type { Saying } from "../state/fold";
import { isSelf } from "../state/self";
import { textOf } from "../text/calls";
import { clock, count, money, span, undelivered } from "../text/format";
import { inert } from "../text/visible";
import { usePage } from "./context";
import { Copy } from "./Copy";
import { Files } from "./Files";
import { Icon } from "./marks";
import { Markdown } from "./Markdown";
import { type Call, ToolCard } from "./ToolCard";

export interface Around {
  /** By the turn and the id of the call: vendors give ids anew with each turn. */
  resultOf: (call: Call) => Message | undefined;
  /** Whether a call without a result is still under way. */
  running: () => boolean;
  /** Whether a call waits for a person. */
  waits: (call: Call) => boolean;
  full: () => boolean;
  /** Absent for whoever may not. */
  fork: ((message: Message) => void) | undefined;
  /** Absent but for the last answer. */
  regenerate: (message: Message) => (() => void) | undefined;
}

export function MessageView(props: {
  message: Message;
  before: Message | undefined;
  around: Around;
}) {
  return (
    <Switch>
      <Match when={props.message.role === "user"}>
        <Mine message={props.message} fork={props.around.fork} />
      </Match>
      <Match when={props.message.role === "assistant"}>
        <Said message={props.message} before={props.before} around={props.around} />
      </Match>
      <Match when={props.message.role === "system"}>
        <div class="seam small faint">{textOf(props.message.content)}</div>
      </Match>
      <Match when={props.message.role === "toolResult" && filesOf(props.message.content).length}>
        <Files files={filesOf(props.message.content)} />
      </Match>
    </Switch>
  );
}

function Mine(props: { message: Message; fork: Around["fork"] }) {
  const { whoIs } = usePage();
  const origin = () => props.message.origin;
  const who = () => {
    const principal = origin()?.principal;
    return principal === undefined || isSelf(principal) ? "You" : inert(whoIs(principal));
  };
  return (
    <article class="mine" aria-label={who()}>
      <div class="who">
        <b class="clip">{who()}</b>
        <span class="small faint">
          {OWN.includes(origin()?.channel ?? "api") ? "" : origin()?.channel}{" "}
          {clock(props.message.timestamp)}
        </span>
        <span class="edit row">
          <Copy label="Copy message" text={() => textOf(props.message.content)} />
          <Show when={props.fork}>
            {(fork) => (
              <button class="btn bare" onClick={() => fork()(props.message)}>
                Edit and fork
              </button>
            )}
          </Show>
        </span>
      </div>
      <Markdown text={textOf(props.message.content)} />
      <Files files={filesOf(props.message.content)} />
      <Undelivered origin={origin()} />
    </article>
  );
}

/** The page's and the API's own channels: they take everything and need no name. */
const OWN = ["ws", "api"];

/** What the message's channel did not take. */
function Undelivered(props: { origin: Origin | null | undefined }) {
  const [item] = createResource(
    () => (OWN.includes(props.origin?.channel ?? "api") ? undefined : props.origin?.item),
    (id) => get<ItemInfo>(`/inbox/${encodeURIComponent(id)}`),
  );
  const frames = () => (item.error ? [] : (item.latest?.undelivered ?? []));
  return (
    <For each={frames()}>
      {(frame) => <div class="seam">{undelivered(props.origin?.channel ?? "", frame)}</div>}
    </For>
  );
}

function Said(props: { message: Message; before: Message | undefined; around: Around }) {
  const begins = () =>
    !props.before || props.before.role === "user" || props.before.role === "system";
  return (
    <>
      <Show when={begins()}>
        <Who agent={props.message.agentId} at={props.message.timestamp} />
      </Show>
      <Blocks
        blocks={props.message.content}
        at={props.message.timestamp}
        turn={props.message.turn}
        around={props.around}
      />
      <Show when={textOf(props.message.content) && ENDS[props.message.meta?.stopReason ?? ""]}>
        {(words) => <div class="seam small faint">{words()}</div>}
      </Show>
      <div class="after">
        <Show when={props.around.full() && props.message.meta}>
          {(meta) => (
            <UsageLine
              meta={meta()}
              took={props.before ? props.message.timestamp - props.before.timestamp : undefined}
            />
          )}
        </Show>
        <Show when={textOf(props.message.content)}>
          {(text) => (
            <div class="acts">
              <Copy label="Copy answer" words="Copy" text={text} />
              <Show when={props.around.regenerate(props.message)}>
                {(regenerate) => (
                  <button class="btn bare" onClick={() => regenerate()()}>
                    <Icon name="retry" />
                    Regenerate
                  </button>
                )}
              </Show>
            </div>
          )}
        </Show>
      </div>
    </>
  );
}

export function Who(props: { agent: string; at: number }) {
  return (
    <div class="who">
      <b>{props.agent}</b>
      <span class="small faint">{clock(props.at)}</span>
    </div>
  );
}

/** The model call under way. */
export function SayingView(props: { saying: Saying; around: Around }) {
  return (
    <div class="saying">
      <Blocks
        blocks={props.saying.blocks}
        at={Date.now()}
        turn={props.saying.turn}
        around={props.around}
        open
      />
      <span class="caret" aria-hidden="true" />
    </div>
  );
}

interface Piece {
  text?: string;
  thinking?: string;
  calls?: Call[];
}

/**
 * Blocks in the order they happened; calls side by side share one frame. While they grow each
 * keeps its elements, and what somebody opened in them.
 */
function Blocks(props: {
  blocks: Block[];
  at: number;
  turn: string;
  around: Around;
  open?: boolean;
}) {
  const pieces = createMemo(() => cut(props.blocks, props.at, props.turn));
  return (
    <Index each={pieces()}>
      {(piece) => (
        <Switch>
          <Match when={piece().text}>{(text) => <Markdown text={text()} />}</Match>
          <Match when={props.around.full() && piece().thinking !== undefined}>
            <Thinking text={piece().thinking ?? ""} live={props.open === true} />
          </Match>
          <Match when={props.around.full() && piece().calls}>
            {(calls) => (
              <div class="tools">
                <For each={calls()}>
                  {(call) => (
                    <ToolCard
                      call={call}
                      result={props.around.resultOf(call)}
                      running={props.around.running()}
                      waits={props.around.waits(call)}
                    />
                  )}
                </For>
              </div>
            )}
          </Match>
        </Switch>
      )}
    </Index>
  );
}

function cut(blocks: Block[], at: number, turn: string): Piece[] {
  const pieces: Piece[] = [];
  for (const block of blocks) {
    if (block.type === "text") pieces.push({ text: block.text });
    else if (block.type === "thinking") pieces.push({ thinking: block.thinking });
    else if (block.type === "toolCall") {
      const call = { id: block.id, name: block.name, arguments: block.arguments, at, turn };
      const last = pieces.at(-1);
      if (last?.calls) last.calls.push(call);
      else pieces.push({ calls: [call] });
    }
  }
  return pieces;
}

function Thinking(props: { text: string; live: boolean }) {
  return (
    <details class="think">
      <summary>
        <Icon name="chev" class="chev" />
        {props.live ? "Thinking" : "Thought"}
      </summary>
      <p>{inert(props.text)}</p>
    </details>
  );
}

function UsageLine(props: { meta: Meta; took: number | undefined }) {
  const tokens = (usage: Usage) => {
    const input = usage.input + usage.cacheRead + usage.cacheWrite;
    const cached = input ? Math.round((usage.cacheRead / input) * 100) : 0;
    return `${count(input)} in${cached ? `, ${cached} % cached` : ""}`;
  };
  return (
    <div class="usage small faint">
      <span>{inert(props.meta.model)}</span>
      <Show when={props.meta.usage} fallback={<span>not counted</span>}>
        {(usage) => (
          <>
            <span>{tokens(usage())}</span>
            <span>{count(usage().output)} out</span>
            <span>{money(usage().cost)}</span>
          </>
        )}
      </Show>
      <Show when={props.took !== undefined && props.took >= 0}>
        <span>{span(props.took ?? 0)}</span>
      </Show>
    </div>
  );
}

/** By the reason why the model stopped in the middle of its words. A turn's own end has a row. */
const ENDS: Record<string, string> = {
  max_tokens: "Incomplete: output limit reached",
  refusal: "The model refused to continue",
};

function filesOf(blocks: Block[]): File[] {
  return blocks.filter((block) => block.type === "file");
}
