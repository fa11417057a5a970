// One thing that needs a person, with what can be done about it on the spot.

import { Show } from "solid-js";
import type { ApprovalInfo } from "../api/types";
import type { Choice } from "../state/approvals";
import type { Need } from "../state/needs";
import { href } from "../state/route";
import { isShort, left } from "../text/asks";
import { clock } from "../text/format";
import { lineCount, visible } from "../text/visible";
import { usePage } from "./context";
import { createAction } from "./hooks";
import { Resolve } from "./log/UnknownCalls";
import { Icon } from "./marks";
import { Problem } from "./parts";

export function NeedRow(props: { need: Need }) {
  return (
    <li class={props.need.kind === "approval" ? "ask" : "fail"}>
      <Icon name={props.need.kind === "approval" ? "approve" : "warn"} />
      <div>
        <div class="what">
          <span>
            <b>{props.need.agent}</b> {props.need.what}
          </span>
          <span class="when">{when(props.need)}</span>
        </div>
        <Show when={props.need.approval} fallback={<Failure need={props.need} />}>
          {(approval) => <Asked approval={approval()} />}
        </Show>
      </div>
    </li>
  );
}

function when(need: Need): string {
  if (need.approval) return `expires in ${left(need.approval.expires_at - Date.now())}`;
  return need.at ? clock(need.at) : "";
}

/** Decided here only where all of it is seen here. */
function Asked(props: { approval: ApprovalInfo }) {
  const { approvals } = usePage();
  const { problem, run } = createAction();
  const there = () => href({ page: "approvals", id: props.approval.id });
  const lines = () => lineCount(props.approval.shown);
  const decide = (decision: Choice["decision"]) =>
    run(() => approvals.decide(props.approval, { decision, scope: "once" }), "Not decided: ");
  return (
    <>
      <div class="inline-cmd">
        <Show
          when={isShort(props.approval)}
          fallback={
            <>
              <code class="cmd">{visible(props.approval.shown).split("\n", 1)[0]}</code>
              <span class="acts">
                <a class="btn" href={there()}>
                  Review, {lines()} {lines() === 1 ? "line" : "lines"}
                </a>
              </span>
            </>
          }
        >
          <code class="cmd wrap">{visible(props.approval.shown)}</code>
          <span class="acts">
            <Show
              when={props.approval.refused === undefined}
              fallback={<span class="small faint">{props.approval.refused}</span>}
            >
              <button class="btn" onClick={() => void decide("approve")}>
                Approve once
              </button>
              <button class="btn" onClick={() => void decide("deny")}>
                Deny
              </button>
            </Show>
            <a class="btn bare" href={there()}>
              Why
            </a>
          </span>
        </Show>
      </div>
      <Problem text={problem()} />
    </>
  );
}

function Failure(props: { need: Need }) {
  const { decides } = usePage();
  return (
    <div class="inline-cmd">
      <blockquote>{props.need.why}</blockquote>
      <Show when={decides && props.need.unknown}>
        {(call) => (
          <span class="acts">
            <Resolve call={call()} />
          </span>
        )}
      </Show>
      <Show when={props.need.open}>
        {(open) => (
          <span class="acts">
            <a class="btn" href={open()}>
              Open the talk
            </a>
          </span>
        )}
      </Show>
    </div>
  );
}
