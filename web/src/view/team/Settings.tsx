// An agent's settings: what is in force, and its file, which is checked and compared before
// another text of it is applied.

import {
  batch,
  createEffect,
  createMemo,
  createSignal,
  For,
  on,
  onCleanup,
  Show,
} from "solid-js";
import { post, put, Refusal, url } from "../../api/http";
import type { AgentFile, EffectiveSettings, FileCheck } from "../../api/types";
import { problemWords, settingRows } from "../../text/settings";
import { sentence } from "../../text/format";
import { inert } from "../../text/visible";
import { usePage } from "../context";
import { DiffView } from "../Diff";
import { createAction, createReading } from "../hooks";
import { Notice, Section, Unavailable } from "../parts";

interface Draft {
  text: string;
  /** The file that the text began with. */
  base: AgentFile;
}

/** Texts that nobody has applied yet, by agent: they stay while one looks elsewhere. */
const drafts = new Map<string, Draft>();

export function Settings(props: { name: string; changed: () => number }) {
  const { live } = usePage();
  const [looks, setLooks] = createSignal(0);
  // A comment of the file may have changed, of which the hive says nothing.
  const look = () => void (live.away() === undefined && setLooks(looks() + 1));
  addEventListener("focus", look);
  onCleanup(() => removeEventListener("focus", look));
  const file = createReading<AgentFile>(
    () => url`/agents/${props.name}/settings`,
    () => [props.changed(), looks()],
  );
  const [saved, setSaved] = createSignal<AgentFile>();
  createEffect(on(() => file.latest, () => setSaved(undefined), { defer: true }));
  const now = () => saved() ?? file.latest;
  return (
    <>
      <Notice text={file.error} />
      <Show when={now()}>
        {(now) => (
          <>
            <File name={props.name} file={now()} saved={setSaved} />
            <Show when={now().effective}>
              {(effective) => (
                <Effective
                  of={effective()}
                  // A text that is not in force does not say where what is in force comes from.
                  written={now().problems.length ? undefined : now().written}
                />
              )}
            </Show>
          </>
        )}
      </Show>
    </>
  );
}

function Effective(props: { of: EffectiveSettings; written: string[] | undefined }) {
  const rows = createMemo(() => settingRows(props.of));
  return (
    <Section
      id="effective-h"
      title="In force"
      beside={<span class="small faint">for turns that begin now</span>}
    >
      <dl class="kv wide">
        <For each={rows()}>
          {([key, value]) => (
            <>
              <dt>
                <code>{key}</code>
              </dt>
              <dd>
                {inert(value)}
                <Show when={props.written?.includes(key) === false}>
                  <span class="small faint"> default</span>
                </Show>
              </dd>
            </>
          )}
        </For>
      </dl>
      <p class="small faint">
        No agent gets more than those above it have. Hosts, programs and money may be less here
        than the file says.
      </p>
    </Section>
  );
}

function File(props: { name: string; file: AgentFile; saved: (file: AgentFile) => void }) {
  const { hive, may } = usePage();
  const action = createAction();
  const draft = drafts.get(props.name);
  const [text, setText] = createSignal(draft?.text ?? props.file.text);
  const [base, setBase] = createSignal(draft?.base ?? props.file);
  const [check, setCheck] = createSignal<FileCheck & { text: string }>();
  const [done, setDone] = createSignal(false);
  const isChanged = () => text() !== base().text;
  const isChecked = () => check()?.text === text();
  const problems = () => (isChecked() ? (check()?.problems ?? []) : []);
  /** Somebody else has changed the file since. */
  const isStale = () => {
    const newest = isChecked() ? check()?.hash : props.file.hash;
    return isChanged() && newest !== base().hash && !action.busy();
  };
  const canEdit = () => may("configure") && props.file.hash != null;
  let area!: HTMLTextAreaElement;

  function take(file: AgentFile): void {
    batch(() => {
      setBase(file);
      setText(file.text);
      setCheck(undefined);
    });
    drafts.delete(props.name);
  }
  // A file that nobody changes here is shown as it is.
  createEffect(on(() => props.file, (file) => void (isChanged() || take(file))));
  // What was compared with an older file says nothing about this one.
  createEffect(on(() => props.file.hash, () => setCheck(undefined), { defer: true }));

  function type(words: string): void {
    setText(words);
    setDone(false);
    if (isChanged()) drafts.set(props.name, { text: words, base: base() });
    else drafts.delete(props.name);
  }

  async function look(): Promise<void> {
    const asked = text();
    const body = { text: asked };
    const found = await post<FileCheck>(url`/agents/${props.name}/settings/check`, body);
    setCheck({ ...found, text: asked });
  }

  async function apply(): Promise<void> {
    const { hash, text } = check() ?? {};
    try {
      const body = { text, hash };
      const file = await put<AgentFile>(url`/agents/${props.name}/settings`, body);
      batch(() => {
        take(file);
        props.saved(file);
        setDone(true);
      });
      void hive.refresh();
    } catch (error) {
      // Compared with the file as it is by now.
      if (error instanceof Refusal && error.code === "settings_changed") await look();
      else throw error;
    }
  }

  function goTo(line: number): void {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  }

  return (
    <Section id="file-h" title="File" beside={<code class="small">{props.file.path}</code>}>
      <For each={isChanged() ? [] : props.file.problems}>
        {(problem) => <Notice text={`Not in force: ${problemWords(problem.text)}`} marked />}
      </For>
      <textarea
        class="field mono file-text"
        aria-label={`Text of ${props.file.path}`}
        ref={area}
        rows={Math.min(24, Math.max(8, text().split("\n").length + 1))}
        spellcheck={false}
        autocomplete="off"
        wrap="off"
        readonly={!canEdit()}
        value={text()}
        onInput={(event) => type(event.currentTarget.value)}
      />
      <Show when={props.file.hash == null}>
        <p class="small faint">
          The file holds a secret, which is not shown. It can be changed on the disk only.
        </p>
      </Show>
      <Show when={isStale()}>
        <div class="notice" role="alert">
          <span class="grow">
            The file was changed since you began. Check compares your text with the file as it is
            now: what your text lacks is removed from it.
          </span>
          <button class="btn" onClick={() => take(props.file)}>
            Use the file
          </button>
        </div>
      </Show>
      <For each={problems()}>
        {(problem) => (
          <div class="notice bad" role="alert">
            <span class="grow">{inert(problemWords(problem.text))}</span>
            <Show when={problem.line}>
              {(line) => (
                <button class="btn bare" onClick={() => goTo(line())}>
                  Line {line()}
                </button>
              )}
            </Show>
          </div>
        )}
      </For>
      <Notice text={action.problem() && sentence(action.problem()!)} marked />
      <Show when={done() && !isChanged()}>
        <div class="notice ok" role="status">
          Saved and in force for turns that begin now.
        </div>
      </Show>
      <Show when={isChecked() && check()}>
        {(check) => (
          <Show when={check().diff} fallback={<p class="small faint">Nothing differs.</p>}>
            <DiffView text={check().diff} label={`Changes of ${props.file.path}`} />
          </Show>
        )}
      </Show>
      <Show when={canEdit() && isChanged()}>
        <div class="acts">
          <Show
            when={isChecked() && problems().length === 0 && check()?.diff}
            fallback={
              <button
                class="btn"
                aria-disabled={action.busy()}
                onClick={() => void action.run(look)}
              >
                {action.busy() ? "Checking…" : "Check"}
              </button>
            }
          >
            <button
              class="btn go"
              aria-disabled={action.busy()}
              onClick={() => void action.run(apply)}
            >
              Apply
            </button>
          </Show>
          <button class="btn bare" onClick={() => take(props.file)}>
            Discard
          </button>
          <Unavailable />
        </div>
      </Show>
    </Section>
  );
}
