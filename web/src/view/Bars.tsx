// Bars over time. What is highest fills the height; nothing is a hairline.

import { createEffect, For } from "solid-js";

export interface Bar {
  /** 0 to 1 */
  height: number;
  now: boolean;
  title: string;
}

export function Bars(props: { bars: Bar[]; label: string }) {
  return (
    <div class="hours" role="img" aria-label={props.label}>
      <For each={props.bars}>{(bar) => <Column bar={bar} />}</For>
    </div>
  );
}

/** Set by script: the policy of the page allows no styles in its markup. */
function Column(props: { bar: Bar }) {
  let box!: HTMLElement;
  createEffect(() => {
    box.style.height = props.bar.height > 0 ? `${Math.max(2, props.bar.height * 100)}%` : "";
  });
  return (
    <i
      ref={box}
      classList={{ z: props.bar.height === 0, now: props.bar.now && props.bar.height > 0 }}
      title={props.bar.title}
    />
  );
}
