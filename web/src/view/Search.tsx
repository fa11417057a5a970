// Finding what was said, in every talk one may see.

import { createSignal, For, onMount } from "solid-js";
import { query } from "../api/http";
import type { SearchHit, SearchPage } from "../api/types";
import { href, talkOf } from "../state/route";
import { clock } from "../text/format";
import { createReading } from "./hooks";
import { Icon } from "./marks";

const PAUSE = 150;

export function Search(props: { close: () => void }) {
  let dialog!: HTMLDialogElement;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const [words, setWords] = createSignal("");
  const results = createReading<SearchPage>(() => {
    const q = words().trim();
    return q ? `/search${query({ q, limit: 30 })}` : undefined;
  });
  const found = () => (words().trim() === "" ? [] : (results.latest?.hits ?? []));
  onMount(() => dialog.showModal());
  return (
    <dialog
      class="search"
      ref={dialog}
      aria-label="Search conversations"
      onClose={() => props.close()}
    >
      <form method="dialog" class="search-line row" onSubmit={(event) => event.preventDefault()}>
        <Icon name="search" />
        <input
          type="search"
          aria-label="Search for"
          placeholder="Search conversations"
          autofocus
          onInput={(event) => {
            const typed = event.currentTarget.value;
            clearTimeout(timer);
            timer = setTimeout(() => setWords(typed), PAUSE);
          }}
        />
        <button class="btn bare" type="button" onClick={() => dialog.close()}>
          Close
        </button>
      </form>
      <div role="status" class="small faint search-state">
        {results.error ?? state(words(), results.loading, found().length)}
      </div>
      <ul class="hits">
        <For each={found()}>
          {(hit) => (
            <li>
              <a href={href(talkOf(hit, hit.seq))} onClick={() => dialog.close()}>
                <Snippet hit={hit} />
                <span class="small faint">
                  {hit.agent} · {hit.role} · {clock(hit.timestamp)}
                </span>
              </a>
            </li>
          )}
        </For>
      </ul>
    </dialog>
  );
}

function state(words: string, loading: boolean, number: number): string {
  if (words.trim() === "") return "Searches all messages you have access to.";
  if (loading) return "Searching…";
  return number === 0 ? "No results. Try fewer or other words." : "";
}

function Snippet(props: { hit: SearchHit }) {
  const pieces = () => {
    // Places are counted in characters, not in the halves of them that a string has.
    const letters = Array.from(props.hit.excerpt);
    const text = (from: number, to: number) => letters.slice(from, to).join("");
    const cut: { text: string; marked: boolean }[] = [];
    let at = 0;
    for (const [start = 0, length = 0] of props.hit.marks) {
      cut.push({ text: text(at, start), marked: false });
      cut.push({ text: text(start, start + length), marked: true });
      at = start + length;
    }
    cut.push({ text: text(at, letters.length) + (props.hit.cut ? "…" : ""), marked: false });
    return cut;
  };
  return (
    <span class="snippet">
      <For each={pieces()}>
        {(piece) => (piece.marked ? <mark>{piece.text}</mark> : piece.text)}
      </For>
    </span>
  );
}
