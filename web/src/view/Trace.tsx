// Why a call is allowed, asked about or denied: each part of it, the rule that decided, and why
// the other rules did not.

import { For, Show } from "solid-js";
import type { Effect, Verdict } from "../api/types";
import { plural } from "../text/format";
import { visible } from "../text/visible";
import { Mark, type MarkName } from "./marks";

const MARKS: Record<Effect, MarkName> = { allow: "done", ask: "wait", deny: "stop" };
const WORDS: Record<Effect, string> = { allow: "allowed", ask: "approval needed", deny: "denied" };

export function Trace(props: { verdict: Verdict }) {
  return (
    <ol class="trace">
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
