// Calls that were under way when the hive stopped: nobody knows whether they happened. A person
// looks and says it.

import { createResource, createSignal, For, Show } from "solid-js";
import { get, post } from "../../api/http";
import type { Resolution, UnknownCall, UnknownCalls as Calls } from "../../api/types";
import { href } from "../../state/route";
import { allArguments } from "../../text/calls";
import { clock } from "../../text/format";
import { visible } from "../../text/visible";
import { said } from "../approvals/Decide";
import { usePage } from "../context";
import { Icon } from "../marks";
import { Problem } from "../Problem";

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
      <section class="unknown" aria-labelledby="unknown-h">
        <div class="sec">
          <h2 id="unknown-h">Outcome unknown</h2>
          <span class="small faint">under way when the hive stopped; not repeated</span>
        </div>
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
      </section>
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
  const [problem, setProblem] = createSignal<string>();
  async function choose(outcome: Resolution): Promise<void> {
    const [turn, call] = [props.call.turn, props.call.call_id].map(encodeURIComponent);
    try {
      await post(`/calls/unknown/${turn}/${call}`, { outcome });
      await hive.refresh();
    } catch (error) {
      setProblem(said(error));
    }
  }
  return (
    <>
      <For each={CHOICES}>
        {([outcome, words]) => (
          <button class="btn" onClick={() => void choose(outcome)}>
            {words}
          </button>
        )}
      </For>
      <Problem text={problem()} inline />
    </>
  );
}
