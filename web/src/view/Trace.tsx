// Why a call is allowed, asked about or denied: each part of it, the rule that decided, and why
// the other rules did not.

import { For, Show } from "solid-js";
import type { Effect, HostListing, Verdict } from "../api/types";
import { STANDINGS } from "../text/asks";
import { plural } from "../text/format";
import { visible } from "../text/visible";
import { Mark, type MarkName } from "./marks";

const MARKS: Record<Effect, MarkName> = { allow: "done", ask: "wait", deny: "stop" };
const LISTINGS: Record<HostListing, MarkName> = {
  listed: "done",
  unlisted: "wait",
  denied: "stop",
};
const WORDS: Record<Effect, string> = { allow: "allowed", ask: "approval needed", deny: "denied" };

export function Trace(props: { verdict: Verdict }) {
  return (
    <ol class="trace">
      <Show when={props.verdict.host}>
        {(host) => (
          <li>
            <Mark name={LISTINGS[host().standing]} label={host().standing} />
            <div>
              <b>{STANDINGS[host().standing]}</b>: <code>{visible(host().host)}</code>
              <Show when={host().entry}>
                {(entry) => (
                  <p>
                    To list it: <code>network: {`{hosts: [${JSON.stringify(entry())}]}`}</code> in
                    the agent's config.yaml
                  </p>
                )}
              </Show>
              <Show when={host().denied_by}>
                {(entry) => (
                  <p>
                    by <code>{visible(entry())}</code> in network.deny
                  </p>
                )}
              </Show>
            </div>
          </li>
        )}
      </Show>
      <For
        each={props.verdict.parts}
        fallback={
          <li>
            <Mark name={MARKS[props.verdict.effect]} label={WORDS[props.verdict.effect]} />
            <div>
              <b>{WORDS[props.verdict.effect]}</b>
              <p>{visible(props.verdict.why)}</p>
            </div>
          </li>
        }
      >
        {(part) => (
          <li>
            <Mark name={MARKS[part.effect]} label={WORDS[part.effect]} />
            <div>
              <b>{WORDS[part.effect]}</b>: <code>{visible(part.part)}</code>
              <p>{visible(part.why)}</p>
              <Show when={part.who}>{(who) => <p>for {visible(who())}</p>}</Show>
              <Show when={part.rules.length}>
                <details class="looked">
                  <summary>
                    {plural(part.rules.length, "rule")} looked at
                    {part.untold ? `, and ${part.untold} more` : ""}
                  </summary>
                  <ul>
                    <For each={part.rules}>
                      {(rule) => (
                        <li>
                          <code>{visible(rule.rule)}</code> {visible(rule.place)}
                          <p>
                            {rule.matched ? "matches" : "does not match"}: {visible(rule.why)}
                          </p>
                        </li>
                      )}
                    </For>
                  </ul>
                </details>
              </Show>
            </div>
          </li>
        )}
      </For>
    </ol>
  );
}
