// What needs a person, what runs, what it costs today.

import { createComputed, For, Show } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { post, url } from "../api/http";
import type { InboxItem, SpendInfo, UsagePage } from "../api/types";
import { messageOf, type RunningTurn } from "../state/hive";
import { createNames } from "../state/names";
import { isOpen, type Need, needs } from "../state/needs";
import { href, talkOf } from "../state/route";
import { shortKey } from "../state/self";
import { counts, retryOf, turnStanding } from "../state/standing";
import { clock, count, money, plural, span, title } from "../text/format";
import { pauseWords } from "../text/outcomes";
import { costOf, DAY, first, group, HOUR, spans, type Sum } from "../text/sums";
import { Bars } from "./Bars";
import { Coil } from "./Coil";
import { usePage } from "./context";
import { createClock, createHiveClock, createReading } from "./hooks";
import { Icon } from "./marks";
import { NeedRow } from "./NeedRow";
import { Empty, Find, PageBody, Section } from "./parts";
import { StandingMark } from "./Standing";

export function Home() {
  const { approvals, dismissed, hive, questions } = usePage();
  // Rows stay while their thing does: with the focus, and with what was begun in them.
  const [state, set] = createStore<{ list: Need[] }>({ list: [] });
  createComputed(() => {
    const now = needs(hive.state, approvals.state.open, questions.all(), dismissed.has);
    set("list", reconcile(now, { key: "id" }));
  });
  const list = () => state.list;
  const now = createClock(10_000);
  const failures = () => list().flatMap((need) => need.item ?? []);
  return (
    <PageBody
      title={headline(list().filter(isOpen).length)}
      text={sentence(hive)}
      beside={<Find words="Search conversations" />}
    >
      <div class="home">
        <Section
          id="needs-h"
          title="Needs attention"
          beside={
            <>
              <Show when={list().some((need) => need.approval)}>
                <span class="when hide-s">expiring soonest first</span>
              </Show>
              <Show when={failures().length > 1}>
                <button class="btn bare" onClick={() => dismissed.add(...failures())}>
                  Dismiss all {failures().length} failures
                </button>
              </Show>
            </>
          }
        >
          <Show when={list().length} fallback={<Nothing />}>
            <ul class="needs">
              <For each={list()}>{(need) => <NeedRow need={need} now={now()} />}</For>
            </ul>
          </Show>
          <Show when={questions.state.more}>
            <p class="faint small">Newer questions are listed when some of these are answered.</p>
          </Show>
        </Section>
        <div>
          <Running />
          <Spend />
        </div>
        <Results />
      </div>
    </PageBody>
  );
}

export function headline(number: number): string {
  return number === 0 ? "Nothing needs attention" : `Needs attention (${number})`;
}

function sentence(hive: ReturnType<typeof usePage>["hive"]): string {
  const snapshot = hive.state.snapshot;
  if (!snapshot) return "";
  const { running, waiting, retrying, queued } = counts(hive.turns(), snapshot);
  const again = retrying ? `${retrying} retrying, ` : "";
  const queue = `${plural(running, "turn")} running, ${waiting} waiting, ${again}${queued} queued.`;
  if (!snapshot.spend) return queue;
  const limit = snapshot.spend.limits.cost_per_day;
  const of = limit == null ? "" : `, limit ${money(limit)}`;
  return `${queue} Spent today: ${spent(snapshot.spend)}${of}.`;
}

/** What calls that broke off may have cost counts towards the limit, and is no known cost. */
function spent(spend: SpendInfo): string {
  const { unsettled_cost } = spend;
  const more = unsettled_cost > 0 ? ` + ${money(unsettled_cost)} unsettled` : "";
  return costToday(spend) + more;
}

const costToday = (spend: SpendInfo) =>
  costOf({ calls: spend.calls, cost: spend.known_cost, unpriced: spend.unpriced_calls });

function Nothing() {
  return (
    <Empty title="Nothing needs attention">
      <p>Approvals, questions, failures, unknown outcomes and broken settings appear here.</p>
      <p class="first-act">
        <a class="btn" href={href(talkOf({ agent: "main" }))}>
          Open main
        </a>
      </p>
    </Empty>
  );
}

function Running() {
  const { hive, live } = usePage();
  const now = createHiveClock(1000);
  const heading = () => {
    const standings = hive.turns().map(turnStanding);
    if (standings.length === 0 || standings.includes("running")) return "Running now";
    return standings.includes("waiting") ? "Waiting" : "Retrying";
  };
  return (
    <Section
      id="run-h"
      title={heading()}
      beside={<Show when={live.away()}>{(at) => <span>as of {clock(at())}</span>}</Show>}
    >
      <ul class="live" aria-live="off">
        <For each={hive.turns()} fallback={<li class="faint small">No turn is running.</li>}>
          {(turn) => <RunningTurnRow turn={turn} now={now()} />}
        </For>
      </ul>
    </Section>
  );
}

function RunningTurnRow(props: { turn: RunningTurn; now: number }) {
  const { hive } = usePage();
  const doing = () => {
    const { state, waiting_for } = props.turn;
    const retry = retryOf(props.turn, props.now);
    if (retry) return pauseWords(retry, props.now);
    if (state === "waiting") return `waiting: ${waiting_for ?? ""}`;
    const tool = props.turn.strip.findLast((step) => step.kind === "tool" && !step.until);
    return tool?.tool ?? "waiting for the model";
  };
  const words = () =>
    title(messageOf(props.turn, hive.state.recent)) || shortKey(props.turn.session_key);
  const stop = () => {
    const { agent, session_key } = props.turn;
    void post(url`/agents/${agent}/stop`, { session_key });
  };
  return (
    <li>
      <div class="row">
        <StandingMark of={turnStanding(props.turn)} />
        <a href={href(talkOf(props.turn))}>
          <b>{props.turn.agent}</b>
        </a>
        <span class="grow clip muted">{words()}</span>
        <button
          class="btn bare sq stop small-stop"
          aria-label={`Stop ${props.turn.agent}`}
          onClick={stop}
        >
          <Icon name="stop" />
        </button>
      </div>
      <Coil strip={props.turn.strip} now={props.now} />
      <div class="row now">
        <span class="grow">{doing()}</span>
        <span class="nowrap">
          {span(Math.max(0, props.now - props.turn.since))}
          {props.turn.steps ? ` · step ${props.turn.steps}` : ""}
        </span>
      </div>
    </li>
  );
}

function Spend() {
  const { hive } = usePage();
  return (
    <Show when={hive.state.snapshot?.spend}>
      {(spend) => (
        <Section
          id="spend-h"
          class="gap-top"
          title="Spend today"
          beside={<a href={href({ page: "usage", span: "today" })}>Usage</a>}
        >
          <div class="spend">
            <div class="row base">
              <span class="big">{costToday(spend())}</span>
              <span class="muted grow">
                {spend().limits.cost_per_day == null
                  ? "no limit set"
                  : `calls stop at the limit of ${money(spend().limits.cost_per_day)}`}
                <Show when={spend().unsettled_cost > 0}>
                  {`; ${money(spend().unsettled_cost)} more unsettled`}
                </Show>
              </span>
              <span class="small faint">{count(spend().tokens)} tokens</span>
            </div>
            <Hours calls={spend().calls} />
            <Show when={spend().unpriced_calls}>
              {(calls) => (
                <p class="small faint">
                  {plural(calls(), "model call")} without a known price, counted by tokens.
                </p>
              )}
            </Show>
          </div>
        </Section>
      )}
    </Show>
  );
}

/** Agents in the table of what the day has cost. */
const SHOWN = 4;

/** Spend by the hours of the day the limits count, and who spent it; read again with each call. */
function Hours(props: { calls: number }) {
  const usage = createReading<UsagePage>(() => "/usage?by=hour", () => props.calls);
  return (
    <Show when={usage.latest}>
      {(page) => (
        <>
          <HourBars page={page()} />
          <table class="tbl">
            <thead class="sr">
              <tr>
                <th>Agent</th>
                <th>Turns</th>
                <th>Tokens</th>
                <th>Cost</th>
              </tr>
            </thead>
            <tbody>
              <For each={first(group(page().rows, (row) => row.agent), SHOWN)}>
                {(sum) => (
                  <tr>
                    <td>{sum.name}</td>
                    <td class="num faint">{plural(sum.turns, "turn")}</td>
                    <td class="num faint">{count(sum.tokens)}</td>
                    <td class="num">{costOf(sum)}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </>
      )}
    </Show>
  );
}

/** Money where there is any, else tokens: local models cost nothing and work all the same. */
function HourBars(props: { page: UsagePage }) {
  const sums = () => spans(props.page.rows, props.page.since, props.page.since + DAY, HOUR);
  const paid = () => sums().some((sum) => sum.cost > 0);
  const amount = (sum: Sum) => (paid() ? sum.cost : sum.tokens);
  const words = (sum: Sum) => (paid() ? money(sum.cost) : `${count(sum.tokens)} tokens`);
  const highest = () => Math.max(...sums().map(amount));
  const at = (sum: Sum) => `${new Date(Number(sum.name)).toISOString().slice(11, 16)} UTC`;
  const label = () => {
    const top = sums().find((sum) => amount(sum) === highest());
    if (!top || highest() === 0) return "No usage today";
    return `${paid() ? "Spend" : "Tokens"} per hour, highest at ${at(top)} with ${words(top)}`;
  };
  const bar = (sum: Sum) => ({
    height: highest() > 0 ? amount(sum) / highest() : 0,
    now: Number(sum.name) + HOUR === props.page.until,
    title: `${at(sum)}: ${words(sum)}`,
  });
  const axis = ["00", "06", "12", "18", "24 UTC"];
  return <Bars bars={sums().map(bar)} label={label()} axis={axis} />;
}

function Results() {
  const { hive, live } = usePage();
  // What was said in a conversation that was deleted is gone.
  const isDone = (item: InboxItem) => item.state === "done" && item.preview.trim() !== "";
  const done = () => hive.state.recent.filter(isDone).slice(0, 8);
  const isThere = (agent: string) => hive.names().includes(agent);
  const nameOf = createNames(live, done, isThere);
  return (
    <Show when={done().length}>
      <Section id="res-h" class="gap-top whole" title="Recent results">
        <table class="tbl stack">
          <thead>
            <tr>
              <th>Message</th>
              <th>Agent</th>
              <th>Conversation</th>
              <th class="num">Took</th>
              <th class="num">When</th>
            </tr>
          </thead>
          <tbody>
            <For each={done()}>
              {(item) => (
                <tr>
                  <td class="full">
                    <Show when={isThere(item.agent)} fallback={title(item.preview, 90)}>
                      <a href={href(talkOf(item))}>{title(item.preview, 90)}</a>
                    </Show>
                  </td>
                  <td>{item.agent}</td>
                  <td class="muted hide-s">{nameOf(item)}</td>
                  <td class="num muted hide-s">
                    {item.finished_at ? span(item.finished_at - item.created_at) : ""}
                  </td>
                  <td class="num faint">{clock(item.created_at)}</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </Section>
    </Show>
  );
}
