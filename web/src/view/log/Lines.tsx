// The program's log, as it grows. It has no events: while somebody looks, the rest is asked for.

import { createEffect, createSignal, For, on, onCleanup, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { get, query, said } from "../../api/http";
import type { LogLine, Noted } from "../../api/types";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { Choose, Notice } from "../parts";

const PAUSE = 1500;
/** Lines kept on the page; older ones are in the file. */
const KEPT = 1000;
const LEVELS = ["error", "warn", "info", "debug"];

export function Lines() {
  const { hive } = usePage();
  const [level, setLevel] = createSignal("info");
  const [agent, setAgent] = createSignal("");
  const [problem, setProblem] = createSignal<string>();
  const [state, set] = createStore<{ lines: LogLine[] }>({ lines: [] });
  const [pinned, setPinned] = createSignal(true);
  let box!: HTMLDivElement;
  let after: string | undefined;
  let asked = 0;

  async function more(): Promise<void> {
    if (document.hidden) return;
    const mine = asked;
    const which = { level: level(), agent: agent(), limit: 300, after };
    try {
      const page = await get<Noted>(`/logs${query(which)}`);
      // Another choice was made meanwhile: these lines are not of it.
      if (mine !== asked) return;
      after = page.next ?? after;
      if (page.lines.length) {
        set("lines", (lines) => [...lines, ...page.lines].slice(-KEPT));
        if (pinned()) requestAnimationFrame(() => (box.scrollTop = box.scrollHeight));
      }
      setProblem(undefined);
    } catch (error) {
      setProblem(`Reading the log failed: ${said(error)}`);
    }
  }

  createEffect(
    on([level, agent], () => {
      asked += 1;
      after = undefined;
      set("lines", []);
      void more();
    }),
  );
  const timer = setInterval(() => void more(), PAUSE);
  onCleanup(() => clearInterval(timer));

  return (
    <>
      <div class="row choices">
        <Choose label="From level" of={LEVELS} chosen={level()} choose={setLevel} />
        <Choose
          label="Agent"
          of={hive.names()}
          all="All"
          chosen={agent()}
          choose={setAgent}
        />
      </div>
      <Notice text={problem()} />
      <div
        class="log-lines"
        ref={box}
        role="log"
        aria-label="Lines of the log"
        aria-live="off"
        tabindex="0"
        onScroll={() => setPinned(box.scrollHeight - box.scrollTop - box.clientHeight < 40)}
      >
        <For
          each={state.lines}
          fallback={<p class="faint small">No lines at this level yet.</p>}
        >
          {(line) => <Line line={line} />}
        </For>
      </div>
    </>
  );
}

const OWN = new Set(["time", "level", "target", "agent", "session", "turn", "tool", "message"]);

function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Line(props: { line: LogLine }) {
  const more = () =>
    Object.entries(props.line)
      .filter(([name]) => !OWN.has(name))
      .map(([name, value]) => `${name}=${plain(value)}`)
      .join(" ");
  return (
    <div class={`log-line ${props.line.level.toLowerCase()}`}>
      <span class="faint">{props.line.time.slice(11, 23)}</span>
      <b>{props.line.level.toLowerCase()}</b>
      <span>
        <Show when={props.line.agent}>{(agent) => <span class="muted">{agent()} </span>}</Show>
        {visible(props.line.message)} <span class="faint">{visible(more())}</span>
      </span>
    </div>
  );
}
