// What the model says right now, put together from deltas. Deltas are provisional: a new token or
// call voids what came before it, and the stored message replaces it in the end.

import type { ActiveTurn, Block, Event, Message } from "../api/types";

export interface Saying {
  turn: string;
  token: number;
  call: number;
  /** How many deltas are in `blocks`. */
  deltas: number;
  blocks: Block[];
  /** Its message is stored, at most at this place in the history: it leaves when that is shown. */
  stored?: number;
}

export type Delta = Extract<Event, { type: "delta" }>;

/** `gap`: deltas are missing, the active turn has to be read again. */
export type Folded = { saying: Saying[]; gap: boolean };

export function fromActive(active: ActiveTurn): Saying {
  const { turn, token, call, deltas, content } = active;
  return { turn, token, call, deltas, blocks: content };
}

/** A page may be older than what was heard while it was on its way, or newer. */
export function withPage(
  heard: Saying[],
  active: ActiveTurn | null | undefined,
  messages: Message[],
): Saying[] {
  const answered = new Set(messages.map(({ role, turn }) => role === "assistant" && turn));
  const ahead = heard.filter((one) => {
    if (one.turn !== active?.turn) return !answered.has(one.turn);
    return isOlder(active, one) || (!isOlder(one, active) && one.deltas >= active.deltas);
  });
  return active && ahead.length === 0 ? [fromActive(active)] : ahead;
}

export function fold(saying: Saying[], delta: Delta): Folded {
  const turn = delta.turn ?? "";
  const open = saying.at(-1);
  const same = open?.turn === turn && open.token === delta.token && open.call === delta.call;
  if (open && same) {
    if (delta.index < open.deltas) return { saying, gap: false };
    if (delta.index > open.deltas) return { saying, gap: true };
    const next = { ...open, deltas: open.deltas + 1, blocks: append(open.blocks, delta) };
    return { saying: [...saying.slice(0, -1), next], gap: false };
  }
  if (open?.turn === turn && isOlder(delta, open)) return { saying, gap: false };
  if (delta.index > 0) return { saying, gap: true };
  // What is stored stays until its message is shown; the rest is void.
  const kept = saying.filter((one) => one.stored !== undefined);
  const blocks = append([], delta);
  const { token, call } = delta;
  return { saying: [...kept, { turn, token, call, deltas: 1, blocks }], gap: false };
}

type Call = Pick<Saying, "token" | "call">;

function isOlder(one: Call, open: Call): boolean {
  return one.token < open.token || (one.token === open.token && one.call < open.call);
}

function append(blocks: Block[], delta: Delta): Block[] {
  const last = blocks.at(-1);
  if (delta.part === "text") {
    if (last?.type === "text") {
      return [...blocks.slice(0, -1), { type: "text", text: last.text + delta.text }];
    }
    return [...blocks, { type: "text", text: delta.text }];
  }
  if (last?.type === "thinking" && last.signature == null) {
    return [...blocks.slice(0, -1), { type: "thinking", thinking: last.thinking + delta.text }];
  }
  return [...blocks, { type: "thinking", thinking: delta.text }];
}
