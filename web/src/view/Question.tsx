// What an agent asks the operator, with the answer on the spot.

import { createEffect, on, Show } from "solid-js";
import { draftOf, type Question } from "../state/questions";
import { href, talkOf } from "../state/route";
import { left } from "../text/asks";
import { visible } from "../text/visible";
import { usePage } from "./context";
import { createAction } from "./hooks";
import { Mark } from "./marks";
import { Problem } from "./parts";

/** Characters an answer may have. */
const LONGEST = 10_000;
/** More than this is scrolled in its own box. */
const LINES = 12;
const CHARACTERS = 1200;

/** `asked 3 min ago, expires in 23 h 57 min`; once ended, when it was asked. */
export function Times(props: { question: Question; now: number }) {
  const ago = () => `asked ${left(Math.max(0, props.now - props.question.created_at))} ago`;
  return (
    <Show when={!props.question.ended} fallback={ago()}>
      <span class="hide-s">{ago()}, </span>
      expires in {left(Math.max(0, props.question.until - props.now))}
    </Show>
  );
}

export function QuestionBody(props: { question: Question }) {
  const { may } = usePage();
  return (
    <div class="question">
      <Words question={props.question} />
      <Show when={!props.question.ended} fallback={<Ended question={props.question} />}>
        <Show
          when={may("approve")}
          fallback={<p class="small faint">Only operators can answer; you have view access.</p>}
        >
          <Reply question={props.question} />
        </Show>
      </Show>
    </div>
  );
}

function Words(props: { question: Question }) {
  const { text } = props.question;
  const long = text.length > CHARACTERS || text.split("\n").length > LINES;
  const label = () => `Question of ${props.question.agent}`;
  return (
    <Show when={long} fallback={<blockquote class="words">{visible(text)}</blockquote>}>
      <blockquote class="words long" tabindex="0" role="region" aria-label={label()}>
        {visible(text)}
      </blockquote>
    </Show>
  );
}

function Reply(props: { question: Question }) {
  const { drafts, questions } = usePage();
  const { busy, problem, run, forget } = createAction();
  const at = () => draftOf(props.question.id);
  const text = () => drafts.of(at()).text;
  const blank = () => text().trim() === "";
  let field!: HTMLTextAreaElement;
  createEffect(on(text, (text) => field.value !== text && (field.value = text)));
  function send(): void {
    if (blank()) field.focus();
    else void run(() => questions.answer(props.question.id, text().trim()), "Not sent: ");
  }
  return (
    <form
      class="reply"
      aria-label={`Answer ${props.question.agent}`}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        class="field"
        rows={1}
        ref={field}
        maxLength={LONGEST}
        aria-label={`Answer to ${props.question.agent}`}
        placeholder={`Answer to ${props.question.agent}`}
        onInput={(event) => {
          forget();
          drafts.change(at(), { text: event.currentTarget.value });
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="acts">
        <button class="btn" type="submit" aria-disabled={busy() || blank()}>
          Answer
        </button>
        <a class="btn bare" href={href(talkOf(props.question))}>
          Open
        </a>
      </div>
      <Problem text={problem()} />
    </form>
  );
}

function Ended(props: { question: Question }) {
  const { drafts, questions } = usePage();
  const words = () => {
    const { state, here } = props.question.ended ?? {};
    if (state === "answered") return here ? "Answered by you." : "Answered elsewhere.";
    return state === "expired"
      ? "It expired without an answer."
      : "Nobody waits for an answer any more.";
  };
  const unsent = () => drafts.of(draftOf(props.question.id)).text.trim();
  return (
    <>
      <p class="row small" role="status">
        <Mark name={props.question.ended?.state === "answered" ? "done" : "stop"} quiet />
        <span class="grow">
          {words()}
          <Show when={unsent()}> What you wrote was not sent:</Show>
        </span>
        <button class="btn bare" onClick={() => questions.forget(props.question.id)}>
          Dismiss
        </button>
      </p>
      <Show when={unsent()}>
        {(text) => <blockquote class="words unsent">{visible(text())}</blockquote>}
      </Show>
    </>
  );
}
