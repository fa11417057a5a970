// One tool call: its name, what it is about, what came of it. Closed when it went well, open when
// it failed or changed a file.

import { createMemo, createSignal, Show } from "solid-js";
import type { Message } from "../api/types";
import { href } from "../state/route";
import { allArguments, mainArgument, ranFor, textOf } from "../text/calls";
import { diffOf, parse } from "../text/diff";
import { plural, span } from "../text/format";
import { inert, visible } from "../text/visible";
import { usePage } from "./context";
import { DiffView } from "./Diff";
import { Icon, Mark, type MarkName } from "./marks";

export interface Call {
  id: string;
  name: string;
  arguments: unknown;
  /** When the model asked for it. */
  at: number;
  turn: string;
}

/** More lines than this stay folded behind a button. */
const SHOWN_LINES = 12;

interface Props {
  call: Call;
  result: Message | undefined;
  running: boolean;
  /** For a person's yes. */
  waits: boolean;
}

export function ToolCard(props: Props) {
  const diff = () => diffOf(props.result);
  const failed = () => props.result?.isError === true && endOf(props.result) === undefined;
  const open = createMemo(() => failed() || diff() !== undefined);
  return (
    <details class="tool" classList={{ bad: failed() }} open={open()}>
      <summary>
        <Icon name="chev" class="chev" />
        <b>{visible(props.call.name)}</b>
        <span class="arg clip">{mainArgument(props.call.arguments)}</span>
        <Outcome {...props} />
      </summary>
      <Show when={diff()} fallback={<Exchange call={props.call} result={props.result} />}>
        {(text) => (
          <DiffView text={text()} label={`Change in ${mainArgument(props.call.arguments)}`} />
        )}
      </Show>
    </details>
  );
}

function Outcome(props: Props) {
  const { approvals } = usePage();
  const change = createMemo(() => {
    const text = diffOf(props.result);
    return text === undefined ? undefined : parse(text);
  });
  const became = (): [words: string, mark?: MarkName] => {
    const { call, result, running, waits } = props;
    if (!result) {
      if (waits) return ["waiting for approval", "wait"];
      return running ? ["running", "run"] : ["no result"];
    }
    const end = result.isError ? endOf(result) : undefined;
    if (end) return [ENDS[end] ?? end, end === "unknown" ? "fail" : "stop"];
    const approved = approvals.decidedOn(call.turn, call.id)?.decision?.at;
    const ms = ranFor(call.at, approved, result.timestamp);
    const took = ms >= 0 ? ` · ${span(ms)}` : "";
    if (result.isError) return [`failed${took}`, "fail"];
    return [(change() ? "" : lines(result)) + took];
  };
  return (
    <span class="res row">
      <Show when={became()[1]}>{(name) => <Mark name={name()} quiet />}</Show>
      <span>
        <Show when={!props.result?.isError && change()}>
          {(change) => (
            <>
              <span class="add-n">+{change().added}</span>{" "}
              <span class="del-n">−{change().removed}</span>
            </>
          )}
        </Show>
        {became()[0]}
      </span>
    </span>
  );
}

function Exchange(props: { call: Call; result: Message | undefined }) {
  const [all, setAll] = createSignal(false);
  const output = () => (props.result ? outputOf(props.result) : "");
  const rows = () => output().split("\n");
  const count = () => lineCount(props.result) ?? rows().length;
  const shown = () => (all() ? output() : rows().slice(0, SHOWN_LINES).join("\n"));
  return (
    <div class="body">
      <dl class="io">
        <dt>Input</dt>
        <dd>{allArguments(props.call.arguments)}</dd>
        <Show when={props.result}>
          <dt>Output</dt>
          <dd>{shown() || "(nothing)"}</dd>
        </Show>
      </dl>
      <Show when={props.result}>
        <div class="more">
          <Show when={rows().length > SHOWN_LINES && !all()}>
            <button class="text-button" onClick={() => setAll(true)}>
              {count() > rows().length
                ? `Show ${rows().length} of ${count()} lines`
                : `All ${rows().length} lines`}
            </button>
          </Show>
          <a href={href({ page: "log", tab: "audit", turn: props.call.turn })}>Decision chain</a>
        </div>
      </Show>
    </div>
  );
}

const outputOf = (result: Message) => inert(textOf(result.content).replace(/\n$/, ""));

function lines(result: Message): string {
  const text = outputOf(result);
  const number = lineCount(result) ?? (text === "" ? 0 : text.split("\n").length);
  return number === 0 ? "done" : plural(number, "line");
}

/** How many lines the tool wrote, also where the model was given less. */
function lineCount(result: Message | undefined): number | undefined {
  const lines = detail(result, "lines");
  return typeof lines === "number" ? lines : undefined;
}

/** Why a call has no answer of its own: it did not fail, and the time until then says nothing. */
const ENDS: Record<string, string> = {
  denied: "denied",
  refused: "not allowed",
  stopped: "stopped",
  expired: "not decided in time",
  unknown: "outcome unknown",
};

function endOf(result: Message | undefined): string | undefined {
  const end = detail(result, "outcome");
  return typeof end === "string" ? end : undefined;
}

function detail(result: Message | undefined, name: string): unknown {
  return (result?.details as Record<string, unknown> | null | undefined)?.[name];
}
