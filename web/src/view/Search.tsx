// Finding what was said, in every conversation one may see. The field keeps the focus: arrows move
// through the results, Enter opens the conversation at the message.

import { createMemo, createSignal, For, onCleanup } from "solid-js";
import { query } from "../api/http";
import type { SearchHit, SearchPage } from "../api/types";
import { type ChatRoute, href, talkOf } from "../state/route";
import { clock, nameOf, plural } from "../text/format";
import { inert } from "../text/visible";
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
  const groups = createMemo(() => (words() && results.latest ? grouped(results.latest) : []));
  const found = createMemo(() => {
    setPicked(0);
    return groups().flatMap((group) => group.found);
  });

  function look(): void {
    clearTimeout(timer);
    setWords(typed.trim());
  }

  function pick(at: number): void {
    setPicked((at + found().length) % (found().length || 1));
    list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  function open(one: Found | undefined): void {
    if (!one) return;
    props.close();
    router.go(one.route);
  }

  function key(event: KeyboardEvent): void {
    if (event.isComposing || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
    event.preventDefault();
    if (event.key !== "Enter") pick(picked() + (event.key === "ArrowDown" ? 1 : -1));
    // What is picked has to be what was typed.
    else if (typed.trim() !== words()) look();
    else if (!results.loading) open(found()[picked()]);
  }

  return (
    <Dialog class="search" label="Search conversations" close={props.close}>
      <div class="search-line row">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search conversations"
          aria-expanded={found().length > 0}
          aria-controls="hits"
          aria-activedescendant={found().length ? `hit-${picked()}` : undefined}
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
            <div role="group" aria-label={group.name}>
              <div class="h row">
                <b class="clip">{group.name}</b>
                <span class="small faint">{group.of}</span>
              </div>
              <For each={group.found}>
                {(one) => (
                  <a
                    role="option"
                    id={`hit-${found().indexOf(one)}`}
                    aria-selected={found()[picked()] === one}
                    tabindex="-1"
                    href={href(one.route)}
                    onClick={() => open(one)}
                  >
                    {one.hit ? <Snippet hit={one.hit} /> : <b class="clip">{one.name}</b>}
                    <kbd>Enter</kbd>
                    <span class="small faint">{one.of}</span>
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
    if (found().length === 0) return "No results. Try fewer or other words.";
    const first = results.latest?.before == null ? "" : "first ";
    const talks = new Set(found().map(({ route }) => route.session)).size;
    return `${first}${plural(found().length, "result")} in ${plural(talks, "conversation")}`;
  }
}

/** A message, or a conversation by its name. */
interface Found {
  route: ChatRoute;
  hit?: SearchHit;
  name?: string;
  of: string;
}

interface Group {
  name: string;
  of: string;
  found: Found[];
}

/** Messages by conversation, the one with the newest first; then names of conversations. */
function grouped({ hits, conversations }: SearchPage): Group[] {
  const archived = (one: { archived: boolean }) => (one.archived ? " · archived" : "");
  const groups = new Map<string, Group>();
  for (const hit of hits) {
    const name = nameOf({ ...hit, created_at: hit.timestamp });
    const group = groups.get(hit.session) ?? { name, of: hit.agent + archived(hit), found: [] };
    const who = hit.role === "user" ? inert(hit.sender ?? "You") : hit.agent;
    const of = `${who} · ${clock(hit.timestamp)}`;
    group.found.push({ route: talkOf(hit, hit.seq), hit, of });
    groups.set(hit.session, group);
  }
  const found = conversations.map((info) => ({
    route: talkOf({ ...info, session: info.id }),
    name: nameOf(info),
    of: `${info.agent} · ${plural(info.messages, "message")}${archived(info)}`,
  }));
  const names = { name: "Conversation names", of: "", found };
  return [...groups.values(), ...(found.length ? [names] : [])];
}

function Snippet(props: { hit: SearchHit }) {
  const pieces = () => {
    // Places are counted in characters, not in the halves of them that a string has.
    const letters = Array.from(props.hit.excerpt);
    const text = (from: number, to: number) => inert(letters.slice(from, to).join(""));
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
