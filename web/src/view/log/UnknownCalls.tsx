// Calls that were under way when the hive stopped: nobody knows whether they happened. A person
// looks and says it.

import { createMemo, For, Show } from "solid-js";
import { post, url } from "../../api/http";
import type {
  Resolution,
  UnknownCall,
  UnknownCallInfo,
  UnknownCalls as Calls,
} from "../../api/types";
import { href } from "../../state/route";
import { allArguments } from "../../text/calls";
import { clock } from "../../text/format";
import { usePage } from "../context";
import { createAction, createReading } from "../hooks";
import { NeedItem, Problem, Section } from "../parts";

/** With what they were to do, for those who may read it. */
export function createUnknownCalls(): () => UnknownCallInfo[] {
  const { hive, may } = usePage();
  const known = () => hive.state.snapshot?.unknown_calls ?? [];
  const which = createMemo(() => known().map((call) => `${call.turn} ${call.call_id}`).join("\n"));
  const path = () => (which() && may("read_audit") ? "/calls/unknown" : undefined);
  const whole = createReading<Calls>(path, which);
  return () => (which() ? (whole.latest?.calls ?? []) : []);
}

export function UnknownCalls() {
  const { may } = usePage();
  const calls = createUnknownCalls();
  return (
    <Show when={calls().length}>
      <Section
        id="unknown-h"
        class="unknown"
        title="Outcome unknown"
        beside={<span class="small faint">running when the hive stopped; not repeated</span>}
      >
        <ul class="needs">
          <For each={calls()}>
            {(call) => (
              <NeedItem
                what={
                  <>
                    <b>{call.agent}</b> does not know the outcome of <code>{call.tool}</code>
                  </>
                }
                when={clock(call.at)}
              >
                <code class="cmd wrap">{allArguments(call.arguments)}</code>
                <div class="acts">
                  <Show when={may("configure")}>
                    <Resolve call={call} />
                  </Show>
                  <a class="btn bare" href={href({ page: "log", tab: "audit", turn: call.turn })}>
                    Tool calls of its turn
                  </a>
                </div>
              </NeedItem>
            )}
          </For>
        </ul>
      </Section>
    </Show>
  );
}

const CHOICES: [Resolution, string][] = [
  ["happened", "It happened"],
  ["did_not", "It did not"],
  ["run_again", "Run it again"],
];

export function Resolve(props: { call: UnknownCall }) {
  const { hive } = usePage();
  const { problem, run } = createAction();
  async function choose(outcome: Resolution): Promise<void> {
    await post(url`/calls/unknown/${props.call.turn}/${props.call.call_id}`, { outcome });
    await hive.refresh();
  }
  return (
    <>
      <For each={CHOICES}>
        {([outcome, words]) => (
          <button class="btn" onClick={() => void run(() => choose(outcome))}>
            {words}
          </button>
        )}
      </For>
      <Problem text={problem()} inline />
    </>
  );
}
