// Messages on their way, of every conversation: each goes out once, also when the person is on
// another page by then. What the hive refuses goes back to its draft.

import { createStore } from "solid-js/store";
import { post, Refusal, said, url } from "../api/http";
import type { Event, InboxItem, Receipt } from "../api/types";
import type { Drafts } from "./drafts";
import type { Live } from "./live";
import { random } from "./route";
import { store, stored } from "./stored";

export type Mode = "queue" | "interrupt";

export interface Attachment {
  name: string;
  mime: string;
  size: number;
  /** base64 */
  data: string;
}

/** `sending` until the hive has it; `answered` is a command's answer, shown until the next one. */
type State = "sending" | "started" | "queued" | "answered";

export interface Sending {
  /** The same key is the same message, however often it is sent. */
  key: string;
  agent: string;
  sessionKey: string;
  /** Where it was written; a message that is refused goes back there. */
  draft: string;
  text: string;
  files: Attachment[];
  mode: Mode;
  state: State;
  item?: string;
  note?: string;
  /** Why it has to be sent again. */
  late?: string;
}

type Written = Pick<Sending, "agent" | "sessionKey" | "draft" | "text" | "files" | "mode">;

/** A hive that is busy is asked again after this. */
const AGAIN = 2000;

/** Another person who signs in in this tab neither sees nor sends what `owner` wrote. */
export function createOutbox(live: Live, drafts: Drafts, owner: string) {
  const place = `skep.unsent ${owner}`;
  const [state, set] = createStore<{ all: Sending[] }>({ all: [] });
  const underWay = new Set<string>();
  /** Items that arrived while a message was on its way: their receipt may come later. */
  const early = new Set<string>();
  const isSending = () => state.all.some((one) => one.state === "sending");

  function send(written: Written): void {
    const { agent, sessionKey } = written;
    drop((one) => one.state === "answered" && isOf(one, agent, sessionKey));
    const key = random();
    set("all", (all) => [...all, { ...written, key, state: "sending" }]);
    keep();
    void deliver(key);
  }

  async function deliver(key: string): Promise<void> {
    const one = state.all.find((one) => one.key === key);
    if (one?.state !== "sending" || underWay.has(key)) return;
    underWay.add(key);
    const which = (other: Sending) => other.key === key;
    try {
      const receipt = await post<Receipt>(url`/agents/${one.agent}/messages`, bodyOf(one), key);
      const item = receipt.item_id;
      if (receipt.state === "done") {
        set("all", which, { state: "answered", note: receipt.note ?? "Done." });
      } else if (early.has(item)) drop(which);
      else set("all", which, { state: receipt.state === "started" ? "started" : "queued", item });
    } catch (error) {
      const passing = error instanceof Refusal && error.passing;
      if (!passing) return giveBack(one, said(error));
      set("all", which, { late: said(error) });
      // A hive that is away is asked again with the next snapshot. That may have come meanwhile.
      const away = error.status === 0 && live.away() !== undefined;
      if (!away) setTimeout(() => void deliver(key), AGAIN);
    } finally {
      underWay.delete(key);
      if (!isSending()) early.clear();
      keep();
    }
  }

  /** Nothing is lost: what is written there meanwhile stands below it. */
  function giveBack(one: Sending, why: string): void {
    const there = drafts.of(one.draft);
    const text = [one.text, there.text].filter((text) => text !== "").join("\n\n");
    const files = [...one.files, ...there.files];
    drafts.change(one.draft, { text, files, problem: `Not sent: ${why}` });
    drop((other) => other.key === one.key);
  }

  /** Takes a message back that no turn has taken yet; gives why that failed. */
  async function withdraw({ item, key }: Sending): Promise<string | undefined> {
    try {
      if (item) await post(url`/inbox/${item}/cancel`, {});
      drop((other) => other.key === key);
      return undefined;
    } catch (error) {
      return `Not removed from the queue: ${said(error)}`;
    }
  }

  /** Not after the turn but in its place. */
  async function hurry(one: Sending): Promise<string | undefined> {
    if (state.all.some(({ key }) => key === one.key)) {
      const why = await withdraw(one);
      if (why === undefined) send({ ...one, mode: "interrupt" });
      return why;
    }
    try {
      // The hive alone has its files: what is queued comes next.
      await post(url`/agents/${one.agent}/stop`, { session_key: one.sessionKey });
      return undefined;
    } catch (error) {
      return `Not sent now: ${said(error)}`;
    }
  }

  function drop(which: (one: Sending) => boolean): void {
    if (!state.all.some(which)) return;
    set("all", (all) => all.filter((one) => !which(one)));
    keep();
  }

  /** What the hive does not have yet survives a reload; its files are too large for that. */
  function keep(): void {
    const waiting = state.all.filter((one) => one.state === "sending");
    const kept = waiting.map((one) => ({ ...one, files: one.files.length }));
    store(sessionStorage, place, kept);
  }

  type Kept = Omit<Sending, "files"> & { files: number };
  for (const { files, ...one } of stored<Kept[]>(sessionStorage, place, [])) {
    if (files === 0) set("all", (all) => [...all, { ...one, files: [] }]);
    else giveBack({ ...one, files: [] }, "the page was reloaded. Attach the files again.");
  }

  live.on({
    snapshot: () => state.all.forEach((one) => void deliver(one.key)),
    event(event: Event) {
      if (event.type !== "inbox_ended" || event.state === "pending") return;
      drop((one) => one.item === event.item);
    },
  });

  return {
    send,
    withdraw,
    hurry,
    of: (agent: string, sessionKey: string) =>
      state.all.filter((one) => isOf(one, agent, sessionKey)),
    /** Their messages are in the history. */
    arrived(items: string[]): void {
      if (isSending()) for (const item of items) early.add(item);
      drop((one) => one.item !== undefined && items.includes(one.item));
    },
  };
}

export type Outbox = ReturnType<typeof createOutbox>;

/**
 * What waits for the turn under way, oldest first: of this page, and what the hive has of other
 * tabs, other people and before a reload. `isStored`: its message is in the history.
 */
export function queued(
  sending: Sending[],
  items: InboxItem[],
  isStored: (item: string) => boolean,
): Sending[] {
  const known = new Set(sending.map((one) => one.item));
  const isOther = ({ item_id, kind, state }: InboxItem) =>
    state === "pending" && kind === "message" && !known.has(item_id) && !isStored(item_id);
  const others = items.filter(isOther).reverse().map(fromItem);
  return [...others, ...sending.filter((one) => one.state === "queued")];
}

function fromItem({ agent, item_id, preview, session_key }: InboxItem): Sending {
  const written = { agent, sessionKey: session_key, draft: "", text: preview, files: [] };
  return { ...written, key: item_id, item: item_id, mode: "queue", state: "queued" };
}

function isOf(one: Sending, agent: string, sessionKey: string): boolean {
  return one.agent === agent && one.sessionKey === sessionKey;
}

function bodyOf({ text, sessionKey, mode, files }: Sending): object {
  const body = { message: text, session_key: sessionKey, mode };
  if (files.length === 0) return body;
  return { ...body, attachments: files.map(({ name, mime, data }) => ({ name, mime, data })) };
}
