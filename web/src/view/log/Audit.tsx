// The audit trail: each call with its decision chain, whether the chain of hashes holds, and calls
// whose outcome a crash left unknown.

import { createEffect, createSignal, For, on, Show } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { download, get, query, said } from "../../api/http";
import type { AuditInfo, AuditPage, AuditVerdict } from "../../api/types";
import { inOrder, settled } from "../../state/live";
import { href, talkOf } from "../../state/route";
import { outcomeWords, sentence, standing } from "../../text/audit";
import { allArguments } from "../../text/calls";
import { bytes, clock, span } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { createAction } from "../hooks";
import { Icon, Mark, type MarkName } from "../marks";
import { Choose, Empty, Notice } from "../parts";
import { UnknownCalls } from "./UnknownCalls";

const PAGE = 50;
/** Several calls at once are one look. */
const SETTLE = 300;
/** Each of these leaves a row. */
const TELLING = new Set([
  "tool_end",
  "approval_asked",
  "approval_decided",
  "call_unknown",
  "call_resolved",
  "config",
]);
const KINDS: Record<string, string> = {
  call: "Calls",
  contact: "Contacts",
  decision: "Decisions",
  change: "Changes",
};
const OUTCOMES = ["ok", "error", "refused", "unknown"];

export function Audit(props: { turn: string | undefined }) {
  const { hive, live } = usePage();
  const [rows, setRows] = createStore<AuditInfo[]>([]);
  const [next, setNext] = createSignal<number>();
  const [chosen, choose] = createStore({ kind: "", agent: "", tool: "", outcome: "" });
  const [problem, setProblem] = createSignal<string>();

  const which = () => ({ ...chosen, turn: props.turn, limit: PAGE });
  async function read(cursor: number | undefined, take: (page: AuditPage) => void) {
    try {
      take(await get<AuditPage>(`/audit${query({ ...which(), cursor })}`));
      setProblem(undefined);
    } catch (error) {
      setProblem(`Reading the audit trail failed: ${said(error)}`);
    }
  }
  const asking = inOrder();
  const load = () => {
    const isNewer = asking();
    return read(undefined, (page) => {
      if (!isNewer()) return;
      const oldest = page.rows.at(-1)?.id ?? 0;
      const kept = rows.filter((row) => row.id < oldest && page.next != null);
      setRows(reconcile([...page.rows, ...kept], { key: "id" }));
      if (kept.length === 0) setNext(page.next ?? undefined);
    });
  };
  const older = () =>
    read(next(), (page) => {
      setRows(reconcile([...rows, ...page.rows], { key: "id" }));
      setNext(page.next ?? undefined);
    });
  createEffect(
    on(which, () => {
      setRows(reconcile([]));
      setNext(undefined);
      void load();
    }),
  );
  const soon = settled(SETTLE, load);
  live.on({
    snapshot: () => void load(),
    event: (event) => {
      if (TELLING.has(event.type)) soon();
    },
  });

  return (
    <>
      <UnknownCalls />
      <div class="row choices">
        <Choose
          label="What"
          of={Object.keys(KINDS)}
          words={(one) => KINDS[one] ?? one}
          all="All"
          chosen={chosen.kind}
          choose={(kind) => choose({ kind })}
        />
        <Choose
          label="Agent"
          of={hive.names()}
          all="All"
          chosen={chosen.agent}
          choose={(agent) => choose({ agent })}
        />
        <label>
          Tool{" "}
          <input
            class="field"
            placeholder="any"
            onChange={(event) => choose({ tool: event.currentTarget.value.trim() })}
          />
        </label>
        <Choose
          label="Outcome"
          of={OUTCOMES}
          all="Any"
          chosen={chosen.outcome}
          choose={(outcome) => choose({ outcome })}
        />
        <Show when={props.turn}>
          <a class="btn bare" href={href({ page: "log", tab: "audit" })}>
            One turn only; show all
          </a>
        </Show>
        <span class="grow" />
        <Verify />
      </div>
      <Notice text={problem()} />
      <Show when={rows.length} fallback={<Nothing />}>
        <ul class="audit" aria-label="Audit trail">
          <For each={rows}>
            {(row) => (
              <li>
                <Row row={row} />
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={next() !== undefined}>
        <button class="btn" onClick={() => void older()}>
          Older
        </button>
      </Show>
    </>
  );
}

function Nothing() {
  return (
    <Empty title="No rows">
      <p>
        Every tool call is recorded here, allowed or not, with every decision and change a person
        makes.
      </p>
    </Empty>
  );
}

function Verify() {
  const [verdict, setVerdict] = createSignal<AuditVerdict>();
  const { busy, problem, run } = createAction();
  const saving = createAction();
  const ask = () => run(async () => setVerdict(await get<AuditVerdict>("/audit/verify")));
  const save = () => saving.run(() => download("/audit/export", "audit.jsonl"));
  return (
    <>
      <span class="small" role="status">
        <Show when={problem() ?? saving.problem()}>
          {(text) => <span class="bad-text">{text()}</span>}
        </Show>
        <Show when={verdict()}>
          {(found) => (
            <Show
              when={!found().ok}
              fallback={
                <span class="muted row">
                  <Mark name="done" quiet /> {found().rows} rows, the chain holds
                </span>
              }
            >
              <span class="bad-text row">
                <Mark name="fail" quiet /> {found().findings.length + found().more} found:{" "}
                {found().findings[0]?.text}
              </span>
            </Show>
          )}
        </Show>
      </span>
      <button class="btn" onClick={() => void ask()} aria-disabled={busy()}>
        {busy() ? "Verifying…" : "Verify"}
      </button>
      <button class="btn bare" onClick={() => void save()}>
        Export
      </button>
    </>
  );
}

/** By the first word a stage says. */
function stageMark(word: string): MarkName {
  if (/^(refused|denied|deny|veto)/.test(word)) return "stop";
  if (/^(failed|error|unknown|timed out|cancelled)/.test(word)) return "fail";
  return /^(asked|ask|waits)/.test(word) ? "wait" : "done";
}

const STAGE: Partial<Record<MarkName, string>> = {
  stop: "refused",
  fail: "failed",
  wait: "asked",
};

/** What the stages of the gate said; rows of other kinds have no such list. */
function stages(decision: unknown): { stage: string; word: string }[] {
  return Array.isArray(decision) ? decision : [];
}

function Row(props: { row: AuditInfo }) {
  const row = () => props.row;
  return (
    <details class="tool audit-row">
      <summary>
        <Icon name="chev" class="chev" />
        <Mark name={standing(row())} label={outcomeWords(row())} />
        <b>{row().tool ?? row().kind}</b>
        <span class="arg clip">{visible(sentence(row()))}</span>
        <span class="res">
          {row().agent ?? "the hive"} · {outcomeWords(row())} · {clock(row().at)}
        </span>
      </summary>
      <div class="body chain">
        <dl class="io">
          <dt>{row().kind === "call" ? "Input" : "Record"}</dt>
          <dd>{allArguments(row().arguments)}</dd>
        </dl>
        <ol class="trace">
          <For each={stages(row().decision)}>
            {(step) => (
              <li>
                <Mark name={stageMark(step.word)} label={STAGE[stageMark(step.word)] ?? "passed"} />
                <div>
                  {step.stage}
                  <p>{visible(step.word)}</p>
                </div>
              </li>
            )}
          </For>
        </ol>
        <p class="small faint">
          Row {row().id}, asked by {row().principal ?? "nobody"}, {span(row().took_ms)},{" "}
          {bytes(row().bytes)}, sha256 <code>{row().hash.slice(0, 12)}…</code>
          <Show when={row().session && row().agent}>
            {(agent) => (
              <>
                {" "}
                <a href={href(talkOf({ agent: agent(), session: row().session }))}>
                  Open conversation
                </a>
              </>
            )}
          </Show>
        </p>
      </div>
    </details>
  );
}
