// The board: a column for each state, with the newest items of it.

import { createMemo, For, Show } from "solid-js";
import type { WorkCounts, WorkItem } from "../../api/types";
import { href, type WorkRoute } from "../../state/route";
import { isRetrying, retryOf } from "../../state/standing";
import type { createBoard } from "../../state/work";
import { COLUMNS, type Column, columnItems } from "../../state/workShow";
import { plural } from "../../text/format";
import {
  COLUMN_WORDS,
  isOpen,
  nameOfWork,
  tookWords,
  whenWords,
  whyWords,
} from "../../text/work";
import { usePage } from "../context";
import { Mark } from "../marks";

interface BoardProps {
  state: ReturnType<typeof createBoard>["state"];
  route: WorkRoute;
  link: (item: string) => string;
  now: number;
}

export function Board(props: BoardProps) {
  return (
    <div class="board" role="group" aria-label="Board" tabindex="0">
      <For each={COLUMNS}>{(column) => <Lane {...props} column={column} />}</For>
    </div>
  );
}

function Lane(props: BoardProps & { column: Column }) {
  const { hive } = usePage();
  const lane = () => props.state.lanes[props.column];
  const items = createMemo(() => {
    const lanes = Object.fromEntries(COLUMNS.map((one) => [one, props.state.lanes[one].items]));
    const retries = (item: WorkItem) => isRetrying(hive.state.turns[item.turn ?? ""]);
    return columnItems(lanes as Record<Column, WorkItem[]>, props.column, retries);
  });
  /** Of the counts by state, those that stand in another column. */
  const moved = () => items().length - lane().items.length;
  const count = () => countWords(props.column, props, moved());
  const [words, mark] = COLUMN_WORDS[props.column];
  const heading = `lane-${props.column}`;
  return (
    <section class="lane" aria-labelledby={heading}>
      <h2 id={heading}>
        <Mark name={mark} quiet />
        {words}
        <span>{count()}</span>
      </h2>
      <ul>
        <For each={items()}>
          {(item) => (
            <li>
              <a
                href={props.link(item.item_id)}
                aria-current={props.route.item === item.item_id ? "true" : undefined}
              >
                <Item item={item} now={props.now} />
              </a>
            </li>
          )}
        </For>
      </ul>
      <Show when={lane().more}>
        <a href={href({ ...props.route, view: "table", column: props.column })}>
          {moreWords(Number(count()) - items().length)}
        </a>
      </Show>
    </section>
  );
}

/** What is open, in all; what has ended, of today. */
function countWords(column: Column, { state, route }: BoardProps, moved: number): string {
  const { items, more } = state.lanes[column];
  const counts = state.counts;
  if (column === "done" || column === "failed") {
    const today = counts && endedToday(column, counts);
    return today ? `${today} today` : "";
  }
  if (!more) return String(items.length + moved);
  const all = allOpen(column, state.counts);
  // The counts are of all work.
  const filtered = Boolean(route.kind ?? route.agent ?? route.text ?? route.mine ?? route.today);
  const shown = items.length + moved;
  return filtered || !all || all < items.length ? `${shown}+` : String(all + moved);
}

function allOpen(column: Column, counts: WorkCounts | undefined): number | undefined {
  if (column === "queued") return counts?.pending;
  return column === "running" ? counts?.running : counts?.waiting;
}

function endedToday(column: Column, counts: WorkCounts): number {
  return column === "done" ? counts.done : counts.failed + counts.cancelled;
}

const moreWords = (more: number) => (more > 0 ? `${more} more` : "More");

function Item(props: { item: WorkItem; now: number }) {
  const { approvals, hive, whoIs } = usePage();
  const item = () => props.item;
  const asks = () => approvals.state.open.some((one) => one.turn === item().turn);
  const turn = () => (isOpen(item().state) ? hive.state.turns[item().turn ?? ""] : undefined);
  const why = () => whyWords(item(), retryOf(turn(), props.now), props.now);
  return (
    <>
      <span class="what2" dir="auto">
        {nameOfWork(item())}
      </span>
      <Show when={why()}>
        {(why) => (
          <span class={item().error ? "err" : asks() ? "ask" : "waits"}>{why()}</span>
        )}
      </Show>
      <span class="meta">
        <span class="clip" title={item().agent}>
          {item().agent}
        </span>
        <span class="clip">{fromWords(item(), whoIs)}</span>
        <Show when={item().open > 0 && !item().error}>
          <span class="nowrap">{plural(item().open, "task")} open</span>
        </Show>
        <span>{whenWords(item(), props.now)}</span>
      </span>
    </>
  );
}

function fromWords(item: WorkItem, whoIs: (principal: string) => string): string {
  if (item.error) return item.attempts > 1 ? `attempt ${item.attempts}` : "";
  const took = tookWords(item);
  return took ?? `from ${whoIs(item.from)}`;
}
