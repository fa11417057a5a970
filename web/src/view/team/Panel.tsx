// One agent beside the tree: what can be done with it, and what it does, is set to and is told.

import { createSignal, Match, Show, Switch } from "solid-js";
import { post, url } from "../../api/http";
import { href, talkOf, TEAM_TABS, type TeamTab } from "../../state/route";
import { teamStanding } from "../../state/team";
import { sentence } from "../../text/format";
import { inert } from "../../text/visible";
import { usePage } from "../context";
import { createAction } from "../hooks";
import { Icon } from "../marks";
import { Menu, MenuItem } from "../Menu";
import { Notice, Unavailable } from "../parts";
import { Now } from "./Now";
import { Prompt, Rules } from "./Prompt";
import { RemoveAgent } from "./RemoveAgent";
import { Settings } from "./Settings";
import { Skills } from "./Skills";
import { TeamMark } from "./Tree";

const NAMES: Record<TeamTab, string> = {
  now: "Now",
  settings: "Settings",
  rules: "Rules",
  prompt: "Prompt",
  skills: "Skills",
};

export function Panel(props: { name: string; tab: TeamTab; add: () => void }) {
  const { hive, live, may } = usePage();
  const agent = () => hive.agents().find((one) => one.name === props.name);
  const [removing, setRemoving] = createSignal(false);
  const [changed, setChanged] = createSignal(0);
  // What the files say is read again when they are in force, unless the agent is gone with them.
  const reread = () => void hive.refresh().then(() => setChanged(changed() + 1));
  live.on({ snapshot: reread, event: ({ type }) => type === "config" && reread() });
  const tabs = () => (may("read_settings") ? TEAM_TABS : TEAM_TABS.slice(0, 1));
  /** An address may name one that is not for whoever looks. */
  const tab = (): TeamTab => (may("read_settings") ? props.tab : "now");
  return (
    <aside class="panel" aria-labelledby="p-h">
      <header>
        <div class="row">
          <Show when={agent()}>
            {(agent) => <TeamMark of={teamStanding(hive.state, agent())} />}
          </Show>
          <h1 id="p-h" class="grow clip" title={props.name}>
            {inert(props.name)}
          </h1>
          <a class="btn bare sq" href={href({ page: "team", tab: "now" })} aria-label="Close">
            <Icon name="x" />
          </a>
        </div>
        <Show
          when={agent()}
          fallback={
            <Show when={hive.state.snapshot}>
              <p class="muted">There is no agent of this name.</p>
            </Show>
          }
        >
          {(agent) => (
            <>
              <p class="muted">
                {agent().description && sentence(inert(agent().description))}
                <Show when={agent().parent}>
                  {(parent) => (
                    <>
                      {" Reports to "}
                      <a href={href({ page: "team", agent: parent(), tab: "now" })}>{parent()}</a>.
                    </>
                  )}
                </Show>
              </p>
              <Acts
                name={props.name}
                status={agent().status}
                add={props.add}
                remove={() => setRemoving(true)}
              />
            </>
          )}
        </Show>
      </header>
      <Show when={agent()}>
        {(agent) => (
          <>
            <nav class="ptabs" aria-label={`About ${props.name}`}>
              {tabs().map((one) => (
                <a
                  href={href({ page: "team", agent: props.name, tab: one })}
                  aria-current={one === tab() ? "page" : undefined}
                >
                  {NAMES[one]}
                </a>
              ))}
            </nav>
            <Switch fallback={<Now agent={agent()} changed={changed()} />}>
              <Match when={tab() === "settings"}>
                <Settings name={props.name} changed={changed} />
              </Match>
              <Match when={tab() === "rules"}>
                <Rules name={props.name} changed={changed} />
              </Match>
              <Match when={tab() === "prompt"}>
                <Prompt name={props.name} changed={changed} />
              </Match>
              <Match when={tab() === "skills"}>
                <Skills name={props.name} changed={changed} />
              </Match>
            </Switch>
          </>
        )}
      </Show>
      <Show when={removing()}>
        <RemoveAgent name={props.name} close={() => setRemoving(false)} />
      </Show>
    </aside>
  );
}

type Life = "pause" | "stop" | "start" | "restart";

function Acts(props: { name: string; status: string; add: () => void; remove: () => void }) {
  const { hive, may } = usePage();
  const action = createAction();
  const live = (life: Life) =>
    void action.run(() =>
      post(url`/agents/${props.name}/life`, { action: life }).then(hive.refresh),
    );
  const isActive = () => props.status === "active";
  return (
    <>
      <div class="acts">
        <Show when={may("read_history")}>
          <a class="btn" href={href(talkOf({ agent: props.name }))}>
            <Icon name="chat" />
            Open
          </a>
        </Show>
        <Show when={may("configure")}>
          <Show when={isActive()}>
            <button class="btn" aria-disabled={action.busy()} onClick={() => live("pause")}>
              <Icon name="pause" />
              Pause
            </button>
          </Show>
          <Show when={props.status === "paused" || props.status === "stopped"}>
            <button class="btn" aria-disabled={action.busy()} onClick={() => live("start")}>
              <Icon name="send" class="start" />
              Start
            </button>
          </Show>
          <Show when={isActive() || props.status === "paused"}>
            <button class="btn stop" aria-disabled={action.busy()} onClick={() => live("stop")}>
              <Icon name="stop" />
              Stop
            </button>
          </Show>
          <Menu label={`More about ${props.name}`} icon="more">
            <Show when={isActive()}>
              <MenuItem icon="retry" words="Restart" act={() => live("restart")} />
            </Show>
            <MenuItem icon="plus" words="New agent below…" act={props.add} />
            <MenuItem icon="trash" words="Remove…" class="stop" act={props.remove} />
          </Menu>
        </Show>
        <Unavailable />
      </div>
      <Notice text={action.problem()} />
    </>
  );
}
