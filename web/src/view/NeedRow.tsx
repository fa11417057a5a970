// One thing that needs a person, with what can be done about it on the spot.

import { Show } from "solid-js";
import type { Need } from "../state/needs";
import { left } from "../text/asks";
import { clock } from "../text/format";
import { visible } from "../text/visible";
import { Answer } from "./approvals/AskCard";
import { usePage } from "./context";
import { Resolve } from "./log/UnknownCalls";
import { NeedItem } from "./parts";

export function NeedRow(props: { need: Need }) {
  const what = (
    <>
      <b>{props.need.agent}</b> {props.need.what}
    </>
  );
  return (
    <NeedItem asks={props.need.approval !== undefined} what={what} when={when(props.need)}>
      <Show when={props.need.approval} fallback={<Failure need={props.need} />}>
        {(approval) => (
          <Answer
            class="inline-cmd"
            approval={approval()}
            brief={visible(approval().shown).split("\n", 1)[0]}
            more="Why"
          />
        )}
      </Show>
    </NeedItem>
  );
}

function when(need: Need): string {
  if (need.approval) return `expires in ${left(need.approval.expires_at - Date.now())}`;
  return need.at ? clock(need.at) : "";
}

function Failure(props: { need: Need }) {
  const { decides } = usePage();
  return (
    <div class="inline-cmd">
      <blockquote>{props.need.why}</blockquote>
      <Show when={decides && props.need.unknown}>
        {(call) => (
          <div class="acts">
            <Resolve call={call()} />
          </div>
        )}
      </Show>
      <Show when={props.need.open}>
        {(open) => (
          <div class="acts">
            <a class="btn" href={open()}>
              Open
            </a>
          </div>
        )}
      </Show>
    </div>
  );
}
