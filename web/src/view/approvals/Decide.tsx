// The decision on one approval. It opens on Once; Always is never preselected and needs a preview.

import { createEffect, createSignal, For, on, Show } from "solid-js";
import type { ApprovalInfo, Scope } from "../../api/types";
import { refusal, SCOPE_WORDS } from "../../text/asks";
import { usePage } from "../context";
import { createAction, isTyping, onKey, onLone } from "../hooks";
import { Mark } from "../marks";
import { Notice, Unavailable } from "../parts";
import { markOf } from "./Approvals";
import { Unread, Verdict } from "./AskCard";
import type { DecisionChoice } from "./choice";
import { Patterns } from "./Patterns";

const SCOPES: [Scope, string, (approval: ApprovalInfo) => string][] = [
  ["once", "Once", () => "this call only"],
  ["session", "Conversation", () => "matching calls in this conversation"],
  ["always", "Always", (approval) => `adds a rule for ${approval.agent}`],
];

interface Props {
  approval: ApprovalInfo;
  choice: DecisionChoice;
}

export function Decide(props: Props) {
  const { approvals, may } = usePage();
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
              <Verdict approval={props.approval} />
            </span>
            <Show when={may("approve") && props.approval.state === "expired"}>
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
        <Form {...props} />
      </Show>
    </Show>
  );
}

function Form(props: Props) {
  const { may } = usePage();
  // What allows more than one call is for operators.
  const scopes = may("approve") ? SCOPES : SCOPES.slice(0, 1);
  const { choice } = props;
  const [note, setNote] = createSignal("");
  let notes!: HTMLInputElement;
  createEffect(on(() => props.approval.id, () => setNote("")));

  onKey((event) => {
    if (isTyping(event) || event.repeat || choice.isEarly(Date.now())) return;
    const chosen = scopes[Number(event.key) - 1];
    if (chosen) choice.setScope(chosen[0]);
    else if (event.key === "e") {
      event.preventDefault();
      notes.focus();
    }
  });
  onLone({
    key(key, at) {
      if ((key !== "y" && key !== "n") || choice.isEarly(at)) return false;
      if (choice.reading.isRead()) void choice.decide(key === "y" ? "approve" : "deny", note());
      return true;
    },
  });

  return (
    <form class="decide" aria-label="Decision" onSubmit={(event) => event.preventDefault()}>
      <Notice text={choice.problem()} marked />
      <fieldset class="scope">
        <legend class="sr">Scope</legend>
        <For each={scopes}>
          {([name, word, reach], at) => (
            <label>
              <input
                type="radio"
                name="scope"
                checked={choice.scope() === name}
                onChange={() => choice.setScope(name)}
              />
              <b>{word}</b>
              <span class="tag clip">{reach(props.approval)}</span>
              <kbd>{at() + 1}</kbd>
            </label>
          )}
        </For>
      </fieldset>
      <div class="pattern" classList={{ "hide-s": !choice.lasts() }}>
        <Show
          when={choice.lasts()}
          fallback={
            <p class="small muted">
              Runs this call with exactly these arguments and files. Later calls need approval
              again.
            </p>
          }
        >
          <Patterns approval={props.approval} choice={choice} />
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
          aria-disabled={choice.still() || Boolean(choice.blocked())}
          onClick={() => choice.press("approve", note())}
        >
          Approve {SCOPE_WORDS[choice.scope()]}
          <kbd>y</kbd>
        </button>
        <button
          type="button"
          class="btn"
          aria-disabled={choice.still()}
          onClick={() => choice.press("deny", note())}
        >
          Deny
          <kbd>n</kbd>
        </button>
        <Unavailable />
        <Unread choice={choice} />
        <span class="grow hide-s" />
        <span class="small faint hide-s">
          Note <kbd>e</kbd> Conversation <kbd>o</kbd>
        </span>
      </div>
    </form>
  );
}
