// Finding what was said, in every talk one may see.

import { createResource, createSignal, For, onMount, Show } from "solid-js";
import { get, query } from "../api/http";
import type { SearchHit, SearchPage } from "../api/types";
import { href } from "../state/route";
import { clock } from "../text/format";
import { Icon } from "./marks";

const PAUSE = 150;

export function Search(props: { close: () => void }) {
  let dialog!: HTMLDialogElement;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const [words, setWords] = createSignal("");
  const [results] = createResource(
    () => words().trim() || undefined,
    (q) => get<SearchPage>(`/search${query({ q, limit: 30 })}`),
  );
  onMount(() => dialog.showModal());
  return (
    <dialog class="search" ref={dialog} aria-label="Find in all talk" onClose={() => props.close()}>
      <form method="dialog" class="search-line" onSubmit={(event) => event.preventDefault()}>
        <Icon name="search" />
        <input
          type="search"
          aria-label="Words to find"
          placeholder="Words to find"
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
        <Show when={results.error} fallback={state(words(), results.loading, found().length)}>
          {results.error instanceof Error ? results.error.message : ""}
        </Show>
      </div>
      <ul class="hits">
        <For each={found()}>
          {(hit) => (
            <li>
              <a
                href={href({
                  page: "chat",
                  agent: hit.agent,
                  key: hit.session_key,
                  session: hit.session,
                  at: hit.seq,
                })}
                onClick={() => dialog.close()}
              >
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

  function found(): SearchHit[] {
    return results.error || words().trim() === "" ? [] : (results.latest?.hits ?? []);
  }
}

function state(words: string, loading: boolean, number: number): string {
  if (words.trim() === "") return "Looks through every message of every session you may see.";
  if (loading) return "Looking…";
  return number === 0 ? "Nothing found. Fewer or other words may help." : "";
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
