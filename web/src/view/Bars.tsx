// Bars over time. What is highest fills the height; nothing is a hairline.
// The policy of the page allows no styles in its markup: those that are not constant are set by
// script.

import { For } from "solid-js";

export interface Bar {
  /** 0 to 1 */
  height: number;
  now: boolean;
  title: string;
}

export function Bars(props: { bars: Bar[]; label: string; axis: string[] }) {
  return (
    <>
      <div class="hours" role="img" aria-label={props.label}>
        <For each={props.bars}>
          {(bar) => (
            <i
              classList={{ z: bar.height === 0, now: bar.now && bar.height > 0 }}
              style={{ height: bar.height > 0 ? `${Math.max(2, bar.height * 100)}%` : undefined }}
              title={bar.title}
            />
          )}
        </For>
      </div>
      <div class="axis" aria-hidden="true">
        <For each={props.axis}>{(text) => <span>{text}</span>}</For>
      </div>
    </>
  );
}
