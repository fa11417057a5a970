// Parts that several views are made of.

import { For, type JSX, Show } from "solid-js";
import { Dynamic } from "solid-js/web";
import { type Danger, danger, type Walls } from "../text/asks";
import { visible } from "../text/visible";
import { usePage } from "./context";
import { Icon, type IconName, Mark } from "./marks";

/** A page under its title, with what belongs to all of it beside that. */
export function PageBody(props: {
  title: string;
  text: string;
  beside: JSX.Element;
  children: JSX.Element;
}) {
  return (
    <div class="page">
      <header class="head">
        <div class="grow">
          <h1>{props.title}</h1>
          <p>{props.text}</p>
        </div>
        {props.beside}
      </header>
      {props.children}
    </div>
  );
}

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

const FIND_KEY = /Mac|iP/.test(navigator.platform) ? "⌘ K" : "Ctrl K";

/** What opens the search over all talk. */
export function Find(props: { words: string }) {
  const { find } = usePage();
  return (
    <button class="find row" onClick={find}>
      <Icon name="search" />
      <span class="grow clip">{props.words}</span>
      <kbd>{FIND_KEY}</kbd>
    </button>
  );
}

/** Ways to look at the same thing, each with an address. */
export function Tabs<T extends string>(props: {
  label: string;
  of: [T, string, ...unknown[]][];
  chosen: T;
  href: (one: T) => string;
}) {
  return (
    <nav class="seg" aria-label={props.label}>
      <For each={props.of}>
        {([one, words]) => (
          <a href={props.href(one)} aria-current={one === props.chosen ? "true" : undefined}>
            {words}
          </a>
        )}
      </For>
    </nav>
  );
}

/** One of a few, each with words and, where they are not enough, more of them under the pointer. */
export function Radios<T extends string>(props: {
  label: string;
  name: string;
  class?: string;
  of: [T, string, string?][];
  chosen: T;
  choose: (one: T) => void;
}) {
  return (
    <div class={`seg ${props.class ?? ""}`} role="group" aria-label={props.label}>
      <For each={props.of}>
        {([one, words, title]) => (
          <label title={title}>
            <input
              type="radio"
              name={props.name}
              checked={one === props.chosen}
              onChange={() => props.choose(one)}
            />
            {words}
          </label>
        )}
      </For>
    </div>
  );
}

/** A choice of texts under its name. */
export function Choose(props: Choice & { label: string }) {
  return (
    <label>
      {props.label} <Select {...props} />
    </label>
  );
}

interface Choice {
  /** For a label that stands elsewhere. */
  id?: string;
  /** In place of a label that is seen. */
  spoken?: string;
  of: string[];
  words?: (one: string) => string;
  /** The words for none of them. */
  all?: string;
  chosen: string | undefined;
  choose: (one: string) => void;
}

export function Select(props: Choice) {
  return (
    <select
      class="field"
      id={props.id}
      aria-label={props.spoken}
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

/** Something that needs a person, with what can be done about it. */
export function NeedItem(props: {
  asks?: boolean;
  icon?: IconName;
  what: JSX.Element;
  /** Never cut, however little room there is. */
  tag?: JSX.Element;
  when: JSX.Element;
  children: JSX.Element;
}) {
  return (
    <li class={props.asks ? "ask" : "fail"}>
      <Icon name={props.icon ?? (props.asks ? "approve" : "warn")} />
      <div>
        <div class="what">
          <span class="grow">{props.what}</span>
          {props.tag}
          <span class="when">{props.when}</span>
        </div>
        {props.children}
      </div>
    </li>
  );
}

const DANGERS: Record<Danger, string> = {
  "no walls": "Programs run on the host, with the rights of the hive itself",
  "full network": "Programs reach whatever this machine reaches",
};

/** In red, where programs run without walls or with the whole network; else nothing. */
export function DangerTag(props: { of: Walls }) {
  return (
    <Show when={danger(props.of)}>
      {(words) => (
        <span class="tag bad-text" title={DANGERS[words()]}>
          {words()}
        </span>
      )}
    </Show>
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
          <span class="grow">{visible(text())}</span>
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

/** Beside buttons that do nothing while the hive is away: why. */
export function Unavailable() {
  const { live } = usePage();
  return (
    <Show when={live.away()}>
      <span class="small muted">Not available while disconnected</span>
    </Show>
  );
}

/** What went wrong with something a person did, right where they did it. */
export function Problem(props: { text: string | undefined; inline?: boolean }) {
  return (
    <Show when={props.text}>
      {(text) => (
        <Dynamic component={props.inline ? "span" : "p"} class="small bad-text" role="alert">
          {visible(text())}
        </Dynamic>
      )}
    </Show>
  );
}
