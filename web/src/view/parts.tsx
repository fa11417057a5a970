// Parts that several views are made of.

import { For, type JSX, Show } from "solid-js";
import { Dynamic } from "solid-js/web";
import { Mark } from "./marks";

/** A part of a page under its heading, with a few words beside that. */
export function Section(props: {
  id: string;
  title: JSX.Element;
  beside?: JSX.Element;
  class?: string;
  tight?: boolean;
  children: JSX.Element;
}) {
  return (
    <section class={props.class} aria-labelledby={props.id}>
      <div class="sec" classList={{ tight: props.tight === true }}>
        <h2 id={props.id}>{props.title}</h2>
        {props.beside}
      </div>
      {props.children}
    </section>
  );
}

/** In place of a list that has nothing in it. */
export function Empty(props: { title: string; first?: boolean; children: JSX.Element }) {
  return (
    <div class="empty" classList={{ first: props.first === true }}>
      <h3>{props.title}</h3>
      {props.children}
    </div>
  );
}

/** A choice of texts; `all` is for none of them. */
export function Choose(props: {
  of: string[];
  words?: (one: string) => string;
  all?: string;
  label?: string;
  chosen: string | undefined;
  choose: (one: string) => void;
}) {
  return (
    <select
      class="field"
      aria-label={props.label}
      onChange={(event) => props.choose(event.currentTarget.value)}
    >
      <Show when={props.all}>{(words) => <option value="">{words()}</option>}</Show>
      <For each={props.of}>
        {(one) => (
          <option value={one} selected={one === props.chosen}>
            {props.words?.(one) ?? one}
          </option>
        )}
      </For>
    </select>
  );
}

/** A failure that concerns the whole view; the mark is for where people act. */
export function Notice(props: {
  text: string | undefined;
  marked?: boolean;
  dismiss?: () => void;
}) {
  return (
    <Show when={props.text}>
      {(text) => (
        <div class="notice bad" role="alert">
          <Show when={props.marked}>
            <Mark name="fail" quiet />
          </Show>
          <span class="grow">{text()}</span>
          <Show when={props.dismiss}>
            {(dismiss) => (
              <button class="btn bare" onClick={() => dismiss()()}>
                Dismiss
              </button>
            )}
          </Show>
        </div>
      )}
    </Show>
  );
}

/** What went wrong with something a person did, right where they did it. */
export function Problem(props: { text: string | undefined; inline?: boolean }) {
  return (
    <Show when={props.text}>
      {(text) => (
        <Dynamic component={props.inline ? "span" : "p"} class="small bad-text" role="alert">
          {text()}
        </Dynamic>
      )}
    </Show>
  );
}
