// Facts of this session: how full the context is, which files changed, how the turn goes.

import { createMemo, createSignal, For, onCleanup, Show } from "solid-js";
import type { Message } from "../api/types";
import type { RunningTurn } from "../state/hive";
import type { Talk } from "../state/talk";
import { mainArgument } from "../text/calls";
import { parse } from "../text/diff";
import { count, span } from "../text/format";
import { Coil } from "./Coil";

export function Inspector(props: { talk: Talk; turn: RunningTurn | undefined }) {
  return (
    <aside class="insp" aria-label="This session">
      <Context talk={props.talk} />
      <Changed messages={props.talk.state.messages} />
      <Show when={props.turn}>{(turn) => <ThisTurn turn={turn()} />}</Show>
    </aside>
  );
}

function Context(props: { talk: Talk }) {
  const context = () => {
    const known = props.talk.state.context;
    return known?.window ? { used: known.used, window: known.window } : undefined;
  };
  return (
    <Show when={context()}>
      {(context) => (
        <section>
          <h2>
            Context, {count(context().used)} of {count(context().window)}
          </h2>
          <Meter used={context().used} window={context().window} />
        </section>
      )}
    </Show>
  );
}

function Meter(props: { used: number; window: number }) {
  const percent = () => Math.min(100, Math.round((props.used / props.window) * 100));
  return (
    <div class="ctx">
      <div
        class="meter"
        role="img"
        aria-label={`${percent()} percent of the context is used; compaction at 75 percent`}
      >
        <i ref={(bar) => bar.style.setProperty("width", `${percent()}%`)} />
      </div>
      <span class="mark" />
      <span class="lab">compacts at 75 %</span>
    </div>
  );
}

function Changed(props: { messages: Message[] }) {
  const files = createMemo(() => {
    const changed = new Map<string, { added: number; removed: number }>();
    const names = new Map<string, string>();
    for (const message of props.messages) {
      for (const block of message.content) {
        if (block.type === "toolCall") names.set(block.id, mainArgument(block.arguments));
      }
      const text = message.details?.diff;
      if (text === undefined || !message.toolCallId) continue;
      const { added, removed } = parse(text);
      const name = names.get(message.toolCallId) ?? "a file";
      const before = changed.get(name) ?? { added: 0, removed: 0 };
      changed.set(name, { added: before.added + added, removed: before.removed + removed });
    }
    return [...changed.entries()];
  });
  return (
    <Show when={files().length}>
      <section>
        <h2>Files changed</h2>
        <ul>
          <For each={files()}>
            {([name, change]) => (
              <li>
                <span class="clip" title={name}>
                  {name}
                </span>
                <span>
                  <span class="add-n">+{change.added}</span>{" "}
                  <span class="del-n">−{change.removed}</span>
                </span>
              </li>
            )}
          </For>
        </ul>
      </section>
    </Show>
  );
}

function ThisTurn(props: { turn: RunningTurn }) {
  const [now, setNow] = createSignal(Date.now());
  const timer = setInterval(() => setNow(Date.now()), 1000);
  onCleanup(() => clearInterval(timer));
  return (
    <section>
      <h2>This turn</h2>
      <Coil strip={props.turn.strip} now={now()} />
      <dl class="kv narrow">
        <dt>Calls</dt>
        <dd>{props.turn.strip.filter((step) => step.kind !== "model").length}</dd>
        <dt>Time</dt>
        <dd>{span(Math.max(0, now() - props.turn.since))}</dd>
      </dl>
    </section>
  );
}
