// One thing that needs a person, with what can be done about it on the spot.

import { Show } from "solid-js";
import { post, url } from "../api/http";
import type { UnknownCall } from "../api/types";
import type { Need } from "../state/needs";
import type { Question } from "../state/questions";
import { left } from "../text/asks";
import { allArguments } from "../text/calls";
import { clock } from "../text/format";
import { Answer, Wants } from "./approvals/AskCard";
import { usePage } from "./context";
import { createAction } from "./hooks";
import { createUnknownCalls, Resolve } from "./log/UnknownCalls";
import { DangerTag, NeedItem, Problem } from "./parts";
import { isMessage, QuestionBody, Times } from "./Question";

export function NeedRow(props: { need: Need; now: number }) {
  return (
    <Show when={props.need.question} fallback={<DecisionRow {...props} />}>
      {(question) => (
        <NeedItem
          asks
          icon="ask"
          what={
            <>
              <b>{question().agent}</b> {asks(question())}
            </>
          }
          when={<Times question={question()} now={props.now} />}
        >
          <QuestionBody question={question()} />
        </NeedItem>
      )}
    </Show>
  );
}

function asks(question: Question): string {
  if (isMessage(question)) return "has written";
  return question.ended ? "asked" : "needs an answer";
}

/** An approval, or something that failed. */
function DecisionRow(props: { need: Need; now: number }) {
  const failed = (
    <>
      <b>{props.need.agent}</b> {props.need.what}
    </>
  );
  const what = (
    <Show when={props.need.approval} fallback={failed}>
      {(approval) => <Wants approval={approval()} />}
    </Show>
  );
  return (
    <NeedItem
      asks={props.need.approval !== undefined}
      what={what}
      tag={<DangerTag of={props.need.approval ?? {}} />}
      when={when(props.need, props.now)}
    >
      <Show when={props.need.approval} fallback={<Failure need={props.need} />}>
        {(approval) => (
          <Answer class="inline-cmd" approval={approval()} lasting />
        )}
      </Show>
    </NeedItem>
  );
}

function when(need: Need, now: number): string {
  if (need.approval) return `expires in ${left(need.approval.expires_at - now)}`;
  return need.at ? clock(need.at, now) : "";
}

function Failure(props: { need: Need }) {
  const { may } = usePage();
  return (
    <div class="inline-cmd">
      <blockquote>{props.need.why}</blockquote>
      <Show when={props.need.unknown}>{(call) => <Command of={call()} />}</Show>
      <Show when={props.need.open ?? props.need.item}>
        <div class="acts">
          <Show when={may("configure") && props.need.unknown}>
            {(call) => <Resolve call={call()} />}
          </Show>
          <Show when={props.need.item}>
            {(item) => (
              <Again item={item()} of={props.need.what} again={props.need.again === true} />
            )}
          </Show>
          <Show when={props.need.open}>
            {(open) => (
              <a class="btn bare" href={open()}>
                Open
              </a>
            )}
          </Show>
        </div>
      </Show>
    </div>
  );
}

function Command(props: { of: UnknownCall }) {
  const calls = createUnknownCalls();
  const found = () =>
    calls().find(({ turn, call_id }) => turn === props.of.turn && call_id === props.of.call_id);
  return (
    <Show when={found()}>
      {(call) => <code class="cmd wrap">{allArguments(call().arguments)}</code>}
    </Show>
  );
}

/** Sends the message of a failed turn again, or stops showing it here. */
function Again(props: { item: string; of: string; again: boolean }) {
  const { dismissed, hive, may } = usePage();
  const { busy, problem, run } = createAction();
  async function again(): Promise<void> {
    await post(url`/inbox/${props.item}/retry`, {});
    await hive.refresh();
  }
  return (
    <>
      <Show when={props.again && may("talk")}>
        <button
          class="btn"
          aria-label={`Try again: ${props.of}`}
          aria-disabled={busy()}
          onClick={() => void run(again, "Not sent: ")}
        >
          Try again
        </button>
      </Show>
      <button
        class="btn bare"
        aria-label={`Dismiss: ${props.of}`}
        onClick={() => dismissed.add(props.item)}
      >
        Dismiss
      </button>
      <Problem text={problem()} inline />
    </>
  );
}
