// What a model is told before the first message: all of it, part by part, and the rules among it
// with where each one comes from.

import { createSignal, For, type JSX, Show } from "solid-js";
import { query, url } from "../../api/http";
import type { ConfigProblem, GuidanceInfo, PromptInfo, PromptPartInfo } from "../../api/types";
import { plural } from "../../text/format";
import { promptSums, tierWords } from "../../text/prompt";
import { visible } from "../../text/visible";
import { Copy } from "../Copy";
import { createReading } from "../hooks";
import { Notice, Section, Select } from "../parts";

export const number = (value: number) => value.toLocaleString("en").replaceAll(",", "\u202f");

export function readPrompt(name: () => string, stale: () => unknown, subagent?: () => string) {
  return createReading<PromptInfo>(
    () => url`/agents/${name()}/prompt` + query({ subagent: subagent?.() || undefined }),
    stale,
  );
}

export function readGuidance(name: () => string, stale: () => unknown) {
  return createReading<GuidanceInfo>(() => url`/agents/${name()}/skills`, stale);
}

/** How many tokens each part has, in its order. */
export function Parts(props: { of: PromptInfo }) {
  const sums = () => promptSums(props.of.parts);
  const all = () => Math.max(1, props.of.tokens);
  return (
    <>
      <div class="meter shares" aria-hidden="true">
        <For each={sums()}>
          {({ tokens }) => <i style={{ width: `${(tokens / all()) * 100}%` }} />}
        </For>
      </div>
      <ul class="entries">
        <For each={sums()}>
          {({ title, tokens }) => (
            <li>
              <span class="clip">{visible(title)}</span>
              <span class="num muted">{number(tokens)}</span>
            </li>
          )}
        </For>
      </ul>
    </>
  );
}

export function Warnings(props: { of: ConfigProblem[] }) {
  return <For each={props.of}>{(one) => <p class="notice warn">{visible(one.text)}</p>}</For>;
}

function Part(props: { part: PromptPartInfo; beside?: JSX.Element }) {
  return (
    <details class="part">
      <summary>
        <span class="clip grow">{visible(props.part.title)}</span>
        {props.beside}
        <span class="num faint small">{number(props.part.tokens)}</span>
      </summary>
      <Show when={props.part.source}>
        {(source) => (
          <p class="small faint">
            <code>{visible(source())}</code>, {number(props.part.bytes)} bytes
          </p>
        )}
      </Show>
      <pre class="cmd wrap" tabindex="0">
        {visible(props.part.text)}
      </pre>
    </details>
  );
}

export function Prompt(props: { name: string; changed: () => number }) {
  const [chosen, setChosen] = createSignal("");
  const skills = readGuidance(() => props.name, props.changed);
  const subagents = () => skills.latest?.subagents.map(({ name }) => name) ?? [];
  // A file that goes leaves the choice without its subagent.
  const subagent = () => (subagents().includes(chosen()) ? chosen() : "");
  const prompt = readPrompt(() => props.name, props.changed, subagent);
  const whole = () => prompt.latest?.parts.map(({ text }) => text).join("\n\n") ?? "";
  return (
    <>
      <Notice text={prompt.error} />
      <Show when={subagents().length}>
        <Select
          spoken="Whose prompt"
          of={subagents()}
          all={props.name}
          words={(one) => `Subagent ${one}`}
          chosen={subagent()}
          choose={setChosen}
        />
      </Show>
      <Show when={prompt.latest}>
        {(prompt) => (
          <Section
            id="exact-h"
            title="Exact prompt"
            beside={
              <>
                <span class="small faint">
                  {number(prompt().tokens)} tokens
                  {prompt().window ? ` of ${number(prompt().window!)}` : ""}
                </span>
                <Copy label="Copy the prompt" words="Copy" text={whole} />
              </>
            }
          >
            <p class="small faint">
              What {visible(prompt().model)} is told before the first message, in this order. Token
              counts are estimates.
            </p>
            <Warnings of={prompt().warnings} />
            <div class="parts-list">
              <For each={prompt().parts}>{(part) => <Part part={part} />}</For>
            </div>
          </Section>
        )}
      </Show>
    </>
  );
}

export function Rules(props: { name: string; changed: () => number }) {
  const prompt = readPrompt(() => props.name, props.changed);
  const rules = () => prompt.latest?.parts.filter(({ tier }) => tier != null) ?? [];
  const sum = () => rules().reduce((sum, { tokens }) => sum + tokens, 0);
  return (
    <>
      <Notice text={prompt.error} />
      <Show when={prompt.latest}>
        {(prompt) => (
          <Section
            id="rules-h"
            title="Rules"
            beside={
              <span class="small faint">
                {plural(rules().length, "file")}, {number(sum())} tokens
              </span>
            }
          >
            <p class="small faint">
              From general to specific. A later rule does not replace an earlier one with the same
              heading unless it says <code>[OVERRIDE]</code>.
            </p>
            <Warnings of={prompt().warnings} />
            <div class="parts-list">
              <For
                each={rules()}
                fallback={<p class="small faint">No rules other than Skep's own.</p>}
              >
                {(part) => (
                  <Part
                    part={part}
                    beside={<span class="tag">{tierWords(part)}</span>}
                  />
                )}
              </For>
            </div>
          </Section>
        )}
      </Show>
    </>
  );
}
