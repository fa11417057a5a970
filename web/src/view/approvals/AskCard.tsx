// An approval away from its own page: decided on the spot when all of it can be read there.

import { createEffect, For, on, Show } from "solid-js";
import type { ApprovalInfo, Message, Scope } from "../../api/types";
import { when } from "../../state/approvals";
import { href } from "../../state/route";
import {
  allowed,
  exact,
  hostOf,
  isShort,
  left,
  refusal,
  SCOPE_WORDS,
  STANDINGS,
  verdict,
  wish,
} from "../../text/asks";
import { clock, plural } from "../../text/format";
import { lineCount, visible } from "../../text/visible";
import { usePage } from "../context";
import { onKey, onLone } from "../hooks";
import { Mark } from "../marks";
import { DangerTag, Problem, Unavailable } from "../parts";
import { markOf } from "./Approvals";
import { createChoice, type DecisionChoice } from "./choice";
import { Patterns } from "./Patterns";

/** `main wants to run rm -rf build` */
export function Wants(props: { approval: ApprovalInfo; past?: boolean }) {
  const parts = () => wish(props.approval);
  return (
    <>
      <b>{props.approval.agent}</b>
      {props.past ? ": " : " wants to "}
      {parts().verb} <Show when={parts().about}>{(about) => <code>{about()}</code>}</Show>
    </>
  );
}

/** Whom the call connects to, as it is dialled: no letters that only look alike. */
export function HostLine(props: { approval: ApprovalInfo }) {
  return (
    <Show when={hostOf(props.approval)}>
      {(host) => (
        <p class="path">
          Connects to <code>{visible(host().host)}</code>, port {host().port},{" "}
          <b>{STANDINGS[host().standing]}</b>: <code class="cmd wrap">{visible(host().url)}</code>
        </p>
      )}
    </Show>
  );
}

/** In its conversation. */
export function AskCard(props: { approval: ApprovalInfo; keys: boolean }) {
  return (
    <section class="ask-card" aria-label={`Approval for ${props.approval.agent}`}>
      <div class="row">
        <Mark name="wait" quiet />
        <span class="grow clip">
          <Wants approval={props.approval} />
        </span>
        <DangerTag of={props.approval} />
        <span class="when hide-s">
          {left(Math.max(0, Date.now() - props.approval.asked_at))} ago
        </span>
      </div>
      <Answer class="answer" approval={props.approval} keys={props.keys} lasting />
    </section>
  );
}

/** In its conversation, below the calls of a message: what was decided about them. */
export function Decisions(props: { message: Message }) {
  const { approvals } = usePage();
  const decided = () =>
    props.message.content.flatMap((block) =>
      block.type === "toolCall" ? (approvals.decidedOn(props.message.turn, block.id) ?? []) : [],
    );
  return (
    <For each={decided()}>
      {(approval) => (
        <div class="event" role="note">
          <Mark name={markOf(approval)} label={approval.state} />
          <p>
            <Verdict approval={approval} />
          </p>
        </div>
      )}
    </For>
  );
}

/** What was decided, by whom, and what it allows from then on. */
export function Verdict(props: { approval: ApprovalInfo }) {
  return (
    <>
      {verdict(props.approval, clock(when(props.approval)))}
      <For each={allowed(props.approval)}>
        {(pattern, at) => (
          <>
            {at() ? " and " : "; allows "}
            <code>{visible(pattern)}</code>
          </>
        )}
      </For>
    </>
  );
}

interface Props {
  class: string;
  approval: ApprovalInfo;
  /** y, s, a and n decide this one; a page has at most one with them. */
  keys?: boolean;
  /** Offers Conversation and Always too. */
  lasting?: boolean;
}

export function Answer(props: Props) {
  const { may } = usePage();
  const choice = createChoice(() => props.approval);
  const there = () => href({ page: "approvals", id: props.approval.id });
  const shown = () => exact(props.approval);
  const mayAnswer = () => props.approval.refused === undefined;
  // What allows more than one call is for operators.
  const mayLast = () =>
    may("approve") && props.lasting === true && !props.approval.once_only;
  onKey((event) => {
    if (event.key === "Escape" && choice.lasts()) choice.setScope("once");
  });
  createEffect(on(() => props.keys, choice.settle));
  onLone({
    key(key, at) {
      if (!mayAnswer() || !props.keys || !isShort(props.approval)) return false;
      if (!(mayLast() ? "ynsa" : "yn").includes(key) || choice.isEarly(at)) return false;
      if (!choice.reading.isRead()) return true;
      if (key === "y") void choice.decide("approve");
      else if (key === "n" && !choice.lasts()) void choice.decide("deny");
      else if (key === "s") choice.setScope("session");
      else if (key === "a") choice.setScope("always");
      return true;
    },
  });
  return (
    <>
      <div class={props.class}>
        <Show
          when={isShort(props.approval)}
          fallback={
            <>
              <code class="cmd">{visible(props.approval.summary)}</code>
              <div class="acts">
                <a class="btn" href={there()}>
                  Review, {plural(lineCount(shown().text), "line")}
                </a>
              </div>
            </>
          }
        >
          <div class="grow" ref={choice.reading.place}>
            <HostLine approval={props.approval} />
            <code class="cmd wrap">{shown().text}</code>
            <Show when={shown().rest}>
              {(rest) => <code class="cmd wrap more-args">{rest()}</code>}
            </Show>
          </div>
          <Show when={choice.lasts()}>
            <div class="pattern">
              <Patterns approval={props.approval} choice={choice} />
            </div>
          </Show>
          <div class="acts">
            <Show
              when={mayAnswer()}
              fallback={<span class="small faint">{refusal(props.approval)}</span>}
            >
              <Buttons choice={choice} keys={props.keys === true} lasting={mayLast()} />
            </Show>
            <Unavailable />
            <Unread choice={choice} />
            <a class="btn bare" href={there()}>
              Details
            </a>
          </div>
        </Show>
      </div>
      <Problem text={choice.problem()} />
    </>
  );
}

/** Why a key did nothing. */
export function Unread(props: { choice: DecisionChoice }) {
  return (
    <Show when={props.choice.reading.unread()}>
      <span class="small muted" role="status">
        Read the whole command, then press the key again.
      </span>
    </Show>
  );
}

const LASTING: [Scope, string, string][] = [
  ["session", "Conversation…", "s"],
  ["always", "Always…", "a"],
];

function Buttons(props: { choice: DecisionChoice; keys: boolean; lasting: boolean }) {
  const key = (name: string) => (
    <Show when={props.keys}>
      <kbd>{name}</kbd>
    </Show>
  );
  let approve!: HTMLButtonElement;
  return (
    <>
      <button
        class="btn"
        classList={{ go: props.keys }}
        ref={approve}
        aria-disabled={props.choice.still() || Boolean(props.choice.blocked())}
        onClick={() => props.choice.press("approve")}
      >
        Approve {SCOPE_WORDS[props.choice.scope()]}
        {key("y")}
      </button>
      <Show
        when={!props.choice.lasts()}
        fallback={
          <button class="btn" onClick={() => props.choice.setScope("once")}>
            Back
            {key("Esc")}
          </button>
        }
      >
        <For each={props.lasting ? LASTING : []}>
          {([scope, words, name]) => (
            <button
              class="btn"
              onClick={() => {
                props.choice.setScope(scope);
                approve.focus();
              }}
            >
              {words}
              {key(name)}
            </button>
          )}
        </For>
        <button
          class="btn stop"
          aria-disabled={props.choice.still()}
          onClick={() => props.choice.press("deny")}
        >
          Deny
          {key("n")}
        </button>
      </Show>
    </>
  );
}
