// What a lasting approval allows: one pattern for each command, and what they match now.

import { For, Show } from "solid-js";
import type { ApprovalInfo, CallPart } from "../../api/types";
import { plural } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { Mark } from "../marks";
import type { DecisionChoice } from "./choice";

interface Props {
  approval: ApprovalInfo;
  choice: DecisionChoice;
}

export function Patterns(props: Props) {
  const commands = () => props.approval.commands;
  const rules = () => plural(new Set(props.choice.patterns()).size || 1, "rule");
  const label = () => {
    if (commands().length > 0) return commands().length > 1 ? "One pattern per command" : "Pattern";
    const { tool } = props.approval;
    const allows = props.choice.preview()?.allows;
    return allows && `Allows ${allows.map(visible).join(" and ") || `every call of ${tool}`}`;
  };
  const reach = () =>
    props.choice.scope() === "always"
      ? `Adds ${rules()} for ${props.approval.agent}`
      : "In this conversation only";
  return (
    <>
      <div class="row small">
        <Show when={label()}>
          {(words) => (
            <span class="grow muted">
              {words()}. {reach()}
            </span>
          )}
        </Show>
        <Show when={props.choice.preview()?.last}>
          {(last) => (
            <span class="faint">
              {last().calls > 1
                ? `matches ${last().covered} of the last ${last().calls} calls`
                : ""}
            </span>
          )}
        </Show>
      </div>
      <For each={commands()}>
        {(part, at) => (
          <PatternField
            part={part}
            name={commands().length > 1 ? `Pattern for ${visible(part.text)}` : "Pattern"}
            pattern={props.choice.patterns()[at()] ?? ""}
            write={(text) => props.choice.write(at(), text)}
          />
        )}
      </For>
      <Show when={props.choice.blocked()}>
        {(blocked) => (
          <p class="small" classList={{ "bad-text": blocked().bad }} role="status">
            {visible(blocked().why)}
          </p>
        )}
      </Show>
      <Others {...props} />
    </>
  );
}

function PatternField(props: {
  part: CallPart;
  name: string;
  pattern: string;
  write: (pattern: string) => void;
}) {
  return (
    <div class="one-pattern">
      <textarea
        class="field mono"
        rows="1"
        spellcheck={false}
        aria-label={props.name}
        placeholder={visible(props.part.text)}
        value={props.pattern}
        onInput={(event) => props.write(event.currentTarget.value)}
      />
      <div class="row suggestions">
        <For each={props.part.patterns.filter((one) => one !== props.pattern)}>
          {(one) => (
            <button type="button" class="text-button" onClick={() => props.write(one)}>
              <code>{visible(one)}</code>
            </button>
          )}
        </For>
      </div>
    </div>
  );
}

/** Whether other waiting calls of the agent, or of the conversation, are approved with it. */
function Others(props: Props) {
  const { approvals } = usePage();
  const others = () =>
    approvals.state.open.filter(
      (one) =>
        one.agent === props.approval.agent &&
        (props.choice.scope() === "always" || one.session === props.approval.session) &&
        one.id !== props.approval.id,
    );
  return (
    <Show when={props.choice.preview()}>
      {(found) => (
        <ul class="match" aria-label="Preview on waiting calls">
          <Preview approval={props.approval} matches={found().covers} note="this call" />
          <For each={others()}>
            {(one) => {
              const matches = () => found().others.some((other) => other.id === one.id);
              return (
                <Preview
                  approval={one}
                  matches={matches()}
                  note={matches() ? "waiting too" : "no match"}
                />
              );
            }}
          </For>
        </ul>
      )}
    </Show>
  );
}

function Preview(props: { approval: ApprovalInfo; matches: boolean; note: string }) {
  return (
    <li classList={{ no: !props.matches }}>
      <Mark
        name={props.matches ? "done" : "idle"}
        label={props.matches ? "matches" : "no match"}
      />
      <code class="clip">{visible(props.approval.summary)}</code>
      <span class="faint">{props.note}</span>
    </li>
  );
}
