// Where one writes: text of any length, files, commands; what to do while a turn runs.

import { createEffect, createMemo, createSignal, For, on, Show } from "solid-js";
import { post, said, url } from "../api/http";
import type { CommandInfo } from "../api/types";
import type { Attachment, Mode, Talk } from "../state/talk";
import { bytes } from "../text/format";
import { matching } from "../text/slash";
import { Icon, Mark } from "./marks";
import { Notice, Radios } from "./parts";

const LARGEST_FILE = 5 * 1024 * 1024;
const MOST_FILES = 10;
const MODES: [Mode, string, string][] = [
  ["queue", "Queue", "Sent after this turn, or within it"],
  ["interrupt", "Interrupt", "Stop this turn, then send"],
];

interface Props {
  talk: Talk;
  running: boolean;
  commands: CommandInfo[];
  /** Text to begin with; a new object each time it is set. */
  draft: { text: string } | undefined;
  /** The words go to a fork; this gives that up. */
  unfork: (() => void) | undefined;
  send: (text: string, mode: Mode, files: Attachment[]) => void;
}

export function Composer(props: Props) {
  let field!: HTMLTextAreaElement;
  let picker!: HTMLInputElement;
  const [text, setText] = createSignal("");
  const [mode, setMode] = createSignal<Mode>("queue");
  const [files, setFiles] = createSignal<Attachment[]>([]);
  const [problem, setProblem] = createSignal<string>();
  const [stopping, setStopping] = createSignal(false);
  const [picked, setPicked] = createSignal(0);
  const [closed, setClosed] = createSignal(false);
  const menu = createMemo(() => (closed() ? [] : matching(text(), props.commands)));

  createEffect(
    on(
      () => props.draft,
      (draft) => {
        if (!draft) return;
        write(draft.text);
        field.focus();
      },
    ),
  );
  createEffect(() => {
    if (!props.running) setStopping(false);
  });

  function write(next: string): void {
    setText(next);
    setPicked(0);
    setClosed(false);
    field.value = next;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 320)}px`;
  }

  function submit(): void {
    const words = text().trim();
    if (words === "" && files().length === 0) return;
    props.send(words === "" ? "See the file." : text(), mode(), files());
    write("");
    setFiles([]);
    setProblem(undefined);
    setMode("queue");
  }

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

  function choose(command: CommandInfo): void {
    write(command.arguments ? `${command.name} ` : command.name);
    setClosed(true);
    field.focus();
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
    } else if (event.key === "Escape" && props.running && text() === "") {
      void stop();
    }
  }

  async function add(given: Iterable<File>): Promise<void> {
    setProblem(undefined);
    for (const file of given) {
      if (files().length >= MOST_FILES) return void setProblem(`${MOST_FILES} files at most.`);
      if (file.size > LARGEST_FILE) {
        setProblem(`${file.name} has ${bytes(file.size)}; ${bytes(LARGEST_FILE)} at most.`);
        continue;
      }
      const data = await base64(file);
      const mime = file.type || "text/plain";
      setFiles((before) => [...before, { name: file.name, mime, size: file.size, data }]);
    }
  }

  const waiting = () => props.talk.state.sending.filter((one) => one.state !== "started");

  return (
    <div
      class="compose"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add(event.dataTransfer?.files ?? []);
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
      <For each={waiting()}>{(one) => <Waiting one={one} talk={props.talk} />}</For>
      <Notice text={problem()} marked dismiss={() => setProblem(undefined)} />
      <Show when={props.unfork}>
        {(cancel) => (
          <div class="queued row">
            <Icon name="pen" />
            <span class="grow clip">
              Edit and fork: sends the edited message in a new conversation
            </span>
            <button class="btn bare" onClick={() => cancel()()}>
              Cancel
            </button>
          </div>
        )}
      </Show>
      <div class="box">
        <textarea
          ref={field}
          rows={1}
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
        <Show when={files().length}>
          <div class="files picked-files">
            <For each={files()}>
              {(file) => (
                <span class="file row">
                  <Icon name="file" />
                  {file.name}, {bytes(file.size)}
                  <button
                    class="btn bare sq"
                    aria-label={`Remove ${file.name}`}
                    onClick={() => setFiles((all) => all.filter((one) => one !== file))}
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
              void add(event.currentTarget.files ?? []);
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
          <span class="grow hide-s" />
          <Show when={props.running}>
            <Radios
              label="While a turn is running"
              name="mode"
              of={MODES}
              chosen={mode()}
              choose={setMode}
            />
            <button class="btn stop" onClick={() => void stop()} aria-disabled={stopping()}>
              <Icon name="stop" />
              {stopping() ? "Stopping…" : "Stop"}
            </button>
          </Show>
          <button class="btn ink sq" aria-label="Send" onClick={submit}>
            <Icon name="send" />
          </button>
        </div>
      </div>
    </div>
  );
}

function Waiting(props: { one: Talk["state"]["sending"][number]; talk: Talk }) {
  const failed = () => props.one.state === "failed";
  const words = () => {
    if (failed()) return `Not sent: ${props.one.why}`;
    return props.one.state === "queued" ? "Queued" : "Sending";
  };
  return (
    <div class="queued row" classList={{ refused: failed() }}>
      <Mark name={failed() ? "fail" : "queue"} quiet />
      <span class="grow clip">
        {words()}: {props.one.text}
      </span>
      <Show when={props.one.state === "queued"}>
        <button class="btn bare" onClick={() => void props.talk.hurry(props.one.key)}>
          Send now
        </button>
        <button
          class="btn bare sq"
          aria-label="Remove from queue"
          onClick={() => void props.talk.withdraw(props.one.key)}
        >
          <Icon name="x" />
        </button>
      </Show>
      <Show when={failed()}>
        <button
          class="btn bare sq"
          aria-label="Remove"
          onClick={() => props.talk.dismiss(props.one.key)}
        >
          <Icon name="x" />
        </button>
      </Show>
    </div>
  );
}

async function base64(file: File): Promise<string> {
  const read = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < read.length; at += 0x8000) {
    binary += String.fromCharCode(...read.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}
