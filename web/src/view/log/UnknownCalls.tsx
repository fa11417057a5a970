// Calls that were under way when the hive stopped: nobody knows whether they happened. A person
// looks and says it.

import { createSignal, For, Show } from "solid-js";
import { post } from "../../api/http";
import type { UnknownCall } from "../../api/types";
import { href } from "../../state/route";
import { clock } from "../../text/format";
import { said } from "../approvals/Decide";
import { usePage } from "../context";
import { Icon } from "../marks";

export type Resolution = "happened" | "did_not" | "run_again";

export async function resolve(call: UnknownCall, outcome: Resolution): Promise<void> {
  const [turn, id] = [call.turn, call.call_id].map(encodeURIComponent);
  await post(`/calls/unknown/${turn}/${id}`, { outcome });
}

export function UnknownCalls() {
  const { hive } = usePage();
  const calls = () => hive.state.snapshot?.unknown_calls ?? [];
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
                  <div class="inline-cmd">
                    <blockquote>
                      Look at what it was to do.{" "}
                      <a href={href({ page: "log", tab: "audit", turn: call.turn })}>
                        What its turn did
                      </a>
                    </blockquote>
                    <Resolve call={call} />
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
    try {
      await resolve(props.call, outcome);
      await hive.refresh();
    } catch (error) {
      setProblem(said(error));
    }
  }
  return (
    <span class="acts">
      <Show when={problem()}>
        {(text) => (
          <span class="small bad-text" role="alert">
            {text()}
          </span>
        )}
      </Show>
      <For each={CHOICES}>
        {([outcome, words]) => (
          <button class="btn" onClick={() => void choose(outcome)}>
            {words}
          </button>
        )}
      </For>
    </span>
  );
}
