// A turn that failed, was cancelled, ended without words or is about to be tried again: a row of
// the conversation, and no message of it.

import { Match, Show, Switch } from "solid-js";
import { post, url } from "../api/http";
import type { Message, Receipt, TurnOutcome } from "../api/types";
import { href } from "../state/route";
import {
  isAboutProfile,
  outcomeDetails,
  outcomeTitle,
  retryWords,
  tryWords,
} from "../text/outcomes";
import { usePage } from "./context";
import { createAction, createClock } from "./hooks";
import { Icon, Mark } from "./marks";
import { Problem } from "./parts";

const NAMES: Record<TurnOutcome["state"], string> = {
  failed: "Failed turn",
  cancelled: "Cancelled turn",
  empty: "Empty answer",
  retrying: "Retrying turn",
};

export function OutcomeRow(props: {
  outcome: TurnOutcome;
  /** The newest message of the turn. */
  last: Message | undefined;
  /** It was sent again as this item. */
  retried: (item: string) => void;
}) {
  const { may } = usePage();
  const { busy, problem, run } = createAction();
  const state = () => props.outcome.state;
  const again = async (item: string) => {
    const receipt = await post<Receipt>(url`/inbox/${item}/retry`, {});
    props.retried(receipt.item_id);
  };
  const now = () => post<void>(url`/turns/${props.outcome.turn}/retry-now`, {});
  return (
    <section
      class="event"
      classList={{ bad: state() === "failed" }}
      role={state() === "retrying" ? "status" : undefined}
      aria-label={NAMES[state()]}
    >
      <Mark
        name={state() === "retrying" ? "queue" : state() === "cancelled" ? "stop" : "fail"}
        quiet
      />
      <div>
        <b>
          {outcomeTitle(props.outcome, props.last)}
          <Show when={props.outcome.retry}>{(retry) => <Next retry={retry()} />}</Show>
        </b>
        <p>{outcomeDetails(props.outcome, props.last)}</p>
        <Problem text={problem()} />
      </div>
      <div class="acts">
        <Show when={may("configure") && isAboutProfile(props.outcome)}>
          <a class="btn bare" href={href({ page: "models" })}>
            Models
          </a>
        </Show>
        <Switch>
          <Match when={may("talk") && props.outcome.retry}>
            <button class="btn bare" aria-disabled={busy()} onClick={() => void run(now)}>
              Try now
            </button>
          </Match>
          <Match when={props.outcome.retried_as}>
            <span class="small faint">Tried again</span>
          </Match>
          <Match when={may("talk") && props.outcome.item}>
            {(item) => (
              <button
                class="btn"
                aria-disabled={busy()}
                onClick={() => void run(() => again(item()), "Not sent: ")}
              >
                <Icon name="retry" />
                Try again
              </button>
            )}
          </Match>
        </Switch>
      </div>
    </section>
  );
}

/** Counts down beside the title; read out once, not every second. */
function Next(props: { retry: NonNullable<TurnOutcome["retry"]> }) {
  const now = createClock(1000);
  const tries = () => Array.from({ length: props.retry.of ?? 0 });
  return (
    <>
      , <span aria-hidden="true">{retryWords(props.retry, now())}</span>
      <span class="sr">{tryWords(props.retry)}</span>
      <span class="tries" aria-hidden="true">
        {tries().map((_, at) => (
          <i classList={{ f: at + 1 < (props.retry.try ?? 1) }} />
        ))}
      </span>
    </>
  );
}
