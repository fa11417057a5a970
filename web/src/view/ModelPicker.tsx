// Which model answers in this conversation and how long it thinks: what is in force, and another
// choice, which holds from the next turn on.

import { createEffect, createSignal, For, on, Show } from "solid-js";
import { post, url } from "../api/http";
import type { ProviderInfo, SessionInfo, Think } from "../api/types";
import { href } from "../state/route";
import type { Place } from "../state/talk";
import { inert } from "../text/visible";
import { usePage } from "./context";
import { createAction } from "./hooks";
import { Icon } from "./marks";
import { Menu } from "./Menu";
import { Problem, Radios } from "./parts";

type Level = Think | "default";
const LEVELS: [Level, string][] = [
  ["default", "Default"],
  ["off", "Off"],
  ["low", "Low"],
  ["medium", "Medium"],
  ["high", "High"],
];

export function ModelPicker(props: {
  place: Place;
  info: SessionInfo | undefined;
  listed: ProviderInfo[];
}) {
  const { may } = usePage();
  const action = createAction();
  /** Chosen here, and perhaps not in `info` yet. */
  const [chosen, setChosen] = createSignal<{ model?: string; think?: Level }>({});
  createEffect(on(() => [props.place, props.info], () => setChosen({})));
  const listed = () => props.listed;
  const own = () => listed().find((one) => one.agents.includes(props.place.agent))?.name;
  const model = () => chosen().model ?? props.info?.profile ?? own();
  const think = (): Level => chosen().think ?? props.info?.think ?? "default";
  const words = () => {
    const name = listed().find((one) => one.name === model())?.model ?? model() ?? "";
    return inert(think() === "default" ? name : `${name} · thinking ${think()}`);
  };
  function choose(command: "model" | "think", word: string): void {
    const { agent, key } = props.place;
    const message = `/${command} ${command === "model" && word === own() ? "default" : word}`;
    void action.run(async () => {
      await post(url`/agents/${agent}/messages`, { message, session_key: key });
      setChosen({ ...chosen(), [command]: word });
    });
  }
  return (
    <Show when={listed().length}>
      <Menu
        label={`Model and thinking: ${words()}`}
        class="up pick"
        summary={
          <>
            <span class="clip">{words()}</span>
            <Icon name="chev" />
          </>
        }
      >
        <h3>Model, from the next turn</h3>
        <For each={listed()}>
          {(one) => (
            <label>
              <input
                type="radio"
                name="model"
                checked={one.name === model()}
                onChange={() => choose("model", one.name)}
              />
              {inert(one.model)}
              <span class="faint small">{one.name}</span>
            </label>
          )}
        </For>
        <hr />
        <h3>Thinking</h3>
        <Radios
          label="Thinking"
          name="think"
          of={LEVELS}
          chosen={think()}
          choose={(level) => choose("think", level)}
        />
        <Problem text={action.problem()} />
        <Show when={may("configure")}>
          <hr />
          <a href={href({ page: "models" })}>Add a provider</a>
        </Show>
      </Menu>
    </Show>
  );
}
