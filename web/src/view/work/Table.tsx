// All work as a table that grows as it is read. Only the rows in view are drawn.

import { createEffect, createMemo, createSignal, For, onCleanup, onMount, Show } from "solid-js";
import type { WorkItem } from "../../api/types";
import { isRetrying, retryOf } from "../../state/standing";
import type { createTable } from "../../state/work";
import { clock } from "../../text/format";
import {
  howWords,
  isOpen,
  nameOfWork,
  standingOfItem,
  tookWords,
  whenWords,
  whyWords,
} from "../../text/work";
import { usePage } from "../context";
import { Mark } from "../marks";

/** The height of a row, as the style says. */
const ROW = 36;
/** Rows that are drawn above and below those in view. */
const BESIDE = 12;
/** So near to the end the next rows are read. */
const NEAR = 60;

export function Table(props: {
  table: ReturnType<typeof createTable>;
  picked: string | undefined;
  link: (item: string) => string;
  now: number;
}) {
  const rows = () => props.table.rows();
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(600);
  let box!: HTMLDivElement;
  onMount(() => {
    const measure = new ResizeObserver(() => setHeight(box.clientHeight));
    measure.observe(box);
    onCleanup(() => measure.disconnect());
  });
  // In steps: a row more or less is not worth a new list.
  const first = createMemo(() => {
    const at = Math.max(0, Math.floor(top() / ROW) - BESIDE);
    return Math.min(at - (at % 4), Math.max(0, rows().length - 1));
  });
  const last = createMemo(() =>
    Math.min(rows().length, first() + Math.ceil(height() / ROW) + 2 * BESIDE + 4),
  );
  const drawn = createMemo(() => rows().slice(first(), last()));
  createEffect(() => {
    props.table.look(first(), last());
    if (last() > rows().length - NEAR && !props.table.dry()) void props.table.more();
  });
  return (
    <div
      class="work-table"
      role="region"
      aria-label="All work"
      tabindex="0"
      ref={box}
      style={{ "--rows": rows().length }}
      onScroll={() => setTop(box.scrollTop)}
    >
      <table class="tbl" aria-rowcount={props.table.next() === undefined ? rows().length + 1 : -1}>
        <thead>
          <tr>
            <th class="c-state">
              <span class="sr">State</span>
              <span class="hide-s" aria-hidden="true">
                State
              </span>
            </th>
            <th>Work</th>
            <th class="c-agent">Agent</th>
            <th class="c-from hide-s">From</th>
            <th class="c-kind hide-s">Kind</th>
            <th class="c-when hide-s">Accepted</th>
            <th class="c-took num">Time</th>
          </tr>
        </thead>
        <tbody>
          <Space rows={first()} />
          <For each={drawn()}>
            {(item, at) => (
              <Row
                item={item}
                index={first() + at() + 2}
                picked={props.picked === item.item_id}
                link={props.link(item.item_id)}
                now={props.now}
              />
            )}
          </For>
          <Space rows={rows().length - last()} />
        </tbody>
      </table>
      <Show when={props.table.next() !== undefined}>
        <p class="small faint more-work">
          <Show when={props.table.dry()} fallback="Reading older work…">
            None among the last 5 000 items looked at.{" "}
            <button class="text-button" onClick={() => void props.table.more()}>
              Look further back
            </button>
          </Show>
        </p>
      </Show>
    </div>
  );
}

/** In place of rows that are not drawn. */
function Space(props: { rows: number }) {
  return (
    <Show when={props.rows > 0}>
      <tr aria-hidden="true" class="space">
        <td colspan="7" style={{ height: `${props.rows * ROW}px` }} />
      </tr>
    </Show>
  );
}

function Row(props: {
  item: WorkItem;
  index: number;
  picked: boolean;
  link: string;
  now: number;
}) {
  const { hive, whoIs } = usePage();
  const { item } = props;
  const turn = () => (isOpen(item.state) ? hive.state.turns[item.turn ?? ""] : undefined);
  const standing = () => standingOfItem(item.state, isRetrying(turn()));
  const why = () => whyWords(item, retryOf(turn(), props.now), props.now);
  const name = nameOfWork(item, 160);
  return (
    <tr aria-rowindex={props.index} aria-current={props.picked ? "true" : undefined}>
      <td class="nowrap">
        <span class="row">
          <Mark name={standing()[0]} label={standing()[1]} />
          <span class="hide-s" aria-hidden="true">
            {standing()[1]}
          </span>
        </span>
      </td>
      <td class="clip">
        <a href={props.link} title={name} dir="auto">
          {name}
        </a>
        <Show when={why()}>
          <span class={item.error ? "bad-text" : "muted"}> {why()}</span>
        </Show>
      </td>
      <td class="clip">{item.agent}</td>
      <td class="clip muted hide-s">{whoIs(item.from)}</td>
      <td class="clip muted hide-s">{howWords(item.task ?? item.kind)}</td>
      <td class="nowrap muted hide-s">{clock(item.created_at)}</td>
      <td class="num muted">{isOpen(item.state) ? whenWords(item, props.now) : tookWords(item)}</td>
    </tr>
  );
}
