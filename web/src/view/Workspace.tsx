// Files of an agent's workspace: those the conversation changed and all of them at the left, the
// content of one or its changes at the right. They are read here, and changed by the agent alone.

import { createMemo, createSignal, For, type JSX, Match, onCleanup, Show, Switch } from "solid-js";
import { download, query, request, url } from "../api/http";
import type { FileChange, FileChanges, SessionInfo } from "../api/types";
import type { WorkspaceEntry, WorkspaceItem } from "../api/types";
import { settled } from "../state/live";
import { type FilesRoute, href, talkOf } from "../state/route";
import { type ChangedFile, changedFiles } from "../text/diff";
import { bytes, clock, nameOf, plural, sentence } from "../text/format";
import { inert, lineCount, visible, visibleName } from "../text/visible";
import { Coloured } from "./Code";
import { usePage } from "./context";
import { Copy } from "./Copy";
import { DiffView } from "./Diff";
import { Picture } from "./Files";
import { createAction, createReading } from "./hooks";
import { Icon } from "./marks";
import { Empty, Notice, Problem, Radios, Select } from "./parts";

type Look = "file" | "changes";
const LOOKS: [Look, string][] = [
  ["file", "File"],
  ["changes", "Changes"],
];
/** Changes of one file that are drawn, the newest. */
const SHOWN = 20;
/** Before what is typed is looked for, and what was written is read. */
const PAUSE = 250;

export function Workspace(props: { route: FilesRoute }) {
  const { hive, live, may, router } = usePage();
  const [filter, setFilter] = createSignal("");
  const [written, setWritten] = createSignal(0);
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const session = () => {
    const { agent, session } = props.route;
    return session && url`/agents/${agent}/sessions/${session}`;
  };
  const info = createReading<SessionInfo>(session);
  const read = createReading<FileChanges>(() => session() && `${session()}/changes`, written);
  const changes = () => read.latest?.changes ?? [];
  const changed = createSame<ChangedFile>(
    () => changedFiles(changes()),
    (a, b) => a.added === b.added && a.removed === b.removed,
  );
  const again = settled(PAUSE, async () => void setWritten(written() + 1));
  live.on({
    snapshot: again,
    event(event) {
      if (event.type === "history_updated" && event.agent === props.route.agent) again();
    },
  });
  return (
    <div class="split" classList={{ "one-picked": props.route.path !== undefined }}>
      <aside class="asks" aria-label="Files">
        <header>
          <h1>Files</h1>
          <Show when={may("read_files")}>
            <Select
              spoken="Agent"
              of={hive.agents().map(({ name }) => name)}
              words={(name) => `Workspace of ${name}`}
              chosen={props.route.agent}
              choose={(agent) => router.go({ page: "files", agent })}
            />
            <input
              type="search"
              class="field"
              aria-label="Filter files"
              placeholder="Filter files"
              onInput={({ currentTarget }) => {
                clearTimeout(timer);
                timer = setTimeout(() => setFilter(currentTarget.value.trim()), PAUSE);
              }}
            />
          </Show>
        </header>
        <div class="ftree">
          <Problem text={read.error} />
          <Show when={changed().length}>
            <h2>Changed in “{info.latest ? nameOf(info.latest) : "this conversation"}”</h2>
            <For each={changed()}>
              {(file) => (
                <FileLink route={props.route} path={file.path} name={file.path}>
                  <Sums of={file} />
                </FileLink>
              )}
            </For>
          </Show>
          <Show when={may("read_files")}>
            <h2>{filter() ? "Files found" : "All files"}</h2>
            <Tree route={props.route} filter={filter()} written={written} />
          </Show>
        </div>
      </aside>
      <Show
        when={props.route.path}
        fallback={<p class="hide-s small faint file-foot">Choose a file to read it.</p>}
        keyed
      >
        {(path) => (
          <Show when={!props.route.session || read.latest || read.error}>
            <Viewer
              route={props.route}
              path={path}
              changes={changes().filter((one) => isOf(one, path))}
              info={info.latest}
              written={written}
            />
          </Show>
        )}
      </Show>
    </div>
  );
}

/** A model may name a file of its workspace by the whole path. */
function isOf(change: FileChange, path: string): boolean {
  return change.path === path || (/^[./]/.test(path) && path.endsWith(`/${change.path}`));
}

/** What is as before is the same object, so that its row stays on the page. */
function createSame<T extends { path: string }>(of: () => T[], same: (a: T, b: T) => boolean) {
  return createMemo<T[]>((before) => {
    const known = new Map(before.map((one) => [one.path, one]));
    return of().map((one) => {
      const old = known.get(one.path);
      return old && same(old, one) ? old : one;
    });
  }, []);
}

export function Sums(props: { of: ChangedFile }) {
  return (
    <Show when={!props.of.isNew} fallback={<span class="add-n">new</span>}>
      <span>
        <span class="add-n">+{props.of.added}</span>{" "}
        <span class="del-n">−{props.of.removed}</span>
      </span>
    </Show>
  );
}

interface InTree {
  route: FilesRoute;
  path: string;
  name: string;
}

function FileLink(props: InTree & { children: JSX.Element }) {
  return (
    <a
      href={href({ ...props.route, path: props.path })}
      aria-current={props.route.path === props.path ? "page" : undefined}
    >
      <Icon name="file" />
      <span class="clip ltr" title={visibleName(props.path)}>
        {visibleName(props.name)}
      </span>
      {props.children}
    </a>
  );
}

interface TreeProps {
  route: FilesRoute;
  path?: string;
  filter?: string;
  /** Changes when the agent has written. */
  written: () => unknown;
}

function Tree(props: TreeProps) {
  const read = createReading<WorkspaceItem>(() => {
    const { path, filter } = props;
    return url`/agents/${props.route.agent}/workspace` + query({ path, filter });
  }, props.written);
  const entries = createSame<WorkspaceEntry>(
    () => read.latest?.entries ?? [],
    (a, b) => a.kind === b.kind && (a.kind === "folder" || a.size === b.size),
  );
  return (
    <>
      <Problem text={read.error && sentence(read.error)} />
      <For each={entries()} fallback={read.latest && <p class="small faint">No files.</p>}>
        {(entry) => {
          const name = () => (props.filter ? entry.path : entry.path.split("/").at(-1)!);
          const words = { other: "cannot be shown", link: "link", folder: "", file: "" };
          if (entry.kind === "folder") {
            return <Folder {...props} path={entry.path} name={name()} />;
          }
          return (
            <FileLink route={props.route} path={entry.path} name={name()}>
              <span class="faint">{words[entry.kind] || bytes(entry.size)}</span>
            </FileLink>
          );
        }}
      </For>
      <Show when={read.latest?.cut}>
        <p class="small faint">There are more. Use the filter to find them.</p>
      </Show>
    </>
  );
}

function Folder(props: InTree & TreeProps) {
  const [open, setOpen] = createSignal(props.route.path?.startsWith(`${props.path}/`) ?? false);
  return (
    <details open={open()} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Icon name="chev" class="chev" />
        <Icon name="folder" />
        <span class="clip ltr">{visibleName(props.name)}</span>
      </summary>
      <Show when={open()}>
        <Tree route={props.route} path={props.path} written={props.written} />
      </Show>
    </details>
  );
}

function Viewer(props: {
  route: FilesRoute;
  path: string;
  changes: FileChange[];
  info: SessionInfo | undefined;
  written: () => unknown;
}) {
  const { may } = usePage();
  const { problem, run, forget } = createAction();
  const address = (content = "") =>
    url`/agents/${props.route.agent}/workspace` + content + query({ path: props.path });
  const read = createReading<WorkspaceItem>(
    () => (may("read_files") ? address() : undefined),
    props.written,
  );
  const item = () => read.latest;
  const name = props.path.split("/").at(-1) || props.path;
  const [chosen, choose] = createSignal<Look>();
  const look = () => (props.changes.length ? (chosen() ?? "changes") : "file");
  const last = () => props.changes.at(-1);
  const facts = () => {
    const { size, text, cut } = item() ?? {};
    const lines = text == null ? "" : cut ? "the first 256 KiB of " : linesOf(text);
    const facts = size == null ? [] : [lines + bytes(size)];
    if (look() === "changes") {
      const all = props.changes.map(({ diff }) => ({ path: props.path, diff }));
      const [sums] = changedFiles(all);
      facts.push(`${plural(sums?.added ?? 0, "line")} added, ${sums?.removed} removed`);
      if (all.length > SHOWN) facts.push(`the newest ${SHOWN} of ${all.length} changes`);
    }
    return facts;
  };
  return (
    <article class="detail" aria-labelledby="file-h">
      <header class="talk-head">
        <a
          class="btn bare sq only-s"
          href={href({ ...props.route, path: undefined })}
          aria-label="All files"
        >
          <Icon name="chev" class="flip" />
        </a>
        <div class="grow">
          <h1 id="file-h" class="clip ltr" title={visibleName(props.path)}>
            {visibleName(name)}
          </h1>
          <Show when={last()}>
            {(last) => (
              <p class="small faint">
                Changed {clock(last().at)} by {props.route.agent} in{" "}
                <a class="clip" href={href(talkOf({ ...props.info!, ...props.route }, last().seq))}>
                  {props.info && nameOf(props.info)}
                </a>
              </p>
            )}
          </Show>
        </div>
        <Show when={props.changes.length && may("read_files")}>
          <Radios label="View" name="look" of={LOOKS} chosen={look()} choose={choose} />
        </Show>
        <Show when={item()?.text}>{(text) => <Copy label="Copy" text={text} />}</Show>
        <Show when={item()?.size != null}>
          <button
            class="btn bare sq"
            aria-label="Download"
            onClick={() => void run(() => download(address("/content"), name))}
          >
            <Icon name="down" />
          </button>
        </Show>
      </header>
      <Notice text={problem()} dismiss={forget} />
      <div class="viewer" tabindex="0" role="region" aria-label="Content">
        <Switch fallback={<div class="skel wide-60" />}>
          <Match when={look() === "changes"}>
            <For each={props.changes.slice(-SHOWN)}>{(change) => <Change of={change} />}</For>
          </Match>
          <Match when={read.error ?? (!may("read_files") && "only operators and viewers may")}>
            {(why) => (
              <Empty title="This file cannot be shown">
                <p>{visible(sentence(why()))}</p>
              </Empty>
            )}
          </Match>
          <Match when={item()?.entries}>
            <div class="ftree">
              <Tree route={props.route} path={props.path} written={props.written} />
            </div>
          </Match>
          <Match when={item()?.picture}>
            <Picture name={name} read={async () => (await request(address("/content"))).blob()} />
          </Match>
          <Match when={item()?.text}>
            {(text) => <Lines text={inert(text())} language={name.split(".").at(-1)!} />}
          </Match>
          <Match when={item()}>
            <Empty title={item()?.text === "" ? "Empty file" : "Not a text file"}>
              <p>{item()?.text ?? "Download it to open it with another program."}</p>
            </Empty>
          </Match>
        </Switch>
      </div>
      <footer class="file-foot">
        <For each={facts()}>{(fact) => <span>{fact}</span>}</For>
        <span>Read only: ask the agent to change a file</span>
      </footer>
    </article>
  );
}

const linesOf = (text: string) => `${plural(lineCount(text), "line")}, `;

function Change(props: { of: FileChange }) {
  const isCut = () => /\n\[cut: [^\n]*\]\n$/.test(props.of.diff);
  return (
    <>
      <p class="small faint">
        {clock(props.of.at)}
        {isCut() && ", only the beginning of the change"}
      </p>
      <DiffView text={props.of.diff} label={`Change at ${clock(props.of.at)}`} />
    </>
  );
}

function Lines(props: { text: string; language: string }) {
  const numbers = () => Array.from({ length: lineCount(props.text) }, (_, at) => at + 1);
  return (
    <div class="lines">
      <pre aria-hidden="true">{numbers().join("\n")}</pre>
      <pre>
        <Coloured {...props} />
      </pre>
    </div>
  );
}
