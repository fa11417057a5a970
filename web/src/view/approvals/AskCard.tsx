// An approval away from its own page: decided on the spot when all of it can be read there.

import { Show } from "solid-js";
import type { ApprovalInfo } from "../../api/types";
import type { Choice } from "../../state/approvals";
import { href } from "../../state/route";
import { exact, isShort, left, refusal, wish } from "../../text/asks";
import { plural } from "../../text/format";
import { lineCount } from "../../text/visible";
import { usePage } from "../context";
import { createAction, isTyping, onKey } from "../hooks";
import { Mark } from "../marks";
import { Problem, Unavailable } from "../parts";

/** In its conversation. */
export function AskCard(props: { approval: ApprovalInfo; keys: boolean }) {
  return (
    <section class="ask-card" aria-label={`Approval for ${props.approval.agent}`}>
      <div class="row">
        <Mark name="wait" quiet />
        <span class="grow">
          <b>{props.approval.agent}</b> wants to {wish(props.approval)}
        </span>
        <span class="when hide-s">
          {left(Math.max(0, Date.now() - props.approval.asked_at))} ago
        </span>
      </div>
      <Answer
        class="answer"
        approval={props.approval}
        keys={props.keys}
        more="Details"
      />
    </section>
  );
}

interface Props {
  class: string;
  approval: ApprovalInfo;
  /** y and n decide this one; a page has at most one with them. */
  keys?: boolean;
  /** Stands for what is too long. */
  brief?: string | undefined;
  /** The words of the link to its own page. */
  more: string;
}

export function Answer(props: Props) {
  const { approvals } = usePage();
  const { busy, problem, run } = createAction();
  const since = Date.now();
  const there = () => href({ page: "approvals", id: props.approval.id });
  const shown = () => exact(props.approval);
  const decides = () => props.approval.refused === undefined;
  const decide = (decision: Choice["decision"]) =>
    run(() => approvals.decide(props.approval, { decision, scope: "once" }), "Not decided: ");
  onKey((event) => {
    const early = event.repeat || Date.now() - since < 400;
    if (!decides() || !props.keys || !isShort(props.approval) || isTyping(event) || early) return;
    if (event.key === "y") void decide("approve");
    if (event.key === "n") void decide("deny");
  });
  return (
    <>
      <div class={props.class}>
        <Show
          when={isShort(props.approval)}
          fallback={
            <>
              <Show when={props.brief}>{(text) => <code class="cmd">{text()}</code>}</Show>
              <div class="acts">
                <a class="btn" href={there()}>
                  Review, {plural(lineCount(shown().text), "line")}
                </a>
              </div>
            </>
          }
        >
          <div class="grow">
            <code class="cmd wrap">{shown().text}</code>
            <Show when={shown().rest}>
              {(rest) => <code class="cmd wrap more-args">{rest()}</code>}
            </Show>
          </div>
          <div class="acts">
            <Show
              when={decides()}
              fallback={<span class="small faint">{refusal(props.approval)}</span>}
            >
              <button
                class="btn"
                classList={{ go: props.keys === true }}
                aria-disabled={busy()}
                onClick={() => void decide("approve")}
              >
                Approve once
                <Show when={props.keys}>
                  <kbd>y</kbd>
                </Show>
              </button>
              <button class="btn" aria-disabled={busy()} onClick={() => void decide("deny")}>
                Deny
                <Show when={props.keys}>
                  <kbd>n</kbd>
                </Show>
              </button>
            </Show>
            <Unavailable />
            <a class="btn bare" href={there()}>
              {props.more}
            </a>
          </div>
        </Show>
      </div>
      <Problem text={problem()} />
    </>
  );
}
