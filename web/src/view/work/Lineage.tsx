// Who gave what to whom, as a picture from left to right and as a list with the same facts.

import { createMemo, For, Show } from "solid-js";
import { href } from "../../state/route";
import { ends, span } from "../../text/format";
import { type LineageNode, NODE, type Placed, place } from "../../text/lineage";
import { Mark } from "../marks";

interface LineageProps {
  nodes: LineageNode[];
  now: number;
  link: (item: string) => string;
}

/** Letters that a line of a node has room for, and one of the sender, which is narrower. */
const LINE = 24;
const SHORT_LINE = 12;
/** The same for what stands beside a name, and how many of those a letter of the name takes. */
const BESIDE = 23;
const OF_NAME = 1.25;
/** Letters of a name, in the picture and in the list. */
const NAME = 13;
const LIST_NAME = 24;
/** Of the mark in the corner, with what is around it. */
const MARK = 28;

export function Graph(props: LineageProps) {
  const picture = createMemo(() => place(props.nodes));
  const label = () => `Delegation, ${props.nodes.length} steps; the list has the same`;
  return (
    <div class="graph" tabindex="0" role="region" aria-label="Delegation as a graph">
      <svg
        width={picture().width}
        height={picture().height}
        viewBox={`0 0 ${picture().width} ${picture().height}`}
        role="group"
        aria-label={label()}
      >
        <For each={picture().placed}>
          {(one) => <Edge one={one} from={picture().placed[one.node.parent ?? -1]} />}
        </For>
        <For each={props.nodes}>
          {(_, at) => (
            <Show when={picture().placed[at()]}>
              {(one) => <Node one={one()} link={props.link} now={props.now} />}
            </Show>
          )}
        </For>
      </svg>
    </div>
  );
}

function Edge(props: { one: Placed; from: Placed | undefined }) {
  const line = (from: Placed) => {
    const [x1, y1] = [from.x + from.width, from.y + NODE.height / 2];
    const [x2, y2] = [props.one.x - 1, props.one.y + NODE.height / 2];
    const middle = (x1 + x2) / 2;
    return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - 4} ${y2}`;
  };
  const arrow = () => {
    const [x, y] = [props.one.x - 1, props.one.y + NODE.height / 2];
    return `m${x} ${y}-7-3.5v7Z`;
  };
  return (
    <Show when={props.from}>
      {(from) => (
        <>
          <path d={line(from())} />
          <path class="arrow" d={arrow()} />
        </>
      )}
    </Show>
  );
}

function target(node: LineageNode, link: (item: string) => string): string | undefined {
  if (node.approval) return href({ page: "approvals", id: node.approval });
  return node.item ? link(node.item) : undefined;
}

/** Of what goes on, how long by now. */
function whenOf(node: LineageNode, now: number): string {
  return node.since === undefined ? node.when : span(Math.max(0, now - node.since));
}

function Node(props: { one: Placed; link: (item: string) => string; now: number }) {
  const node = () => props.one.node;
  const to = () => target(node(), props.link);
  return (
    <Show when={to()} fallback={<Box one={props.one} now={props.now} />}>
      {(to) => (
        // In a group of its own: by itself it would be a link of HTML, which no picture shows.
        <g>
          <a href={to()} aria-current={node().picked ? "true" : undefined}>
            <Box one={props.one} now={props.now} />
          </a>
        </g>
      )}
    </Show>
  );
}

function Box(props: { one: Placed; now: number }) {
  const node = () => props.one.node;
  const [x, y] = [() => props.one.x, () => props.one.y];
  const letters = () => (node().depth === 0 ? SHORT_LINE : LINE);
  const who = () => ends(node().who, NAME);
  const how = () => short(node().how, Math.floor(BESIDE - who().length * OF_NAME));
  /** What came of it, else how it stands and how long. */
  const last = () => {
    const { result, state } = node();
    const when = whenOf(node(), props.now);
    return result ? `= ${result}` : [state, when].filter(Boolean).join(", ");
  };
  return (
    <g classList={{ sel: node().picked }}>
      <title>{sentence(node(), props.now)}</title>
      <rect x={x()} y={y()} width={props.one.width} height={NODE.height} rx="6" />
      {/* Pictures of their own: wide letters end at their edge. */}
      <svg x={x()} y={y()} width={props.one.width - MARK} height={NODE.height}>
        <text class="n" x="12" y="19">
          {who()}
          <tspan class="e" dx="6">
            {how()}
          </tspan>
        </text>
      </svg>
      <svg x={x()} y={y()} width={props.one.width - 6} height={NODE.height}>
        <text x="12" y="36">
          {short(node().what, letters())}
        </text>
        <text class="e" x="12" y="52">
          {short(last(), letters() + 2)}
        </text>
      </svg>
      <Show when={node().state}>
        <svg
          x={x() + props.one.width - 22}
          y={y() + 9}
          width="12"
          height="12"
          class={`st-${node().mark}`}
        >
          <use href={`#s-${node().mark}`} />
        </svg>
      </Show>
    </g>
  );
}

function short(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function sentence(node: LineageNode, now: number): string {
  const { who, how, what, state, result } = node;
  const parts = [`${who} ${how}`.trim(), what, state, whenOf(node, now)];
  if (result) parts.push(`result: ${result}`);
  return parts.filter(Boolean).join(", ");
}

export function LineageList(props: LineageProps & { class: string }) {
  return (
    <ol class={`lin ${props.class}`} aria-label="Delegation">
      <For each={props.nodes}>
        {(node) => (
          <li style={{ "--d": node.depth }} aria-current={node.picked ? "true" : undefined}>
            <Show when={node.state} fallback={<Mark name="done" quiet />}>
              <Mark name={node.mark} label={node.state} />
            </Show>
            <b class="nowrap" title={node.who}>
              {ends(node.who, LIST_NAME)}
            </b>
            <span class="faint nowrap hide-s">{node.how}</span>
            <span class="muted clip grow" dir="auto">
              <Show when={target(node, props.link)} fallback={node.what}>
                {(to) => <a href={to()}>{node.what}</a>}
              </Show>
              <Show when={node.result}>{(result) => <span class="faint"> = {result()}</span>}</Show>
            </span>
            <span class="faint nowrap">{whenOf(node, props.now)}</span>
          </li>
        )}
      </For>
    </ol>
  );
}
