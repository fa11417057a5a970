// A block of code: its language, its colours, and a button that copies it.

import { For } from "solid-js";
import { coloured } from "../text/colours";
import { Copy } from "./Copy";

export function Code(props: { text: string; language: string }) {
  return (
    <figure class="code">
      <header>
        <span>{props.language}</span>
        <Copy label="Copy code" words="Copy" text={() => props.text} />
      </header>
      <pre tabindex="0">
        <code>
          <Coloured {...props} />
        </code>
      </pre>
    </figure>
  );
}

export function Coloured(props: { text: string; language: string }) {
  return (
    <For each={coloured(props.text, props.language)}>
      {({ text, kind }) => (kind ? <span class={`in-${kind}`}>{text}</span> : text)}
    </For>
  );
}
