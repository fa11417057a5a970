// Finding what was said, in every talk one may see.

import { createResource, createSignal, For, onMount, Show } from "solid-js";
import { get, query } from "../api/http";
import type { Found } from "../api/types";
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
    (q) => get<{ results: Found[] }>(`/search${query({ q, limit: 30 })}`),
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
                  {hit.agent} · {hit.role} · {clock(hit.at)}
                </span>
              </a>
            </li>
          )}
        </For>
      </ul>
    </dialog>
  );

  function found(): Found[] {
    return results.error || words().trim() === "" ? [] : (results.latest?.results ?? []);
  }
}

function state(words: string, loading: boolean, number: number): string {
  if (words.trim() === "") return "Looks through every message of every session you may see.";
  if (loading) return "Looking…";
  return number === 0 ? "Nothing found. Fewer or other words may help." : "";
}

function Snippet(props: { hit: Found }) {
  const pieces = () => {
    const { snippet, marks } = props.hit;
    const cut: { text: string; marked: boolean }[] = [];
    let at = 0;
    for (const [start, end] of marks) {
      cut.push({ text: snippet.slice(at, start), marked: false });
      cut.push({ text: snippet.slice(start, end), marked: true });
      at = end;
    }
    cut.push({ text: snippet.slice(at), marked: false });
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
