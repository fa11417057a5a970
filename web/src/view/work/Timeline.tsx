// How the time of a turn was spent: a bar for each model call, tool call and wait.

import { createMemo, For, Index, Show } from "solid-js";
import type { TurnTiming } from "../../api/types";
import { span } from "../../text/format";
import { type Bar, waterfall } from "../../text/waterfall";
import { Section } from "../parts";

const LEGEND = [
  ["m", "model"],
  ["t", "tool"],
  ["f", "failed"],
  ["w", "waiting (not counted)"],
] as const;

export function Timeline(props: { timing: TurnTiming; now: number }) {
  // A turn that is over does not change with the time of day.
  const now = () => (props.timing.ended_at == null ? props.now : (props.timing.ended_at ?? 0));
  const picture = createMemo(() => waterfall(props.timing, now()));
  return (
    <Section
      id="wf-h"
      title="Timeline"
      beside={<span class="small faint">{picture().summary}</span>}
      class="wf"
    >
      <div class="wf-axis" aria-hidden="true">
        <span>step</span>
        <div>
          <For each={picture().axis}>{(tick) => <span>{tick}</span>}</For>
        </div>
        <span />
      </div>
      <ol aria-label="Steps of the turn" tabindex="0">
        {/* While it runs the bars are others every second; their rows are not. */}
        <Index each={picture().bars}>{(bar) => <BarRow bar={bar()} />}</Index>
      </ol>
      <Show when={props.timing.cut}>
        <p class="small faint small-pad">Later steps are not shown.</p>
      </Show>
      <div class="legend" aria-hidden="true">
        <For each={LEGEND}>
          {([kind, words]) => (
            <span>
              <i class={kind} />
              {words}
            </span>
          )}
        </For>
      </div>
    </Section>
  );
}

function kindOf({ row }: Bar): string {
  if (row.kind === "wait") return row.name === "queue" ? "q" : "w";
  if (row.failed) return "f";
  return row.kind === "model" ? "m" : "t";
}

function BarRow(props: { bar: Bar }) {
  const tool = () => props.bar.row.kind !== "model" && props.bar.row.name !== "queue";
  return (
    <li class={kindOf(props.bar)} title={props.bar.title}>
      <span class="clip" classList={{ nm: tool() }}>
        {props.bar.label}
        <Show when={props.bar.row.failed}>
          <span class="sr"> failed</span>
        </Show>
      </span>
      <div class="lane-bar" aria-hidden="true">
        <i style={{ "--a": props.bar.from, "--w": props.bar.width }} />
      </div>
      <span>{props.bar.open ? `${span(props.bar.took)}…` : span(props.bar.took)}</span>
    </li>
  );
}
