// Calls that were under way when the hive stopped: nobody knows whether they happened. A person
// looks and says it.

import { createResource, For, Show } from "solid-js";
import { get, post } from "../../api/http";
import type { Resolution, UnknownCall, UnknownCalls as Calls } from "../../api/types";
import { href } from "../../state/route";
import { allArguments } from "../../text/calls";
import { clock } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { createAction } from "../hooks";
import { Icon } from "../marks";
import { Problem, Section } from "../parts";

export function UnknownCalls() {
  const { decides, hive } = usePage();
  const known = () => hive.state.snapshot?.unknown_calls ?? [];
  const [whole] = createResource(
    () => known().map((call) => `${call.turn} ${call.call_id}`).join("\n") || undefined,
    () => get<Calls>("/calls/unknown"),
  );
  const calls = () => (whole.error || known().length === 0 ? [] : (whole.latest?.calls ?? []));
  return (
    <Show when={calls().length}>
      <Section
        id="unknown-h"
        class="unknown"
        title="Outcome unknown"
        beside={<span class="small faint">under way when the hive stopped; not repeated</span>}
      >
        <ul class="needs">
          <For each={calls()}>
            {(call) => (
              <li class="fail">
                <Icon name="warn" />
                <div>
                  <div class="what">
                    <span>
                      <b>{call.agent}</b> does not know whether <code>{call.tool}</code> happened
                    </span>
                    <span class="when">{clock(call.at)}</span>
                  </div>
                  <code class="cmd wrap">{visible(allArguments(call.arguments))}</code>
                  <div class="acts">
                    <Show when={decides}>
                      <Resolve call={call} />
                    </Show>
                    <a class="btn bare" href={href({ page: "log", tab: "audit", turn: call.turn })}>
                      What its turn did
                    </a>
                  </div>
                </div>
              </li>
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
    const [turn, call] = [props.call.turn, props.call.call_id].map(encodeURIComponent);
    await post(`/calls/unknown/${turn}/${call}`, { outcome });
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
