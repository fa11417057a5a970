// What a day may use, and how much of it is used.

import { createEffect, Show } from "solid-js";
import { count, money } from "../text/format";
import { usePage } from "./context";

export function Budgets() {
  const { hive } = usePage();
  const spend = () => hive.state.snapshot?.spend;
  return (
    <Show when={spend()}>
      {(spend) => (
        <section class="gap-top" aria-labelledby="limits-h">
          <div class="sec">
            <h2 id="limits-h">Limits of the day</h2>
            <span class="small faint">they hold before every model call</span>
          </div>
          <Show when={spend().limits.cost_per_day !== undefined}>
            <Limit
              name="Money, all agents"
              used={spend().known_cost}
              most={spend().limits.cost_per_day ?? 0}
              words={money}
            />
          </Show>
          <Show when={spend().limits.tokens_per_day !== undefined}>
            <Limit
              name="Tokens, all agents"
              used={spend().tokens}
              most={spend().limits.tokens_per_day ?? 0}
              words={count}
            />
          </Show>
          <Show
            when={(spend().limits.cost_per_day ?? spend().limits.tokens_per_day) === undefined}
          >
            <p class="muted small-pad">
              No limit is set. <code>limits.cost_per_day</code> in <code>skep.yaml</code> stops
              model calls for the rest of the day once they have cost that much.
            </p>
          </Show>
        </section>
      )}
    </Show>
  );
}

export function Limit(props: {
  name: string;
  used: number;
  most: number;
  words: (value: number) => string;
}) {
  let bar!: HTMLElement;
  const percent = () => (props.most > 0 ? Math.min(100, (props.used / props.most) * 100) : 100);
  createEffect(() => bar.style.setProperty("width", `${percent()}%`));
  const words = () => `${props.words(props.used)} of ${props.words(props.most)}`;
  return (
    <div class="limit">
      <span>{props.name}</span>
      <div class="meter" role="img" aria-label={`${props.name}: ${words()}`}>
        <i ref={bar} classList={{ full: percent() >= 100 }} />
      </div>
      <span class="num muted">{words()}</span>
    </div>
  );
}
