// One approval, whole: who asks, exactly what, which files it names, and why somebody is asked.

import { createMemo, For, Show } from "solid-js";
import type { ApprovalInfo } from "../../api/types";
import { href, talkOf } from "../../state/route";
import { approverWords, left, wish } from "../../text/asks";
import { bytes, clock, plural } from "../../text/format";
import { lineCount, visible } from "../../text/visible";
import { DiffView } from "../Diff";
import { Section } from "../parts";
import { Trace } from "../Trace";

export function Detail(props: { approval: ApprovalInfo; now: number; place: number; of: number }) {
  const approval = () => props.approval;
  return (
    <div class="read">
      <div class="row turn-of">
        <Show when={approval().state === "open"}>
          <span class="when">expires in {left(approval().expires_at - props.now)}</span>
        </Show>
        <Show when={props.place >= 0}>
          <span class="when">
            {props.place + 1} of {props.of}
          </span>
          <kbd>j</kbd>
          <kbd>k</kbd>
        </Show>
      </div>
      <h1 id="ap-h">
        {approval().agent} wants to {wish(approval())}
      </h1>
      <p class="path">
        Asked {clock(approval().asked_at)} in{" "}
        <a href={href(talkOf(approval()))}>this conversation</a>, started by{" "}
        <b>{approval().asked_by.join(", ")}</b>
      </p>
      <div class="cols">
        <div>
          <Exact approval={approval()} />
          <Files approval={approval()} />
          <dl class="kv facts">
            <dt>Runs in</dt>
            <dd>
              <code>{visible(approval().cwd)}</code>
            </dd>
            <dt>Sandbox</dt>
            <dd classList={{ "bad-text": approval().sandbox === "host" }}>
              {LEVELS[approval().sandbox ?? ""] ?? "unknown: the agent was removed"}
            </dd>
            <dt>Decided by</dt>
            <dd>{approverWords(approval())}</dd>
            <dt>Kind</dt>
            <dd>{KINDS[approval().class] ?? approval().class}</dd>
          </dl>
        </div>
        <Section id="why-h" title="Why you are asked" tight>
          <Trace verdict={approval().why} />
        </Section>
      </div>
    </div>
  );
}

const LEVELS: Record<string, string> = {
  confined: "confined: its workspace alone, no network of its own",
  host: "host: with the rights of the hive itself, no walls",
};

const KINDS: Record<string, string> = {
  read: "reads",
  write: "changes files",
  run: "runs programs",
  reach: "reaches beyond this machine",
  shape: "changes the hive itself",
};

/** The very text that runs: wrapped, never cut. */
function Exact(props: { approval: ApprovalInfo }) {
  const hash = () => `${props.approval.hash.slice(0, 4)}…${props.approval.hash.slice(-4)}`;
  const change = createMemo(() => changeOf(props.approval));
  return (
    <>
      <div class="sec tight">
        <h2>{props.approval.tool}</h2>
        <span class="small faint" title={props.approval.hash}>
          exactly this, {plural(lineCount(props.approval.shown), "line")}, sha256 {hash()}
        </span>
      </div>
      <pre class="cmd wrap" tabindex="0" role="region" aria-label="Exactly what is asked for">
        {visible(props.approval.shown)}
      </pre>
      <Show when={change()}>
        {(text) => (
          <>
            <div class="sec tight later">
              <h2>As a change</h2>
            </div>
            <DiffView text={visible(text())} label="The change it makes" />
          </>
        )}
      </Show>
    </>
  );
}

/** An edit as lines taken away and put in their place. */
function changeOf(approval: ApprovalInfo): string | undefined {
  const given = approval.arguments as Record<string, unknown> | null;
  const [before, after] = [given?.["old_string"], given?.["new_string"]];
  if (typeof before !== "string" || typeof after !== "string") return undefined;
  const lines = (text: string, sign: string) =>
    text === "" ? [] : text.replace(/\n$/, "").split("\n").map((line) => `${sign}${line}`);
  const [removed, added] = [lines(before, "-"), lines(after, "+")];
  return [`@@ -1,${removed.length} +1,${added.length} @@`, ...removed, ...added, ""].join("\n");
}

function Files(props: { approval: ApprovalInfo }) {
  return (
    <Show when={props.approval.files.length}>
      <div class="sec tight later">
        <h2>{props.approval.bound === "named" ? "Files it names" : "Files it may use"}</h2>
        <span class="small faint">
          {props.approval.bound === "nothing"
            ? "files are not bound: there are too many. A yes counts once."
            : "pinned too: changed, you are asked again"}
        </span>
      </div>
      <ul class="pinned">
        <For each={props.approval.files}>
          {(file) => (
            <li>
              <code>
                {visible(file.path)}
                {file.target ? ` → ${visible(file.target)}` : ""}
              </code>
              <span class="small faint" title={file.sha256 ?? ""}>
                {file.sha256
                  ? `${bytes(file.bytes ?? 0)}, sha256 ${file.sha256.slice(0, 8)}…`
                  : file.kind}
              </span>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}
