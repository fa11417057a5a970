// Finding what was said, in every conversation one may see. The field keeps the focus: arrows move
// through the results, Enter opens the conversation at the message.

import { createMemo, createSignal, For, onCleanup } from "solid-js";
import { query } from "../api/http";
import type { SearchHit, SearchPage } from "../api/types";
import { href, talkOf } from "../state/route";
import { clock, plural } from "../text/format";
import { usePage } from "./context";
import { Dialog } from "./Dialog";
import { createReading } from "./hooks";
import { Icon } from "./marks";

const PAUSE = 150;

export function Search(props: { close: () => void }) {
  const { router } = usePage();
  let list!: HTMLDivElement;
  let typed = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const [words, setWords] = createSignal("");
  const [picked, setPicked] = createSignal(0);
  const results = createReading<SearchPage>(() =>
    words() ? `/search${query({ q: words(), limit: 30 })}` : undefined,
  );
  /** By conversation; the one with the newest hit first. */
  const groups = createMemo(() => {
    const hits = words() ? (results.latest?.hits ?? []) : [];
    return [...Map.groupBy(hits, (hit) => hit.session).values()];
  });
  const hits = createMemo(() => {
    setPicked(0);
    return groups().flat();
  });

  function look(): void {
    clearTimeout(timer);
    setWords(typed.trim());
  }

  function pick(at: number): void {
    setPicked((at + hits().length) % (hits().length || 1));
    list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  function open(hit: SearchHit | undefined): void {
    if (!hit) return;
    props.close();
    router.go(talkOf(hit, hit.seq));
  }

  function key(event: KeyboardEvent): void {
    if (event.isComposing || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
    event.preventDefault();
    if (event.key !== "Enter") pick(picked() + (event.key === "ArrowDown" ? 1 : -1));
    // What is picked has to be what was typed.
    else if (typed.trim() !== words()) look();
    else if (!results.loading) open(hits()[picked()]);
  }

  return (
    <Dialog class="search" label="Search conversations" close={props.close}>
      <div class="search-line row">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search conversations"
          aria-expanded={hits().length > 0}
          aria-controls="hits"
          aria-activedescendant={hits().length ? `hit-${picked()}` : undefined}
          placeholder="Search conversations"
          autofocus
          spellcheck={false}
          onKeyDown={key}
          onInput={(event) => {
            typed = event.currentTarget.value;
            clearTimeout(timer);
            timer = setTimeout(look, PAUSE);
          }}
        />
        <button class="btn bare" onClick={() => props.close()}>
          Close<kbd>Esc</kbd>
        </button>
      </div>
      <div class="hits" id="hits" role="listbox" aria-label="Results" ref={list}>
        <For each={groups()}>
          {(group) => (
            <div role="group" aria-label={group[0]!.session_key}>
              <div class="h">
                <b class="clip">{group[0]!.session_key}</b> <span>{group[0]!.agent}</span>
              </div>
              <For each={group}>
                {(hit) => (
                  <a
                    role="option"
                    id={`hit-${hits().indexOf(hit)}`}
                    aria-selected={hits()[picked()] === hit}
                    tabindex="-1"
                    href={href(talkOf(hit, hit.seq))}
                    onClick={() => open(hit)}
                  >
                    <Snippet hit={hit} />
                    <kbd>Enter</kbd>
                    <span class="small faint">
                      {hit.role === "user" ? "You" : hit.agent} · {clock(hit.timestamp)}
                    </span>
                  </a>
                )}
              </For>
            </div>
          )}
        </For>
      </div>
      <footer>
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> select
        </span>
        <span>
          <kbd>Enter</kbd> open at this message
        </span>
        <span role="status">{results.error ?? state()}</span>
      </footer>
    </Dialog>
  );

  function state(): string {
    if (words() === "") return "All messages you have access to";
    if (results.loading) return "Searching…";
    const number = hits().length;
    if (number === 0) return "No results. Try fewer or other words.";
    const more = results.latest?.before == null ? "" : "first ";
    return `${more}${plural(number, "result")} in ${plural(groups().length, "conversation")}`;
  }
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
