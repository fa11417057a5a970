// What agents ask the operator and wait for, and what they tell the operator.

import { batch } from "solid-js";
import { createStore, produce, reconcile } from "solid-js/store";
import { get, post, url } from "../api/http";
import type { Event, GivenAnswer, QuestionInfo, Questions as QuestionList } from "../api/types";
import type { Drafts } from "./drafts";
import { inOrder, type Live, settled } from "./live";

export interface Question extends QuestionInfo {
  /** Nobody waits for an answer any more. */
  ended?: QuestionEnd;
}

export interface QuestionEnd {
  /** Not known where its end was missed. */
  state?: Ended["state"] | undefined;
  /** Answered here. */
  here: boolean;
}

type Ended = Extract<Event, { type: "question_ended" }>;

/** What becomes of it by what was done here. */
type Sent = "answered" | "withdrawn";

interface State {
  /** Those without an answer, oldest first. */
  open: QuestionInfo[];
  /** There are newer ones. */
  more: boolean;
  /** Those that ended while somebody looked, until they have seen it. */
  ended: Record<string, Question>;
}

/** Several changes at once are one look. */
const SETTLE = 100;
/** So long stands what became of an answer. */
const SEEN = 6000;

export const draftOf = (question: string) => `question\n${question}`;

/** `reads`: whoever looks may know of them. */
export function createQuestions(live: Live, drafts: Drafts, reads: boolean) {
  const [state, set] = createStore<State>({ open: [], more: false, ended: {} });
  const soon = settled(SETTLE, refresh);
  const asking = inOrder();
  /** Answers on their way, and messages that are being put away. */
  const sent = new Map<string, Sent>();

  async function refresh(): Promise<void> {
    if (!reads) return;
    const isNewer = asking();
    try {
      const { questions, more } = await get<QuestionList>("/questions");
      if (!isNewer()) return;
      const open = new Set(questions.map(({ id }) => id));
      batch(() => {
        for (const one of state.open) if (!open.has(one.id)) end(one);
        set("open", reconcile(questions, { key: "id" }));
        set("more", more);
      });
    } catch {
      // The stream breaks as well and says so; the next snapshot mends this.
    }
  }

  /** What is being written is not taken away, and what was sent is seen to have arrived. */
  function end(question: QuestionInfo, how?: Ended["state"]): void {
    const { id } = question;
    const done = sent.get(id);
    set("open", (open) => open.filter((one) => one.id !== id));
    if (done === "withdrawn") return;
    const here = done === "answered";
    if (!here && drafts.of(draftOf(id)).text.trim() === "") return;
    if (here) setTimeout(() => forget(id), SEEN);
    set("ended", id, { ...question, ended: { state: here ? "answered" : how, here } });
  }

  function told({ question: id, state: how }: Ended): void {
    const question = state.open.find((one) => one.id === id);
    if (question) batch(() => end(question, how));
    else if (state.ended[id]) set("ended", id, "ended", { state: how });
  }

  function forget(id: string): void {
    drafts.change(draftOf(id), { text: "" });
    set("ended", produce((ended) => void delete ended[id]));
  }

  async function send(id: string, as: Sent, work: () => Promise<unknown>): Promise<void> {
    sent.set(id, as);
    try {
      await work();
      drafts.change(draftOf(id), { text: "" });
    } catch (error) {
      sent.delete(id);
      throw error;
    } finally {
      soon();
    }
  }

  live.on({
    snapshot: soon,
    event(event) {
      if (event.type === "question_ended") told(event);
      if (event.type === "question_asked" || event.type === "question_ended") soon();
    },
  });

  return {
    state,
    /** With those whose end is still shown, in their place. */
    all: (): Question[] =>
      [...state.open, ...Object.values(state.ended)].sort((a, b) => a.created_at - b.created_at),
    answer: (id: string, given: GivenAnswer) =>
      send(id, "answered", () => post(url`/questions/${id}/answer`, given)),
    /** A message needs no reply. */
    putAway: (id: string) => send(id, "withdrawn", () => post(url`/questions/${id}/close`, {})),
    forget,
  };
}

export type Questions = ReturnType<typeof createQuestions>;
