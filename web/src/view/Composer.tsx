// Where one writes: text of any length, files, commands; what to do while a turn runs.

import { createEffect, createMemo, createSignal, For, type JSX, on, Show } from "solid-js";
import { post, said, url } from "../api/http";
import type { CommandInfo, ProviderInfo, SessionInfo } from "../api/types";
import type { Draft } from "../state/drafts";
import type { Attachment, Mode, Sending } from "../state/outbox";
import { shortKey } from "../state/self";
import type { Talk } from "../state/talk";
import { looksLikeAnswer } from "../text/asks";
import { textOf } from "../text/calls";
import { bytes } from "../text/format";
import { matching } from "../text/slash";
import { inert, visible } from "../text/visible";
import { usePage } from "./context";
import { isPicture, Picture } from "./Files";
import { onLone } from "./hooks";
import { LinkNotice } from "./LinkNotice";
import { Icon, Mark } from "./marks";
import { ModelPicker } from "./ModelPicker";
import { Radios } from "./parts";

const LARGEST_FILE = 5 * 1024 * 1024;
const MOST_FILES = 10;
const MODES: [Mode, string, string][] = [
  ["queue", "Queue", "Sent after this turn, or within it"],
  ["interrupt", "Interrupt", "Stop this turn, then send"],
];

interface Props {
  talk: Talk;
  /** Messages that wait for the turn under way. */
  queued: Sending[];
  /** How many the hive does not have yet. */
  unsent: number;
  running: boolean;
  /** Whether an approval waits in this conversation. */
  asks: boolean;
  commands: CommandInfo[];
  /** The draft of this conversation. */
  at: string;
  /** Its key leads to another conversation now. */
  older: boolean;
  /** What is known of the conversation. */
  info: SessionInfo | undefined;
  /** For whoever may choose among them. */
  models: ProviderInfo[];
  send: (draft: Draft) => void;
}

export function Composer(props: Props) {
  let field!: HTMLTextAreaElement;
  let picker!: HTMLInputElement;
  /** How many messages back the text is. */
  let recalled = 0;
  const { drafts, live } = usePage();
  const draft = () => drafts.of(props.at);
  const text = () => draft().text;
  const [problem, setProblem] = createSignal<string>();
  /** A "yes" was typed that would decide nothing. */
  const [answered, setAnswered] = createSignal(false);
  const [stopping, setStopping] = createSignal(false);
  const [picked, setPicked] = createSignal(0);
  const [closed, setClosed] = createSignal(false);
  const menu = createMemo(() => (closed() ? [] : matching(text(), props.commands)));

  createEffect(
    on(text, (text) => {
      if (field.value !== text) field.value = text;
      field.style.height = "auto";
      field.style.height = `${Math.min(field.scrollHeight, 320)}px`;
    }),
  );
  createEffect(on(() => draft().fork, (fork) => fork && field.focus()));
  createEffect(
    on(
      () => props.talk,
      () => {
        setProblem(undefined);
        setAnswered(false);
        setClosed(false);
      },
    ),
  );
  createEffect(() => {
    if (!props.running) setStopping(false);
  });

  function write(next: string): void {
    setAnswered(false);
    setPicked(0);
    setClosed(false);
    drafts.change(props.at, { text: next });
  }

  function submit(anyway = false): void {
    const blank = text().trim() === "";
    if (blank && draft().files.length === 0) return;
    setProblem(undefined);
    const answers = props.asks && !anyway && looksLikeAnswer(text());
    setAnswered(answers);
    if (answers) return;
    props.send(blank ? { ...draft(), text: "See the file." } : draft());
  }

  // What is typed before the field has the focus is meant for it.
  onLone({
    word(begun) {
      field.focus();
      write(text() + begun);
    },
  });

  async function stop(): Promise<void> {
    setStopping(true);
    try {
      const { agent, key } = props.talk.place;
      await post(url`/agents/${agent}/stop`, { session_key: key });
    } catch (error) {
      setStopping(false);
      setProblem(`Stopping failed: ${said(error)}`);
    }
  }

  function dismiss(): void {
    setProblem(undefined);
    drafts.change(props.at, {});
  }

  function cancelFork(): void {
    drafts.change(props.at, { text: draft().fork?.before ?? "", fork: undefined });
  }

  function choose(command: CommandInfo): void {
    write(command.arguments ? `${command.name} ` : command.name);
    setClosed(true);
    field.focus();
  }

  /** In place of nothing, or of another one that was recalled: an earlier message. */
  function recall(step: number): boolean {
    const users = props.talk.state.messages.filter(({ role }) => role === "user");
    const texts = users.map(({ content }) => textOf(content)).filter((text) => text !== "");
    const back = text() === "" ? 0 : recalled;
    const isOwn = back > 0 ? texts.at(-back) !== text() : text() !== "";
    if (isOwn || field.selectionEnd < text().length || back + step < 0) return false;
    recalled = Math.min(back + step, texts.length);
    write(texts[texts.length - recalled] ?? "");
    setClosed(true);
    return true;
  }

  function key(event: KeyboardEvent): void {
    if (event.isComposing) return;
    const open = menu();
    if (open.length && ["ArrowDown", "ArrowUp", "Tab", "Enter", "Escape"].includes(event.key)) {
      const at = open[picked()];
      const exact = at?.name === text().trim();
      if (!(event.key === "Enter" && exact)) {
        event.preventDefault();
        if (event.key === "ArrowDown") setPicked((picked() + 1) % open.length);
        else if (event.key === "ArrowUp") setPicked((picked() + open.length - 1) % open.length);
        else if (event.key === "Escape") setClosed(true);
        else if (at) choose(at);
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      if (recall(event.key === "ArrowUp" ? 1 : -1)) event.preventDefault();
    } else if (event.key === "Escape" && props.running && text() === "") {
      void stop();
    }
  }

  async function add(given: File[]): Promise<void> {
    const { at } = props;
    const files = () => drafts.of(at).files;
    setProblem(undefined);
    for (const file of given) {
      if (files().length >= MOST_FILES) return void setProblem(`${MOST_FILES} files at most.`);
      if (file.size > LARGEST_FILE) {
        setProblem(`${file.name} has ${bytes(file.size)}; ${bytes(LARGEST_FILE)} at most.`);
        continue;
      }
      const data = await base64(file);
      const mime = file.type || "text/plain";
      const added = { name: file.name, mime, size: file.size, data };
      drafts.change(at, { files: [...files(), added] });
    }
  }

  return (
    <div
      class="compose"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      <Show when={menu().length}>
        <ul class="menu" id="commands" role="listbox" aria-label="Commands">
          <For each={menu()}>
            {(command, at) => (
              <li
                role="option"
                id={`command-${at()}`}
                aria-selected={picked() === at()}
                onMouseDown={(event) => {
                  event.preventDefault();
                  choose(command);
                }}
              >
                <code>
                  {command.name} <i>{command.arguments}</i>
                </code>
                <span>{command.help}</span>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <LinkNotice class="strip" unsent={props.unsent} />
      <For each={props.queued}>{(one) => <Queued one={one} failed={setProblem} />}</For>
      <Show when={problem() ?? draft().problem}>
        {(why) => (
          <Strip class="bad" alert lead={<Mark name="fail" quiet />} acts={[["Dismiss", dismiss]]}>
            {visible(why())}
          </Strip>
        )}
      </Show>
      <Show when={answered() && props.asks}>
        <Strip
          alert
          lead={<Mark name="wait" quiet />}
          acts={[
            ["Send anyway", () => submit(true)],
            ["Cancel", () => setAnswered(false)],
          ]}
        >
          Chat messages never approve anything. Use the buttons of the approval above.
        </Strip>
      </Show>
      <Show when={(props.older || props.info?.archived) && !draft().fork}>
        <Strip lead={<Icon name={props.older ? "chat" : "box"} />}>
          <Show when={props.older} fallback="Archived. A message moves it out of the archive.">
            An older conversation. Messages go to the newest one of{" "}
            <b>{inert(shortKey(props.talk.place.key))}</b>.
          </Show>
        </Strip>
      </Show>
      <Show when={draft().fork}>
        <Strip
          class="queued"
          lead={<Icon name="pen" />}
          acts={[["Cancel", cancelFork]]}
        >
          Edit and fork: sends the edited message in a new conversation
        </Strip>
      </Show>
      <div class="box">
        <textarea
          ref={field}
          rows={1}
          dir="auto"
          aria-label={`Message to ${props.talk.place.agent}`}
          aria-controls={menu().length ? "commands" : undefined}
          aria-activedescendant={menu().length ? `command-${picked()}` : undefined}
          placeholder={`Message ${props.talk.place.agent}, or / for commands`}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={key}
          onPaste={(event) => {
            const given = [...(event.clipboardData?.files ?? [])];
            if (given.length) event.preventDefault();
            void add(given);
          }}
        />
        <Show when={draft().files.length}>
          <div class="files picked-files">
            <For each={draft().files}>
              {(file) => (
                <span class="file row">
                  <Show when={isPicture(file)} fallback={<Icon name="file" />}>
                    <Picture name={file.name} read={async () => blobOf(file)} />
                  </Show>
                  <span class="clip">
                    <span class="ltr">{file.name}</span>, {bytes(file.size)}
                  </span>
                  <button
                    class="btn bare sq"
                    aria-label={`Remove ${file.name}`}
                    onClick={() => {
                      const files = draft().files.filter((one) => one !== file);
                      drafts.change(props.at, { files });
                    }}
                  >
                    <Icon name="x" />
                  </button>
                </span>
              )}
            </For>
          </div>
        </Show>
        <div class="acts">
          <input
            type="file"
            multiple
            hidden
            ref={picker}
            onChange={(event) => {
              // A copy: emptying the field empties its list.
              void add([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
          <button class="btn bare sq" aria-label="Attach a file" onClick={() => picker.click()}>
            <Icon name="clip" />
          </button>
          <button
            class="btn bare sq"
            aria-label="Commands"
            onClick={() => {
              write("/");
              field.focus();
            }}
          >
            <Icon name="slash" />
          </button>
          <ModelPicker place={props.talk.place} info={props.info} listed={props.models} />
          <span class="grow hide-s" />
          <Show when={props.running}>
            <Radios
              label="While a turn is running"
              name="mode"
              of={MODES}
              chosen={draft().mode}
              choose={(mode) => drafts.change(props.at, { mode })}
            />
            <button class="btn stop" onClick={() => void stop()} aria-disabled={stopping()}>
              <Icon name="stop" />
              {stopping() ? "Stopping…" : "Stop"}
            </button>
          </Show>
          <button
            class="btn ink sq"
            aria-label={live.away() === undefined ? "Send" : "Send when connected"}
            onClick={() => submit()}
          >
            <Icon name="send" />
          </button>
        </div>
      </div>
    </div>
  );
}

/** A line above the field, with what can be done about it. */
function Strip(props: {
  class?: string;
  alert?: boolean;
  lead: JSX.Element;
  acts?: [words: string, act: () => void][];
  children: JSX.Element;
}) {
  return (
    <div class={`strip ${props.class ?? ""}`} role={props.alert ? "alert" : undefined}>
      {props.lead}
      <span class="grow">{props.children}</span>
      <For each={props.acts}>
        {([words, act]) => (
          <button class="btn bare" onClick={act}>
            {words}
          </button>
        )}
      </For>
    </div>
  );
}

function Queued(props: { one: Sending; failed: (why: string | undefined) => void }) {
  const { outbox } = usePage();
  return (
    <div class="strip queued">
      <Mark name="queue" quiet />
      <span class="grow clip">Queued: {props.one.text}</span>
      <button
        class="btn bare"
        onClick={() => void outbox.hurry(props.one).then(props.failed)}
      >
        Send now
      </button>
      <button
        class="btn bare sq"
        aria-label="Remove from queue"
        onClick={() => void outbox.withdraw(props.one).then(props.failed)}
      >
        <Icon name="x" />
      </button>
    </div>
  );
}

function blobOf(file: Attachment): Blob {
  const bytes = Uint8Array.from(atob(file.data), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: file.mime });
}

async function base64(file: File): Promise<string> {
  const read = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < read.length; at += 0x8000) {
    binary += String.fromCharCode(...read.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}
