// What a day and a turn may use, how much of it is used, and what calls under way hold of it.

import { For, Show } from "solid-js";
import type { BudgetInfo, BudgetPage, CapsInfo } from "../api/types";
import { count, money } from "../text/format";
import { usePage } from "./context";
import { createReading } from "./hooks";
import { Section } from "./parts";

export function Budgets() {
  const { hive } = usePage();
  const budgets = createReading<BudgetPage>(
    () => "/budgets",
    // Again with each call that was counted.
    () => hive.state.snapshot?.spend?.calls,
  );
  return (
    <Show when={budgets.latest}>
      {(page) => (
        <Section
          id="limits-h"
          class="gap-top"
          title="Budgets"
          beside={
            <span class="small faint">Reserved per call; the remainder is released</span>
          }
        >
          <Lines name="All agents, today" budget={page().hive} />
          <For each={page().agents}>
            {(agent) => (
              <>
                <Lines name={`${agent.agent}, today`} budget={agent} />
                <PerTurn name={`${agent.agent}, each turn`} caps={agent.per_turn} />
              </>
            )}
          </For>
          <PerTurn name="Any agent, each turn" caps={page().per_turn} />
          <Show when={isEmpty(page())}>
            <p class="muted small-pad">
              No limit is set. <code>limits.cost_per_day</code> in <code>skep.yaml</code> stops
              model calls for the rest of the day once they have cost that much.
            </p>
          </Show>
        </Section>
      )}
    </Show>
  );
}

function isEmpty(page: BudgetPage): boolean {
  const all = [page.hive.limits, page.per_turn];
  for (const agent of page.agents) all.push(agent.limits, agent.per_turn);
  return all.every((caps) => caps.cost == null && caps.tokens == null);
}

function Lines(props: { name: string; budget: BudgetInfo }) {
  return (
    <For each={["cost", "tokens"] as const}>
      {(of) => (
        <Show when={props.budget.limits[of] != null}>
          <Limit
            name={props.name}
            used={props.budget[of] + props.budget[`unsettled_${of}`]}
            unsettled={props.budget[`unsettled_${of}`]}
            held={props.budget[`held_${of}`]}
            most={props.budget.limits[of] ?? 0}
            words={of === "cost" ? money : tokenWords}
          />
        </Show>
      )}
    </For>
  );
}

const tokenWords = (value: number) => `${count(value)} tokens`;

function PerTurn(props: { name: string; caps: CapsInfo }) {
  const words = () => {
    const { cost, tokens } = props.caps;
    const parts = [cost != null && money(cost), tokens != null && tokenWords(tokens)];
    return parts.filter(Boolean).join(", ");
  };
  return (
    <Show when={words()}>
      {(words) => (
        <div class="limit">
          <span>{props.name}</span>
          <span />
          <span class="num muted">at most {words()}</span>
        </div>
      )}
    </Show>
  );
}

function Limit(props: {
  name: string;
  used: number;
  /** Of that, what calls that broke off may have used. */
  unsettled: number;
  held: number;
  most: number;
  words: (value: number) => string;
}) {
  const share = (value: number) => (props.most > 0 ? (value / props.most) * 100 : 100);
  const used = () => Math.min(100, share(props.used));
  const held = () => Math.min(100 - used(), share(props.held));
  const words = () => {
    const taken = props.held > 0 ? `, ${props.words(props.held)} reserved` : "";
    const open = props.unsettled > 0 ? `, ${props.words(props.unsettled)} unsettled` : "";
    return `${props.words(props.used)} of ${props.words(props.most)}${open}${taken}`;
  };
  return (
    <div class="limit">
      <span>{props.name}</span>
      <div class="meter" role="img" aria-label={`${props.name}: ${words()}`}>
        <i classList={{ full: used() >= 100 }} style={{ width: `${used()}%` }} />
        <i class="newest" style={{ width: `${held()}%` }} />
      </div>
      <span class="num muted">{words()}</span>
    </div>
  );
}
