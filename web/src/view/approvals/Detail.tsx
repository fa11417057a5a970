// One approval, whole: what runs comes first, then the files, the sandbox and the rule.

import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import type { ApprovalInfo, NamedFile, NetworkAccess, PinnedFile } from "../../api/types";
import { href, talkOf } from "../../state/route";
import { approverWords, danger, exact, left } from "../../text/asks";
import { bytes, clock, plural } from "../../text/format";
import { lineCount, visible, visibleName } from "../../text/visible";
import { usePage } from "../context";
import { DiffView } from "../Diff";
import { createReading } from "../hooks";
import { Icon } from "../marks";
import { DangerTag, Problem } from "../parts";
import { Trace } from "../Trace";
import { HostLine, Wants } from "./AskCard";
import type { DecisionChoice } from "./choice";

interface Props {
  approval: ApprovalInfo;
  choice: DecisionChoice;
  now: number;
  /** Among those that wait; -1 for one that does not. */
  place: number;
  of: number;
  step: (by: number) => void;
}

export function Detail(props: Props) {
  const { whoIs } = usePage();
  const approval = () => props.approval;
  return (
    <div class="read">
      <Steps {...props} />
      <h1 id="ap-h" class="clip">
        <Wants approval={approval()} />
      </h1>
      <p class="path">
        {clock(approval().asked_at)} in <a href={href(talkOf(approval()))}>this conversation</a>,
        asked by <b>{visible(approval().asked_by.map(whoIs).join(", "))}</b>
      </p>
      <Show when={danger(approval())}>
        <p class="path">
          <DangerTag of={approval()} />
        </p>
      </Show>
      <div class="cols">
        <div>
          <Exact approval={approval()} place={props.choice.reading.place} />
          <HostLine approval={approval()} />
          <Files approval={approval()} lasts={props.choice.lasts()} />
          <Fold title="Reason and sandbox">
            <dl class="kv">
              <Show when={approval().words}>
                {(words) => (
                  <>
                    <dt>Reason</dt>
                    <dd class="words">
                      “{visible(words())}”{" "}
                      <span class="faint">written by {approval().agent}</span>
                    </dd>
                  </>
                )}
              </Show>
              <dt>Runs in</dt>
              <dd>
                <code>{visible(approval().cwd)}</code>
              </dd>
              <dt>Sandbox</dt>
              <dd classList={{ "bad-text": approval().sandbox === "host" }}>
                {LEVELS[approval().sandbox ?? ""] ?? "unknown: the agent was removed"}
                <Show when={approval().network}>
                  {(network) => (
                    <span classList={{ "bad-text": network() === "open" }}>
                      , {reached(network(), approval().hosts)}
                    </span>
                  )}
                </Show>
              </dd>
              <dt>Approvers</dt>
              <dd>{approverWords(approval())}</dd>
              <dt>Kind</dt>
              <dd>{KINDS[approval().class] ?? approval().class}</dd>
            </dl>
          </Fold>
        </div>
        <Fold title="Why approval is needed">
          <Trace verdict={approval().why} />
        </Fold>
      </div>
    </div>
  );
}

/** From one waiting approval to the next, also without a keyboard. */
function Steps(props: Props) {
  const button = (by: number, content: JSX.Element) => {
    const there = () => props.place + by >= 0 && props.place + by < props.of;
    return (
      <button class="btn bare" aria-disabled={!there()} onClick={() => props.step(by)}>
        {content}
      </button>
    );
  };
  return (
    <Show when={props.approval.state === "open"}>
      <nav class="turn-of" aria-label="Waiting approvals">
        <span class="when grow">expires in {left(props.approval.expires_at - props.now)}</span>
        {button(
          -1,
          <>
            <Icon name="chev" class="flip" />
            Previous
            <kbd>k</kbd>
          </>,
        )}
        <span class="when">
          {props.place + 1} of {props.of}
        </span>
        {button(
          1,
          <>
            Next
            <Icon name="chev" />
            <kbd>j</kbd>
          </>,
        )}
      </nav>
    </Show>
  );
}

const ROOM = matchMedia("(min-width: 761px)");

/** Open where there is room; else folded, so that the decision follows the command. */
function Fold(props: {
  title: JSX.Element;
  beside?: string;
  open?: boolean;
  toggled?: (open: boolean) => void;
  children: JSX.Element;
}) {
  return (
    <details
      class="fold"
      open={props.open ?? ROOM.matches}
      onToggle={(event) => props.toggled?.(event.currentTarget.open)}
    >
      <summary class="sec">
        <Icon name="chev" class="chev" />
        <h2>{props.title}</h2>
        <span class="small faint">{props.beside}</span>
      </summary>
      {props.children}
    </details>
  );
}

const LEVELS: Record<string, string> = {
  confined: "confined to its workspace",
  host: "none: the rights of the hive itself",
};

const NETWORKS: Record<Exclude<NetworkAccess, "listed">, string> = {
  none: "no network",
  host: "network: this one host",
  open: "network: all that this machine can connect to",
};

function reached(network: NetworkAccess, hosts: string[] | undefined): string {
  if (network !== "listed") {
    return NETWORKS[network];
  }
  return hosts?.length ? `network: ${visible(hosts.join(", "))}` : "no network (no host is listed)";
}

const KINDS: Record<string, string> = {
  read: "reads",
  write: "changes files",
  run: "runs programs",
  reach: "reaches beyond this machine",
  shape: "changes the hive itself",
};

/** The very text that runs: wrapped, never cut. */
function Exact(props: { approval: ApprovalInfo; place: (element: HTMLElement) => void }) {
  const hash = () => `${props.approval.hash.slice(0, 4)}…${props.approval.hash.slice(-4)}`;
  const change = createMemo(() => changeOf(props.approval));
  const parts = createMemo(() => exact(props.approval));
  return (
    <>
      <div class="sec tight">
        <h2>{props.approval.tool}</h2>
        <span class="small faint" title={props.approval.hash}>
          {plural(lineCount(parts().text), "line")}, sha256 {hash()}
        </span>
      </div>
      <div class="exact" ref={props.place}>
        <pre class="cmd wrap" tabindex="0" role="region" aria-label="Exactly what is asked for">
          {parts().text}
        </pre>
        <Show when={parts().rest}>
          {(rest) => (
            <pre class="cmd wrap more-args" tabindex="0" role="region" aria-label="Other arguments">
              {rest()}
            </pre>
          )}
        </Show>
      </div>
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

/** Bytes of a file that the hive shows. */
const LARGEST = 1 << 20;

/** Its content can be read as it is pinned. */
function isReadable(file: NamedFile): boolean {
  const inside = !(file.target ?? file.path).startsWith("/");
  const small = file.bytes != null && file.bytes <= LARGEST;
  return file.kind === "file" && file.sha256 != null && inside && small;
}

function Files(props: { approval: ApprovalInfo; lasts: boolean }) {
  const pinned = () => {
    if (props.approval.bound === "nothing") {
      return "not pinned: too many files. Approval counts once.";
    }
    return props.lasts
      ? "not pinned: later changes need no approval"
      : "pinned: a change needs a new approval";
  };
  const others = () => props.approval.files.filter((file) => !isReadable(file));
  return (
    <>
      <For each={props.approval.files}>
        {(file, at) => (
          <Show when={isReadable(file)}>
            <Content approval={props.approval} file={file} number={at()} pinned={pinned()} />
          </Show>
        )}
      </For>
      <Show when={others().length}>
        <Fold
          title={props.approval.bound === "named" ? "Files it names" : "Files it may use"}
          beside={pinned()}
        >
          <ul class="pinned">
            <For each={others()}>
              {(file) => (
                <li>
                  <code>{nameOf(file)}</code>
                  <span class="small faint" title={file.sha256 ?? ""}>
                    {file.sha256
                      ? `${bytes(file.bytes ?? 0)}, sha256 ${file.sha256.slice(0, 8)}…`
                      : file.kind}
                  </span>
                </li>
              )}
            </For>
          </ul>
        </Fold>
      </Show>
    </>
  );
}

function nameOf(file: NamedFile): string {
  return visibleName(file.path) + (file.target ? ` → ${visibleName(file.target)}` : "");
}

/** What is in a file, read when somebody opens it. */
function Content(props: {
  approval: ApprovalInfo;
  file: NamedFile;
  number: number;
  pinned: string;
}) {
  const [open, setOpen] = createSignal(ROOM.matches && props.approval.files.length === 1);
  const content = createReading<PinnedFile>(() =>
    open() ? `/approvals/${props.approval.id}/files/${props.number}` : undefined,
  );
  const size = () => `${bytes(props.file.bytes ?? 0)}, ${props.pinned}`;
  const name = () => <span class="ltr">{nameOf(props.file)}</span>;
  return (
    <Fold title={name()} beside={size()} open={open()} toggled={setOpen}>
      <Problem text={content.error} />
      <Show when={content.latest}>
        {(file) => (
          <Show when={file().text} fallback={<p class="small muted">Not a text file.</p>}>
            {(text) => (
              <>
                <pre
                  class="cmd wrap content"
                  tabindex="0"
                  role="region"
                  aria-label={`Content of ${nameOf(props.file)}`}
                >
                  {visible(text())}
                </pre>
                <p class="small faint">
                  {plural(file().lines, "line")}
                  {file().cut ? "; only the beginning is shown" : ""}
                </p>
              </>
            )}
          </Show>
        )}
      </Show>
    </Fold>
  );
}
