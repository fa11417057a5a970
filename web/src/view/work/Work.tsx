// Work: what agents were given, as a board or a table; below it the item that was picked, with who
// gave what to whom and how the time of its turn was spent.

import { createEffect, createSignal, For, type JSX, onCleanup, Show } from "solid-js";
import { href, type WorkRoute } from "../../state/route";
import { createBoard, createTable } from "../../state/work";
import { COLUMNS, type Kind, type WorkShow } from "../../state/workShow";
import { COLUMN_WORDS } from "../../text/work";
import { usePage } from "../context";
import { createHiveClock } from "../hooks";
import { Icon } from "../marks";
import { Empty, Notice, Select, Tabs } from "../parts";
import { Board } from "./Board";
import { Picked } from "./Picked";
import { Table } from "./Table";

const KINDS: [Kind | undefined, string][] = [
  [undefined, "All"],
  ["task", "Tasks"],
  ["message", "Messages"],
  ["peer", "Between agents"],
  ["reminder", "Reminders"],
];

const VIEWS: ["board" | "table", string][] = [
  ["board", "Board"],
  ["table", "Table"],
];

export function WorkPage(props: { route: WorkRoute }) {
  const { router } = usePage();
  const show = (): WorkShow => props.route;
  // Words that are typed further are one step for whoever goes back.
  const go = (change: Partial<WorkRoute>) => {
    const isTyped = change.text && props.route.text;
    router.go({ ...props.route, ...change }, isTyped ? "same step" : "step");
  };
  const now = createHiveClock(1000);
  const link = (item: string) => href({ ...props.route, item });
  const [listed, setListed] = createSignal(false);
  const shared = { show, link, listed: () => setListed(true) };
  // On the board every state has its column.
  const viewAs = (view: "board" | "table") =>
    view === "table"
      ? href({ ...props.route, view })
      : href({ ...props.route, view: undefined, column: undefined });
  return (
    <div class="page work">
      <header class="head work-head">
        <div class="grow">
          <h1>Work</h1>
        </div>
        <Filters route={props.route} go={go} />
        <Tabs label="View" of={VIEWS} chosen={props.route.view ?? "board"} href={viewAs} />
      </header>
      <Show
        when={props.route.view === "table"}
        fallback={<BoardView {...shared} route={props.route} now={now()} />}
      >
        <TableView {...shared} route={props.route} now={now()} />
      </Show>
      <Show when={props.route.item} keyed>
        {(item) => <Picked item={item} route={props.route} now={now()} listed={listed()} />}
      </Show>
    </div>
  );
}

function Filters(props: { route: WorkRoute; go: (change: Partial<WorkRoute>) => void }) {
  const { hive } = usePage();
  return (
    <div class="filters" role="group" aria-label="Filter">
      <For each={KINDS}>
        {([kind, words]) => (
          <a
            href={href({ ...props.route, kind })}
            aria-current={props.route.kind === kind ? "true" : undefined}
          >
            {words}
          </a>
        )}
      </For>
      <Toggle route={props.route} part="mine" words="From me" />
      <Toggle route={props.route} part="today" words="Today" />
      <Show when={props.route.view === "table"}>
        <Select
          spoken="State"
          of={[...COLUMNS]}
          words={(one) => COLUMN_WORDS[one as (typeof COLUMNS)[number]][0]}
          all="All states"
          chosen={props.route.column}
          choose={(one) => props.go({ column: COLUMNS.find((column) => column === one) })}
        />
      </Show>
      <Select
        spoken="Agent"
        of={hive.names()}
        all="All agents"
        chosen={props.route.agent}
        choose={(agent) => props.go({ agent: agent || undefined })}
      />
      <TextFilter text={props.route.text} choose={(text) => props.go({ text })} />
    </div>
  );
}

/** A filter that is on or off. */
function Toggle(props: { route: WorkRoute; part: "mine" | "today"; words: string }) {
  const on = () => props.route[props.part] === true;
  return (
    <a
      href={href({ ...props.route, [props.part]: on() ? undefined : true })}
      aria-current={on() ? "true" : undefined}
    >
      {props.words}
    </a>
  );
}

/** Looks when nothing was typed for a moment. */
const PAUSE = 300;

function TextFilter(props: {
  text: string | undefined;
  choose: (text: string | undefined) => void;
}) {
  let field!: HTMLInputElement;
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  // Another address has other words; what is being typed stays.
  createEffect(() => {
    const text = props.text ?? "";
    if (timer === undefined && field.value.trim() !== text) field.value = text;
  });
  return (
    <input
      class="field"
      type="search"
      ref={field}
      aria-label="Text in work"
      placeholder="Text"
      maxlength="200"
      onInput={() => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          timer = undefined;
          props.choose(field.value.trim() || undefined);
        }, PAUSE);
      }}
    />
  );
}

interface ViewProps {
  show: () => WorkShow;
  route: WorkRoute;
  link: (item: string) => string;
  now: number;
  /** The list has its height: what is below it stays where it is. */
  listed: () => void;
}

/** Grey shapes where reading takes longer than a moment. */
const SLOW = 300;

function Loading() {
  const [slow, setSlow] = createSignal(false);
  setTimeout(() => setSlow(true), SLOW);
  return (
    <Show when={slow()}>
      <div class="skels" role="status" aria-label="Loading">
        <For each={[80, 60, 70]}>
          {(width) => <div class="skel" style={{ width: `${width}%` }} />}
        </For>
      </div>
    </Show>
  );
}

function Shown(props: { read: boolean; some: boolean; show: WorkShow; children: JSX.Element }) {
  return (
    <Show when={props.read} fallback={<Loading />}>
      <Show when={props.some} fallback={<Nothing show={props.show} />}>
        {props.children}
      </Show>
    </Show>
  );
}

function BoardView(props: ViewProps) {
  const { live } = usePage();
  const board = createBoard(live, props.show);
  createEffect(() => (board.state.read || board.problem()) && props.listed());
  const some = () => COLUMNS.some((column) => board.state.lanes[column].items.length > 0);
  return (
    <>
      <Notice text={board.problem()} />
      <Shown read={board.state.read} some={some()} show={props.show()}>
        <Board state={board.state} route={props.route} link={props.link} now={props.now} />
      </Shown>
    </>
  );
}

function TableView(props: ViewProps) {
  const { live } = usePage();
  const table = createTable(live, props.show);
  createEffect(() => (table.seen() || table.problem()) && props.listed());
  const some = () => table.rows().length > 0 || table.next() !== undefined;
  return (
    <>
      <Notice text={table.problem()} />
      <Shown read={table.seen()} some={some()} show={props.show()}>
        <Table table={table} picked={props.route.item} link={props.link} now={props.now} />
      </Shown>
    </>
  );
}

function Nothing(props: { show: WorkShow }) {
  const filtered = () => {
    const { agent, column, kind, mine, text, today } = props.show;
    return Boolean(agent ?? column ?? kind ?? mine ?? text ?? today);
  };
  return (
    <Show
      when={filtered()}
      fallback={
        <Empty title="No work yet" first>
          <p>
            Messages to agents, and tasks that agents give each other, are listed here from the
            moment they are accepted.
          </p>
          <p class="first-act">
            <a class="btn" href="#/chat/main">
              <Icon name="chat" />
              Open main
            </a>
          </p>
        </Empty>
      }
    >
      <Empty title="No such work">
        <p>
          Nothing fits these filters. <a href={href({ page: "work", view: props.show.view })}>
            Show all work
          </a>
        </p>
      </Empty>
    </Show>
  );
}
