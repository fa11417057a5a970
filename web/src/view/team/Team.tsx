// The agents of the hive: who is there, what each one does, and one of them in detail.

import { createMemo, createSignal, Show } from "solid-js";
import type { RunningTurn } from "../../state/hive";
import type { TeamRoute } from "../../state/route";
import { among, type TeamStanding, teamStanding } from "../../state/team";
import { plural } from "../../text/format";
import { usePage } from "../context";
import { Icon } from "../marks";
import { NewAgent } from "./NewAgent";
import { NewTeam } from "./NewTeam";
import { Panel } from "./Panel";
import { LEGEND, TeamMark, Tree } from "./Tree";

/** With more agents than this there is a field to find one. */
const MANY = 12;

export function Team(props: { route: TeamRoute }) {
  const { hive, may } = usePage();
  const [wanted, setWanted] = createSignal("");
  /** What is to be made, and the agent that it is to be below, or nobody. */
  const [making, setMaking] = createSignal<{
    what: "agent" | "team";
    parent: string | undefined;
  }>();
  const agents = () => hive.agents();
  const shown = createMemo(() => among([...agents()], wanted()));
  const counts = createMemo(() => {
    const counted = new Map<TeamStanding, number>();
    // Each turn is looked at once, not once for each of a thousand agents.
    const turnsOf = new Map<string, Record<string, RunningTurn>>();
    for (const turn of hive.turns()) {
      turnsOf.set(turn.agent, { ...turnsOf.get(turn.agent), [turn.turn]: turn });
    }
    const { recent } = hive.state;
    for (const agent of agents()) {
      const standing = teamStanding({ turns: turnsOf.get(agent.name) ?? {}, recent }, agent);
      counted.set(standing, (counted.get(standing) ?? 0) + 1);
    }
    return counted;
  });
  const text = () => {
    if (!hive.state.snapshot) return "";
    const busy = (["running", "waiting", "retrying", "failed"] as const).flatMap((one) => {
      const number = counts().get(one);
      return number ? [`${number} ${one}`] : [];
    });
    return `${plural(agents().length, "agent")}: ${busy.join(", ") || "none running"}`;
  };
  let canvas!: HTMLElement;
  return (
    <div class="team" classList={{ beside: props.route.agent !== undefined }}>
      <section class="canvas" aria-labelledby="team-h" ref={canvas}>
        <header class="head">
          <div class="grow">
            <h1 id="team-h">Team</h1>
            <p>{text()}</p>
          </div>
          <Show when={may("configure")}>
            <button class="btn" onClick={() => setMaking({ what: "agent", parent: undefined })}>
              <Icon name="plus" />
              New agent
            </button>
          </Show>
        </header>
        <div class="legend">
          {LEGEND.map(([one, words]) => (
            <span>
              <TeamMark of={one} quiet />
              {words}
            </span>
          ))}
          <Show when={agents().length > MANY}>
            <input
              class="field"
              type="search"
              aria-label="Find agent"
              placeholder="Find agent"
              value={wanted()}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
          </Show>
        </div>
        <Show when={wanted().trim() && shown().length === 0}>
          <p class="faint small" role="status">
            No agent has this in its name or description.
          </p>
        </Show>
        <Tree
          agents={shown()}
          chosen={props.route.agent}
          tab={props.route.tab}
          canvas={() => canvas}
        />
      </section>
      <Show when={props.route.agent} keyed>
        {(name) => (
          <Panel
            name={name}
            tab={props.route.tab}
            add={() => setMaking({ what: "agent", parent: name })}
          />
        )}
      </Show>
      <Show when={making()} keyed>
        {({ what, parent }) => (
          <Show
            when={what === "agent"}
            fallback={<NewTeam parent={parent} close={() => setMaking(undefined)} />}
          >
            <NewAgent
              parent={parent}
              template={() => setMaking({ what: "team", parent })}
              close={() => setMaking(undefined)}
            />
          </Show>
        )}
      </Show>
    </div>
  );
}
