// What can be done with a conversation as a whole: rename, pin, archive, export, delete.

import { type ComponentProps, createSignal, Index, Show, untrack } from "solid-js";
import { download, patch, query, remove, url } from "../api/http";
import type { SessionEdit, SessionInfo, View } from "../api/types";
import { madeUp, talkOf } from "../state/route";
import { nameOf, plural } from "../text/format";
import { usePage } from "./context";
import { Confirm } from "./Dialog";
import type { createAction } from "./hooks";
import { Menu, MenuItem } from "./Menu";

/** Characters of a name. */
const LONGEST = 120;
const pathOf = ({ agent, id }: SessionInfo) => url`/agents/${agent}/sessions/${id}`;
const edit = (info: SessionInfo, part: SessionEdit) => patch<SessionInfo>(pathOf(info), part);
/** `apart`: below a line. */
type Item = ComponentProps<typeof MenuItem> & { apart?: boolean };
type Run = ReturnType<typeof createAction>["run"];

/** Opens a conversation that nothing was said in yet. */
export function useNewTalk(): (agent: string) => void {
  const { router } = usePage();
  return (agent) => {
    router.go(talkOf({ agent, session_key: madeUp("chat") }));
    document.querySelector<HTMLElement>(".box textarea")?.focus();
  };
}

/** The name of the conversation, or the field to change it; `words` where it has none yet. */
export function ConversationTitle(props: {
  info: SessionInfo | undefined;
  words: string;
  renaming: boolean;
  run: Run;
  close: () => void;
}) {
  const name = () => (props.info ? nameOf(props.info) : props.words);
  const start = (field: HTMLInputElement) => queueMicrotask(() => (field.focus(), field.select()));
  function key(event: KeyboardEvent & { currentTarget: HTMLInputElement }): void {
    if (event.key === "Escape") event.currentTarget.value = name();
    if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
  }
  return (
    <Show when={props.renaming && props.info} fallback={<h1 class="clip">{name()}</h1>}>
      {(info) => (
        <input
          class="field rename"
          aria-label="Name of the conversation"
          maxLength={LONGEST}
          value={untrack(name)}
          ref={start}
          onKeyDown={key}
          onChange={(event) => {
            const title = event.currentTarget.value.trim();
            void props.run(() => edit(info(), { title }), "Not renamed: ");
          }}
          onBlur={() => props.close()}
        />
      )}
    </Show>
  );
}

export function ConversationMenu(props: {
  agent: string;
  info: SessionInfo | undefined;
  view: View;
  choose: (view: View) => void;
  rename: () => void;
  run: Run;
}) {
  const { may, router } = usePage();
  const begin = useNewTalk();
  const [deleting, setDeleting] = createSignal<SessionInfo>();
  const items = (): Item[] => {
    const { agent, info, rename, run } = props;
    const [words, view]: [string, View] =
      props.view === "full" ? ["Simple view", "simple"] : ["Full view", "full"];
    // Where there is no room for a switch.
    const other: Item = { icon: "file", words, class: "only-s", act: () => props.choose(view) };
    const fresh: Item = { icon: "plus", words: "New conversation", act: () => begin(agent) };
    const look = () => router.go({ page: "files", agent, session: info?.id });
    const files: Item = { icon: "folder", words: "Workspace files", act: look };
    const looks = may("read_files") ? [files, other] : [other];
    if (!info) return may("talk") ? [fresh, ...looks] : looks;
    const { archived, pinned } = info;
    const set = (part: SessionEdit) => void run(() => edit(info, part));
    const save = (format: string, ending: string) => () => {
      const path = `${pathOf(info)}/export${query({ format })}`;
      void run(() => download(path, `${nameOf(info)}.${ending}`), "Not exported: ");
    };
    const exports: Item[] = [
      ...looks,
      { icon: "down", words: "Export as Markdown", act: save("markdown", "md") },
      { icon: "down", words: "Export as JSON lines", act: save("skep", "jsonl") },
    ];
    if (!may("talk")) return exports;
    const away = archived ? "Move out of the archive" : "Archive";
    return [
      fresh,
      { icon: "pen", words: "Rename", hint: "F2", apart: true, act: rename },
      { icon: "pin", words: pinned ? "Unpin" : "Pin", act: () => set({ pinned: !pinned }) },
      ...exports,
      { icon: "box", words: away, apart: true, act: () => set({ archived: !archived }) },
      { icon: "trash", words: "Delete…", class: "stop", act: () => setDeleting(info) },
    ];
  };
  return (
    <>
      <Menu label="Conversation menu" icon="more">
        <Index each={items()}>
          {(item) => (
            <>
              {item().apart && <hr />}
              <MenuItem {...item()} />
            </>
          )}
        </Index>
      </Menu>
      <Show when={deleting()}>
        {(info) => <Delete info={info()} close={() => setDeleting(undefined)} />}
      </Show>
    </>
  );
}

function Delete(props: { info: SessionInfo; close: () => void }) {
  const { archived, attachments, messages } = props.info;
  const files = attachments?.count ? `, ${plural(attachments.count, "attachment")}` : "";
  const acts: ComponentProps<typeof Confirm>["acts"] = [
    ["Delete", () => remove(pathOf(props.info))],
    ["Archive instead", () => edit(props.info, { archived: true })],
  ];
  return (
    <Confirm
      label="Delete conversation"
      title={`Delete “${nameOf(props.info)}”?`}
      acts={acts.slice(0, archived ? 1 : 2)}
      close={props.close}
    >
      Deletes {plural(messages, "message")}
      {files} and their search entries. Workspace files, the audit log and costs are kept. This
      cannot be undone.
    </Confirm>
  );
}
