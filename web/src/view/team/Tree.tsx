// The agents as a tree: left to right, on a phone indented. Only those near the window are drawn.

import { createEffect, createMemo, createSignal, For, onCleanup, onMount, Show } from "solid-js";
import type { AgentInfo } from "../../api/types";
import type { HiveModel } from "../../state/hive";
import { href, type TeamTab } from "../../state/route";
import { isRetrying } from "../../state/standing";
import {
  draw,
  filesProblem,
  NODE,
  type Place,
  type TeamStanding,
  teamStanding,
} from "../../state/team";
import { doingWords, queueWords, spendShare, spendWords } from "../../text/team";
import { inert } from "../../text/visible";
import { usePage } from "../context";
import { createHiveClock } from "../hooks";
import { Icon, Mark, type MarkName } from "../marks";
import { DangerTag } from "../parts";
import { EARLIER } from "./Now";

const MARKS: Record<TeamStanding, MarkName> = {
  running: "run",
  waiting: "wait",
  retrying: "queue",
  queued: "queue",
  idle: "idle",
  paused: "pause",
  stopped: "stop",
  failed: "fail",
};
/** What each mark means; two of them share one. */
export const LEGEND = (Object.keys(MARKS) as TeamStanding[])
  .filter((one) => one !== "retrying")
  .map((one) => [one, one === "queued" ? "queued, retrying" : one] as const);

/** While the hive is away nobody knows whether it still runs. */
export function TeamMark(props: { of: TeamStanding; quiet?: boolean }) {
  const { live } = usePage();
  const was = () => live.away() !== undefined && props.of === "running";
  return (
    <Mark
      name={was() ? "idle" : MARKS[props.of]}
      label={was() ? "was running" : props.of}
      quiet={props.quiet ?? false}
    />
  );
}

/** A turn that runs before one that waits, and that before one that is tried again. */
export function turnOf(hive: HiveModel, agent: string) {
  const turns = hive.turns().filter((turn) => turn.agent === agent);
  const running = turns.find((turn) => turn.state === "running");
  return running ?? turns.find((turn) => !isRetrying(turn)) ?? turns[0];
}

/** Drawn beyond the edges of the window, and how far it moves before that is drawn anew. */
const MARGIN = 600;
const STRIDE = 200;
/** As the style sheet says it. */
const NARROW = matchMedia("(max-width: 760px)");

export function Tree(props: {
  agents: AgentInfo[];
  chosen: string | undefined;
  tab: TeamTab;
  /** What scrolls. */
  canvas: () => HTMLElement;
}) {
  const { router } = usePage();
  const now = createHiveClock(1000);
  const [narrow, setNarrow] = createSignal(NARROW.matches);
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(innerHeight);
  let tree!: HTMLDivElement;

  onMount(() => {
    const look = () => {
      const canvas = props.canvas();
      // Hidden behind an agent on a phone, it has no height.
      if (canvas.clientHeight === 0) return;
      setTop(Math.floor((canvas.scrollTop - tree.offsetTop) / STRIDE) * STRIDE);
      setHeight(canvas.clientHeight);
    };
    const resized = () => setNarrow(NARROW.matches);
    const observer = new ResizeObserver(look);
    const canvas = props.canvas();
    observer.observe(canvas);
    canvas.addEventListener("scroll", look, { passive: true });
    NARROW.addEventListener("change", resized);
    onCleanup(() => {
      observer.disconnect();
      canvas.removeEventListener("scroll", look);
      NARROW.removeEventListener("change", resized);
    });
  });

  const byName = createMemo(() => new Map(props.agents.map((agent) => [agent.name, agent])));
  const picture = createMemo(() => draw(props.agents, narrow()));
  const isNear = (from: number, to: number) =>
    to > top() - MARGIN && from < top() + height() + MARGIN + STRIDE;
  const [focused, setFocused] = createSignal<string>();
  const near = createMemo(
    () => {
      const { order, places } = picture();
      const keep = focused();
      return order.filter((name) => {
        const { y } = places.get(name) ?? { y: 0 };
        // What has the focus stays, wherever it is.
        return name === keep || isNear(y, y + NODE.height);
      });
    },
    [],
    { equals: (a, b) => a.length === b.length && a.every((name, at) => name === b[at]) },
  );
  const lines = createMemo(() => picture().lines.filter((line) => isNear(line.top, line.bottom)));
  /** The one that Tab leads to. */
  const stop = () =>
    [focused(), props.chosen].find((one) => one && near().includes(one)) ?? near()[0];

  function show(name: string): void {
    const place = picture().places.get(name);
    if (!place) return;
    const [above, left] = [place.y + tree.offsetTop, place.x + tree.offsetLeft];
    const canvas = props.canvas();
    const { clientHeight: high, clientWidth: wide, scrollTop, scrollLeft } = canvas;
    const goes = { top: scrollTop, left: scrollLeft };
    if (above < scrollTop || above + NODE.height > scrollTop + high) goes.top = above - high / 3;
    if (left < scrollLeft || left + NODE.width > scrollLeft + wide) goes.left = left - 24;
    canvas.scrollTo(goes);
  }

  // One that was named in the address is brought into sight once.
  let shown: string | undefined;
  createEffect(() => {
    const { chosen } = props;
    if (chosen === shown || !chosen || !picture().places.has(chosen)) return;
    shown = chosen;
    if (!tree.contains(document.activeElement)) queueMicrotask(() => show(chosen));
  });

  function key(event: KeyboardEvent): void {
    const { order, places } = picture();
    const at = order.indexOf(focused() ?? "");
    const place = places.get(focused() ?? "");
    const to = {
      ArrowDown: order[at + 1],
      ArrowUp: order[at - 1],
      ArrowLeft: place?.parent,
      ArrowRight: place?.children[0],
      Home: order[0],
      End: order.at(-1),
    }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setFocused(to);
    show(to);
    nodeOf(to)?.focus({ preventScroll: true });
  }

  const nodeOf = (name: string) => document.getElementById(`node-${name}`);

  return (
    <div
      class="tree"
      classList={{ indented: narrow() }}
      role="tree"
      aria-label="Organisation"
      ref={tree}
      style={{
        height: `${picture().height}px`,
        width: narrow() ? undefined : `${picture().width}px`,
      }}
      onKeyDown={key}
      onFocusOut={() => queueMicrotask(() => tree.contains(document.activeElement) || setFocused())}
    >
      <For each={lines()}>
        {(line) => (
          <i
            class="edge"
            style={{
              left: `${line.x}px`,
              top: `${line.top}px`,
              height: `${Math.max(0, line.bottom - line.top)}px`,
            }}
          />
        )}
      </For>
      <For each={near()}>
        {(name) => (
          <Show when={byName().get(name)}>
            {(agent) => (
              <Node
                agent={agent()}
                place={picture().places.get(name)}
                href={href({ page: "team", agent: name, tab: props.tab })}
                isChosen={props.chosen === name}
                isStop={stop() === name}
                now={now()}
                focused={() => setFocused(name)}
                chosen={() => (shown = name)}
                close={() => router.go({ page: "team", tab: "now" })}
              />
            )}
          </Show>
        )}
      </For>
    </div>
  );
}

function Node(props: {
  agent: AgentInfo;
  place: Place | undefined;
  href: string;
  isChosen: boolean;
  isStop: boolean;
  now: number;
  focused: () => void;
  chosen: () => void;
  close: () => void;
}) {
  const { approvals, hive, questions } = usePage();
  const standing = () => teamStanding(hive.state, props.agent);
  const doing = createMemo(() =>
    doingWords({
      agent: props.agent,
      standing: standing(),
      turn: turnOf(hive, props.agent.name),
      approval: approvals.state.open.find((one) => one.agent === props.agent.name),
      asks: questions.state.open.some(
        (one) => one.agent === props.agent.name && one.kind !== "message",
      ),
      now: props.now,
    }),
  );
  const share = () => props.agent.today && spendShare(props.agent.today);
  return (
    <a
      class="node"
      classList={{
        off: props.agent.status === "stopped",
        below: props.place?.parent !== undefined,
        above: Boolean(props.place?.children.length),
      }}
      id={`node-${props.agent.name}`}
      role="treeitem"
      href={props.href}
      aria-level={props.place?.level}
      aria-posinset={props.place?.position}
      aria-setsize={props.place?.siblings}
      aria-selected={props.isChosen}
      tabindex={props.isStop ? 0 : -1}
      style={{ left: `${props.place?.x ?? 0}px`, top: `${props.place?.y ?? 0}px` }}
      onFocus={() => props.focused()}
      onClick={() => props.chosen()}
    >
      <span class="row">
        <TeamMark of={standing()} />
        <b class="clip" title={props.agent.name}>
          {props.agent.name}
        </b>
        <Show when={filesProblem(hive.state.snapshot?.hive.config.problems, props.agent)}>
          <span class="broken bad-text" role="img" aria-label={EARLIER} title={EARLIER}>
            <Icon name="warn" />
          </span>
        </Show>
        <span class="tag">{props.agent.engine}</span>
        <DangerTag of={props.agent} />
      </span>
      <span
        class="clip"
        classList={{ "now-need": doing().need, "bad-text": doing().bad === true }}
        title={doing().text}
      >
        {inert(doing().text)}
      </span>
      <span class="foot">
        <Show when={props.agent.work}>
          <span>{queueWords(props.agent)}</span>
        </Show>
        <Show when={props.agent.today}>{(day) => <span>{spendWords(day())}</span>}</Show>
      </span>
      <Show when={share() !== undefined}>
        <span class="meter" aria-hidden="true">
          <i
            classList={{ full: share() === 1 }}
            style={{ width: `${Math.round((share() ?? 0) * 100)}%` }}
          />
        </span>
      </Show>
    </a>
  );
}
