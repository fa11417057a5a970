// What went wrong with something a person did, right where they did it.

import { Show } from "solid-js";

export function Problem(props: { text: string | undefined; inline?: boolean }) {
  return (
    <Show when={props.text}>
      {(text) => (
        <Show
          when={props.inline}
          fallback={
            <p class="small bad-text" role="alert">
              {text()}
            </p>
          }
        >
          <span class="small bad-text" role="alert">
            {text()}
          </span>
        </Show>
      )}
    </Show>
  );
}
