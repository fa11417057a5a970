// An approval where the talk is: decided here when all of it can be read here, else over there.

import { Show } from "solid-js";
import type { ApprovalInfo } from "../../api/types";
import type { Choice } from "../../state/approvals";
import { href } from "../../state/route";
import { isShort, left, wish } from "../../text/asks";
import { lineCount, visible } from "../../text/visible";
import { usePage } from "../context";
import { createAction, onKey } from "../hooks";
import { Mark } from "../marks";
import { Problem } from "../parts";
import { isTyping } from "./Approvals";

/** `keys`: y and n decide this one; a page has at most one card with them. */
export function AskCard(props: { approval: ApprovalInfo; keys: boolean }) {
  const { approvals } = usePage();
  const decides = () => props.approval.refused === undefined;
  const { busy, problem, run } = createAction();
  const since = Date.now();
  const there = () => href({ page: "approvals", id: props.approval.id });

  const decide = (decision: Choice["decision"]) =>
    run(() => approvals.decide(props.approval, { decision, scope: "once" }), "Not decided: ");
  onKey((event) => {
    const early = event.repeat || Date.now() - since < 400;
    if (!decides() || !props.keys || !isShort(props.approval) || isTyping(event) || early) return;
    if (event.key === "y") void decide("approve");
    if (event.key === "n") void decide("deny");
  });

  return (
    <section class="ask-card" aria-label={`Approval asked by ${props.approval.agent}`}>
      <div class="row">
        <Mark name="wait" quiet />
        <span class="grow">
          <b>{props.approval.agent}</b> wants to {wish(props.approval)}
        </span>
        <span class="when hide-s">
          {left(Math.max(0, Date.now() - props.approval.asked_at))} ago
        </span>
      </div>
      <Show
        when={isShort(props.approval)}
        fallback={
          <div class="acts">
            <a class="btn" href={there()}>
              Review, {lineCount(props.approval.shown)} lines
            </a>
          </div>
        }
      >
        <code class="cmd wrap">{visible(props.approval.shown)}</code>
        <div class="acts">
          <Show
            when={decides()}
            fallback={<span class="small faint">{props.approval.refused}</span>}
          >
            <button
              class="btn"
              classList={{ go: props.keys }}
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
          <a class="btn bare" href={there()}>
            Why, other choices
          </a>
        </div>
      </Show>
      <Problem text={problem()} />
    </section>
  );
}
