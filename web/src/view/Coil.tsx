// The coil: one strip for one turn. Grey is the model, teal a tool, red a failed one; widths are
// time. Of a turn that began before the page was loaded it begins with the next event.

import { For, Show } from "solid-js";
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
    <Show when={props.strip.length}>
      <div class="coil" role="img" aria-label={label()}>
        <For each={props.strip}>
          {(step) => (
            <i
              classList={{
                t: step.kind === "tool",
                f: step.kind === "failed",
                w: step.kind === "wait",
              }}
              style={{ "flex-grow": width(step) }}
            />
          )}
        </For>
      </div>
    </Show>
  );
}
