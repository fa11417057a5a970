// The coil: one strip for one turn. Grey is the model, teal a tool, red a failed one; widths are
// time.

import { For } from "solid-js";
import type { Step } from "../state/hive";
import { plural } from "../text/format";

export function Coil(props: { strip: Step[]; now: number }) {
  const width = (step: Step) => Math.max(200, (step.until ?? props.now) - step.at);
  const tools = () =>
    props.strip.filter((step) => step.kind === "tool" || step.kind === "failed").length;
  const waits = () => props.strip.some((step) => step.kind === "wait" && !step.until);
  const failed = () => props.strip.filter((step) => step.kind === "failed").length;
  const label = () => {
    const bad = failed() ? `, ${failed()} failed` : "";
    return `${plural(tools(), "tool call")}${bad}${waits() ? ", waiting" : ""}`;
  };
  return (
    <div class="coil" role="img" aria-label={label()}>
      <For each={props.strip}>
        {(step) => (
          <i
            classList={{
              t: step.kind === "tool",
              f: step.kind === "failed",
              w: step.kind === "wait",
            }}
            ref={(piece) => queueMicrotask(() => (piece.style.flexGrow = String(width(step))))}
          />
        )}
      </For>
    </div>
  );
}
