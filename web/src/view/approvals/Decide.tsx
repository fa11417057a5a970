// The decision on one approval. It opens on Once; Always is never preselected and needs a preview.

import { createEffect, createResource, createSignal, For, on, Show } from "solid-js";
import { get, query, said } from "../../api/http";
import type { ApprovalInfo, Covered, Scope } from "../../api/types";
import { type Choice, when } from "../../state/approvals";
import { exact, refusal, SCOPE_WORDS, verdict, wish } from "../../text/asks";
import { clock, plural } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { createAction, isTyping, onKey } from "../hooks";
import { Mark } from "../marks";
import { Notice, Unavailable } from "../parts";
import { markOf } from "./Approvals";

/** A key pressed for the item before must not decide this one. */
const SETTLE = 400;

const HINT = "Enter a pattern to preview it.";

const SCOPES: [Scope, string, (approval: ApprovalInfo) => string][] = [
  ["once", "Once", () => "this call only"],
  ["session", "Conversation", () => "matching calls in this conversation"],
  ["always", "Always", (approval) => `adds a rule for ${approval.agent}`],
];

/** Of a call that is one command; of several each would need its own. */
function suggestions(approval: ApprovalInfo): string[] {
  const [first, ...more] = approval.commands;
  return more.length > 0 ? [] : (first?.patterns ?? []);
}

export function Decide(props: { approval: ApprovalInfo }) {
  const { approvals, decides } = usePage();
  const { problem, run } = createAction();
  const reopen = () => run(() => approvals.reopen(props.approval), "Reopening failed: ");
  return (
    <Show
      when={props.approval.state === "open"}
      fallback={
        <div class="decided">
          <Notice text={problem()} marked />
          <div class="row">
            <Mark name={markOf(props.approval)} label={props.approval.state} />
            <span class="grow">
              {verdict(props.approval, clock(when(props.approval)))}
            </span>
            <Show when={decides && props.approval.state === "expired"}>
              <button class="btn" onClick={() => void reopen()}>
                Reopen
              </button>
            </Show>
          </div>
        </div>
      }
    >
      <Show
        when={props.approval.refused === undefined}
        fallback={
          <div class="decided">
            <p class="muted">{refusal(props.approval)}</p>
          </div>
        }
      >
        <Form approval={props.approval} />
      </Show>
    </Show>
  );
}

function Form(props: { approval: ApprovalInfo }) {
  const { approvals, decides } = usePage();
  // What allows more than one call is for operators.
  const scopes = decides ? SCOPES : SCOPES.slice(0, 1);
  const [scope, setScope] = createSignal<Scope>("once");
  const [pattern, setPattern] = createSignal("");
  const [note, setNote] = createSignal("");
  const { busy, problem, run, forget } = createAction();
  let notes!: HTMLInputElement;
  let since = Date.now();
  createEffect(
    on(
      () => props.approval.id,
      () => {
        since = Date.now();
        setScope("once");
        setPattern(suggestions(props.approval)[0] ?? "");
        setNote("");
        forget();
      },
    ),
  );
  const wide = () => scope() !== "once";
  const [covered] = createResource(
    () => (wide() && pattern().trim() ? { id: props.approval.id, pattern: pattern() } : undefined),
    async ({ id, pattern }) => {
      const asked = query({ patterns: JSON.stringify([pattern]) });
      const found = await get<Covered>(`/approvals/${id}/covers${asked}`);
      return { pattern, found };
    },
  );
  /** Of exactly this pattern; anything else is no preview. */
  const preview = () => {
    const known = covered.error ? undefined : covered.latest;
    return known?.pattern === pattern() ? known.found : undefined;
  };
  const blocked = () => {
    if (!wide()) return undefined;
    if (covered.error) return said(covered.error);
    const found = preview();
    if (!found) return HINT;
    return found.covers ? undefined : `The pattern does not match this call: ${found.why}`;
  };

  async function decide(decision: Choice["decision"]): Promise<void> {
    if (decision === "approve" && blocked()) return;
    const choice: Choice = { decision, scope: decision === "deny" ? "once" : scope() };
    if (decision === "approve" && wide()) choice.patterns = [pattern().trim()];
    if (note().trim()) choice.note = note().trim();
    await run(() => approvals.decide(props.approval, choice), "Not decided: ");
  }

  onKey((event) => {
    if (isTyping(event) || event.repeat || Date.now() - since < SETTLE) return;
    const chosen = scopes[Number(event.key) - 1];
    if (chosen) setScope(chosen[0]);
    else if (event.key === "y") void decide("approve");
    else if (event.key === "n") void decide("deny");
    else if (event.key === "e") {
      event.preventDefault();
      notes.focus();
    }
  });

  return (
    <form class="decide" aria-label="Decision" onSubmit={(event) => event.preventDefault()}>
      <Notice text={problem()} marked />
      <ScopeChoice approval={props.approval} scopes={scopes} scope={scope()} choose={setScope} />
      <div class="pattern" classList={{ "hide-s": !wide() }}>
        <Show
          when={wide()}
          fallback={
            <p class="small muted">
              Runs this call with exactly these arguments and files. Later calls need approval
              again.
            </p>
          }
        >
          <Pattern
            approval={props.approval}
            pattern={pattern()}
            write={setPattern}
            found={preview()}
            blocked={covered.loading ? undefined : blocked()}
          />
        </Show>
      </div>
      <input
        class="field"
        ref={notes}
        aria-label={`Note to ${props.approval.agent}`}
        placeholder={`Note to ${props.approval.agent} (sent if you deny)`}
        value={note()}
        onInput={(event) => setNote(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      <div class="acts">
        <button
          type="button"
          class="btn go"
          aria-disabled={busy() || Boolean(blocked())}
          onClick={() => void decide("approve")}
        >
          Approve {SCOPE_WORDS[scope()]}
          <kbd>y</kbd>
        </button>
        <button
          type="button"
          class="btn"
          aria-disabled={busy()}
          onClick={() => void decide("deny")}
        >
          Deny
          <kbd>n</kbd>
        </button>
        <Unavailable />
        <span class="grow hide-s" />
        <span class="small faint hide-s">
          Note <kbd>e</kbd> Conversation <kbd>o</kbd>
        </span>
      </div>
    </form>
  );
}

function ScopeChoice(props: {
  approval: ApprovalInfo;
  scopes: typeof SCOPES;
  scope: Scope;
  choose: (scope: Scope) => void;
}) {
  return (
    <fieldset class="scope">
      <legend class="sr">Scope</legend>
      <For each={props.scopes}>
        {([name, word, reach], at) => (
          <label>
            <input
              type="radio"
              name="scope"
              checked={props.scope === name}
              onChange={() => props.choose(name)}
            />
            <b>{word}</b>
            <span class="tag clip">{reach(props.approval)}</span>
            <kbd>{at() + 1}</kbd>
          </label>
        )}
      </For>
    </fieldset>
  );
}

function Pattern(props: {
  approval: ApprovalInfo;
  pattern: string;
  write: (pattern: string) => void;
  found: Covered | undefined;
  blocked: string | undefined;
}) {
  const { approvals } = usePage();
  const others = () =>
    approvals.state.open.filter(
      (one) => one.agent === props.approval.agent && one.id !== props.approval.id,
    );
  return (
    <>
      <div class="row small">
        <label for="pattern" class="grow muted">
          Pattern
        </label>
        <Show when={others().length > 0 ? props.found : undefined}>
          {(found) => (
            <span class="faint">
              matches {found().others.length} of {plural(others().length, "other waiting call")}
            </span>
          )}
        </Show>
      </div>
      <textarea
        class="field mono"
        id="pattern"
        rows="1"
        spellcheck={false}
        value={props.pattern}
        onInput={(event) => props.write(event.currentTarget.value)}
      />
      <Show when={suggestions(props.approval).length > 1}>
        <div class="row suggestions">
          <For each={suggestions(props.approval)}>
            {(one) => (
              <button type="button" class="text-button" onClick={() => props.write(one)}>
                <code>{visible(one)}</code>
              </button>
            )}
          </For>
        </div>
      </Show>
      <Show when={props.blocked}>
        {(why) => (
          <p class="small" classList={{ "bad-text": why() !== HINT }} role="status">
            {visible(why())}
          </p>
        )}
      </Show>
      <Show when={props.found}>
        {(found) => (
          <ul class="match" aria-label="Preview on waiting calls">
            <Preview approval={props.approval} covered={found().covers} note="this call" />
            <For each={others()}>
              {(one) => {
                const covered = () => found().others.some((other) => other.id === one.id);
                return (
                  <Preview
                    approval={one}
                    covered={covered()}
                    note={covered() ? "waiting too" : "no match"}
                  />
                );
              }}
            </For>
          </ul>
        )}
      </Show>
    </>
  );
}

function Preview(props: { approval: ApprovalInfo; covered: boolean; note: string }) {
  return (
    <li classList={{ no: !props.covered }}>
      <Mark
        name={props.covered ? "done" : "idle"}
        label={props.covered ? "matches" : "no match"}
      />
      <code class="clip" title={exact(props.approval).text}>
        {exact(props.approval).text.split("\n", 1)[0] || wish(props.approval)}
      </code>
      <span class="faint">{props.note}</span>
    </li>
  );
}
