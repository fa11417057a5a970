// What an agent asks or tells the operator, with the answer on the spot.

import { createEffect, createSignal, For, on, Show } from "solid-js";
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

/** Nobody waits for a reply. */
export const isMessage = (question: Question) => question.kind === "message";

/** `asked 3 min ago, expires in 23 h 57 min`; once ended, when it was asked. */
export function Times(props: { question: Question; now: number }) {
  const word = () => (isMessage(props.question) ? "written" : "asked");
  const ago = () => `${word()} ${left(Math.max(0, props.now - props.question.created_at))} ago`;
  const until = () => (props.question.ended ? undefined : (props.question.until ?? undefined));
  return (
    <Show when={until()} fallback={ago()}>
      {(until) => (
        <>
          <span class="hide-s">{ago()}, </span>
          expires in {left(Math.max(0, until() - props.now))}
        </>
      )}
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
  const label = () =>
    `${isMessage(props.question) ? "Message" : "Question"} of ${props.question.agent}`;
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
  const [chosen, choose] = createSignal<string[]>([]);
  const blank = () => text().trim() === "" && chosen().length === 0;
  const word = () => (isMessage(props.question) ? "Reply" : "Answer");
  let field!: HTMLTextAreaElement;
  createEffect(on(text, (text) => field.value !== text && (field.value = text)));
  function send(): void {
    if (blank()) return field.focus();
    const answer = text().trim() || null;
    const given = { answer, options: chosen() };
    void run(() => questions.answer(props.question.id, given), "Not sent: ");
  }
  function putAway(): void {
    void run(() => questions.putAway(props.question.id), "Not put away: ");
  }
  return (
    <form
      class="reply"
      aria-label={`${word()} to ${props.question.agent}`}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Options question={props.question} chosen={chosen()} choose={choose} />
      <textarea
        class="field"
        rows={1}
        ref={field}
        maxLength={LONGEST}
        aria-label={`${word()} to ${props.question.agent}`}
        placeholder={`${word()} to ${props.question.agent}`}
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
          {word()}
        </button>
        <Show when={isMessage(props.question)}>
          <button class="btn bare" type="button" aria-disabled={busy()} onClick={putAway}>
            Put away
          </button>
        </Show>
        <a class="btn bare" href={href(talkOf(props.question))}>
          Open
        </a>
      </div>
      <Problem text={problem()} />
    </form>
  );
}

/** What may be chosen, beside words of one's own. */
function Options(props: {
  question: Question;
  chosen: string[];
  choose: (options: string[]) => void;
}) {
  const { id, multi, options } = props.question;
  function change(option: string, on: boolean): void {
    const others = multi ? props.chosen.filter((one) => one !== option) : [];
    props.choose(on ? [...others, option] : others);
  }
  return (
    <Show when={options.length > 0}>
      <fieldset class="options">
        <legend class="small faint">{multi ? "Choose one or more" : "Choose one"}</legend>
        <For each={options}>
          {(option) => (
            <label>
              <input
                type={multi ? "checkbox" : "radio"}
                name={`options ${id}`}
                checked={props.chosen.includes(option)}
                onChange={(event) => change(option, event.currentTarget.checked)}
              />
              {visible(option)}
            </label>
          )}
        </For>
      </fieldset>
    </Show>
  );
}

function Ended(props: { question: Question }) {
  const { drafts, questions } = usePage();
  const words = () => {
    const { state, here } = props.question.ended ?? {};
    if (state === "answered") return here ? "Answered by you." : "Answered elsewhere.";
    if (isMessage(props.question)) return "Put away elsewhere.";
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
