// The skills and subagents of an agent.

import { For, Show } from "solid-js";
import { bytes } from "../../text/format";
import { visible } from "../../text/visible";
import { Notice, Section } from "../parts";
import { readGuidance, Warnings } from "./Prompt";

export function Skills(props: { name: string; changed: () => number }) {
  const list = readGuidance(() => props.name, props.changed);
  const folder = () => `teams/${props.name}`;
  return (
    <>
      <Notice text={list.error} />
      <Show when={list.latest}>
        {(list) => (
          <>
            <Warnings of={list().warnings} />
            <Section id="skills-h" title="Skills">
              <ul class="described">
                <For each={list().skills}>
                  {(skill) => (
                    <li>
                      <div class="row">
                        <b class="grow clip">{visible(skill.name)}</b>
                        <span class="small faint">{bytes(skill.bytes)}</span>
                      </div>
                      <p>{visible(skill.description)}</p>
                      <p class="small faint">
                        <code>{visible(skill.file)}</code>
                      </p>
                      <Show when={skill.missing_tools.length}>
                        <p class="small bad-text">
                          Needs tools that the agent does not have:{" "}
                          {visible(skill.missing_tools.join(", "))}
                        </p>
                      </Show>
                    </li>
                  )}
                </For>
              </ul>
              <Show when={list().skills.length === 0}>
                <p class="small faint">
                  No skills. To add one, write <code>{folder()}/skills/NAME.md</code> or{" "}
                  <code>{folder()}/skills/NAME/SKILL.md</code>.
                </p>
              </Show>
            </Section>
            <Section id="subagents-h" title="Subagents">
              <ul class="described">
                <For each={list().subagents}>
                  {(one) => (
                    <li>
                      <b>{visible(one.name)}</b>
                      <p>{visible(one.description)}</p>
                      <p class="small faint">
                        <code>{visible(one.file)}</code>
                        <Show when={one.skills.length}>
                          {", skills: "}
                          {visible(one.skills.join(", "))}
                        </Show>
                      </p>
                    </li>
                  )}
                </For>
              </ul>
              <Show when={list().subagents.length === 0}>
                <p class="small faint">
                  No subagents. To add one, write{" "}
                  <code>{folder()}/subagents/NAME.md</code>.
                </p>
              </Show>
            </Section>
          </>
        )}
      </Show>
    </>
  );
}
