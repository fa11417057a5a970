// What is written and not sent yet: one draft per conversation. Text and fork survive a reload of
// the tab, for whoever wrote them; files are too large for that and survive other pages only.

import { createStore, produce } from "solid-js/store";
import type { Attachment, Mode } from "./outbox";
import { store, stored } from "./stored";
import type { Place } from "./talk";

export interface Draft {
  text: string;
  files: Attachment[];
  mode: Mode;
  /** The message whose edited text this is: sent in a new conversation that begins before it. */
  fork?: Fork | undefined;
  /** Why it was not sent. */
  problem?: string | undefined;
}

export interface Fork {
  session: string;
  seq: number;
  /** What was written before; it is there again afterwards. */
  before?: string;
}

const EMPTY: Draft = { text: "", files: [], mode: "queue" };

/** A conversation is its session; one that has none yet is the key of its agent. */
export function draftId(place: Place, session = place.session): string {
  return `${place.agent}\n${session ? `session ${session}` : `key ${place.key}`}`;
}

export function createDrafts(owner: string) {
  const place = `skep.drafts ${owner}`;
  const kept = Object.entries(stored<Record<string, Draft>>(sessionStorage, place, {}));
  const begun = kept.map(([id, draft]) => [id, { ...EMPTY, ...draft }]);
  const [drafts, set] = createStore<Record<string, Draft>>(Object.fromEntries(begun));

  function change(id: string, part: Partial<Draft>): void {
    const next = { ...of(id), problem: undefined, ...part };
    set(produce((all) => void (isEmpty(next) ? delete all[id] : (all[id] = next))));
    keep();
  }

  function keep(): void {
    const kept = Object.entries(drafts).map(([id, { text, fork }]) => [id, { text, fork }]);
    store(sessionStorage, place, Object.fromEntries(kept));
  }

  const of = (id: string): Draft => drafts[id] ?? EMPTY;
  return {
    of,
    change,
    has: (id: string) => drafts[id] !== undefined,
    /** The key of a conversation has led to its session, or to another one. */
    move(from: string, to: string): void {
      if (from === to || !drafts[from]) return;
      const [written, there] = [of(from), of(to)];
      const text = [there.text, written.text].filter((one) => one !== "").join("\n");
      change(to, { ...written, text, files: [...there.files, ...written.files] });
      change(from, EMPTY);
    },
  };
}

export type Drafts = ReturnType<typeof createDrafts>;

function isEmpty(draft: Draft): boolean {
  return draft.text === "" && draft.files.length === 0 && !draft.fork && draft.mode === "queue";
}
