import { createMemo, For, Show } from "solid-js";
import { parse } from "../text/diff";
import { inert } from "../text/visible";

export function DiffView(props: { text: string; label: string }) {
  const diff = createMemo(() => parse(inert(props.text)));
  return (
    <div class="body diff" role="region" aria-label={props.label} tabindex="0">
      <For each={diff().lines}>
        {(line) => (
          <Show when={line !== "gap" && line} fallback={<span class="gap">⋯</span>}>
            {(line) => (
              <span classList={{ a: line().sign === "+", d: line().sign === "-" }}>
                <i>{line().number}</i>
                <b>{line().sign === "-" ? "−" : line().sign}</b>
                <span>
                  <For each={line().pieces}>
                    {(piece) => (piece.changed ? <mark>{piece.text}</mark> : piece.text)}
                  </For>
                </span>
              </span>
            )}
          </Show>
        )}
      </For>
    </div>
  );
}
