// What models used: money, tokens, turns and what came from the cache, by time, agent and model.

import { createMemo, createResource, createSignal, For, Show } from "solid-js";
import { get, query, said } from "../api/http";
import type { UsageInfo, UsagePage } from "../api/types";
import { href, type UsageSpan } from "../state/route";
import { count, money } from "../text/format";
import { group, spans, type Sum, total } from "../text/sums";
import { Bars } from "./Bars";
import { Budgets } from "./Budgets";
import { usePage } from "./context";
import { Choose, Empty, Notice, Section } from "./parts";

const HOUR = 3600 * 1000;
const DAY = 24 * HOUR;
const SPANS: [UsageSpan, string, number][] = [
  ["today", "Today", 0],
  ["week", "7 days", 7],
  ["month", "30 days", 30],
  ["quarter", "90 days", 90],
];

export function Usage(props: { span: UsageSpan; agent: string | undefined }) {
  const { hive, router } = usePage();
  const days = () => SPANS.find(([name]) => name === props.span)?.[2] ?? 0;
  const [usage] = createResource(
    // Read again with each call that was counted.
    () => ({ days: days(), agent: props.agent, calls: hive.state.snapshot?.spend?.calls }),
    ({ days, agent }) => {
      const since = days ? Date.now() - (days - 1) * DAY : undefined;
      const by = days ? "day" : "hour";
      return get<UsagePage>(`/usage${query({ by, since, agent })}`);
    },
  );
  const page = () => (usage.error ? undefined : usage.latest);
  const sum = createMemo(() => total(page()?.rows ?? []));
  return (
    <div class="page">
      <header class="head">
        <div class="grow">
          <h1>{title(sum(), days())}</h1>
          <p>{sentence(sum())}</p>
        </div>
        <Choose
          label="Agent"
          of={hive.names()}
          all="All agents"
          chosen={props.agent}
          choose={(agent) => router.go({ page: "usage", span: props.span, agent })}
        />
        <nav class="seg" aria-label="Time">
          <For each={SPANS}>
            {([span, words]) => (
              <a
                href={href({ page: "usage", span, ...(props.agent ? { agent: props.agent } : {}) })}
                aria-current={span === props.span ? "true" : undefined}
              >
                {words}
              </a>
            )}
          </For>
        </nav>
      </header>
      <Notice text={usage.error && `Reading the usage failed: ${said(usage.error)}`} />
      <Show when={page()}>{(page) => <Figures page={page()} />}</Show>
      <Budgets />
    </div>
  );
}

function title(sum: Sum, days: number): string {
  const when = days ? `in ${days} days` : "today";
  if (sum.calls === 0) return `No model was asked ${when}`;
  if (sum.cost === 0) return `${count(sum.tokens)} tokens ${when}`;
  return `${money(sum.cost)} ${when}`;
}

function sentence(sum: Sum): string {
  const turns = `${sum.turns} ${sum.turns === 1 ? "turn" : "turns"}`;
  const calls = `${sum.calls} model ${sum.calls === 1 ? "call" : "calls"}`;
  const unpriced = sum.unpriced ? ` ${sum.unpriced} calls have no known price.` : "";
  return `${turns}, ${calls}, ${count(sum.tokens)} tokens. Days and hours are in UTC.${unpriced}`;
}

interface Measure {
  name: string;
  of: (sum: Sum) => number;
  words: (value: number) => string;
  /** What fills the height; without it, the highest. */
  whole?: number;
}

const percent = (value: number) => `${Math.round(value * 100)} %`;
const share = (sum: Sum) => (sum.prompt ? sum.cached / sum.prompt : 0);
const MEASURES: Measure[] = [
  { name: "Cost", of: (sum) => sum.cost, words: money },
  { name: "Tokens", of: (sum) => sum.tokens, words: count },
  { name: "Turns", of: (sum) => sum.turns, words: String },
  { name: "Prompt from the cache", of: share, words: percent, whole: 1 },
];

function Figures(props: { page: UsagePage }) {
  const [table, setTable] = createSignal(false);
  const width = () => (props.page.by === "hour" ? HOUR : DAY);
  const until = () => (props.page.by === "hour" ? props.page.since + DAY : props.page.until);
  const sums = createMemo(() => spans(props.page.rows, props.page.since, until(), width()));
  const at = (sum: Sum) => moment(Number(sum.name), props.page.by);
  return (
    <Show when={props.page.rows.length} fallback={<Nothing />}>
      <div class="charts">
        <For each={MEASURES}>
          {(measure) => (
            <Chart
              measure={measure}
              sums={sums()}
              at={at}
              until={props.page.until}
              width={width()}
            />
          )}
        </For>
      </div>
      <p class="gap-half">
        <button class="text-button" onClick={() => setTable(!table())} aria-expanded={table()}>
          {table() ? "Charts alone" : "The charts as a table"}
        </button>
      </p>
      <Show when={table()}>
        <SumTable name={props.page.by === "hour" ? "Hour" : "Day"} sums={used(sums())} label={at} />
      </Show>
      <div class="halves gap-top">
        <Section id="by-agent" title="By agent">
          <SumTable name="Agent" sums={group(props.page.rows, (row) => row.agent)} link />
        </Section>
        <Section id="by-model" title="By model">
          <SumTable name="Model" sums={group(props.page.rows, model)} />
        </Section>
      </div>
    </Show>
  );
}

function Nothing() {
  return (
    <Empty title="Nothing to draw yet">
      <p>What each model call uses is counted here, by hour, day, agent and model.</p>
    </Empty>
  );
}

const used = (sums: Sum[]) => sums.filter((sum) => sum.calls > 0).reverse();
const model = (row: UsageInfo) => row.model || `profile ${row.profile}`;

function moment(at: number, by: "hour" | "day"): string {
  const date = new Date(at);
  if (by === "hour") return date.toISOString().slice(11, 16);
  return date.toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" });
}

function Chart(props: {
  measure: Measure;
  sums: Sum[];
  at: (sum: Sum) => string;
  until: number;
  width: number;
}) {
  const highest = () => Math.max(...props.sums.map((sum) => props.measure.of(sum)));
  const top = () => props.sums.find((sum) => props.measure.of(sum) === highest());
  const most = () => {
    const sum = top();
    if (!sum || highest() === 0) return "nothing";
    return `most ${props.at(sum)}: ${props.measure.words(highest())}`;
  };
  const bars = () =>
    props.sums.map((sum) => ({
      height: highest() > 0 ? props.measure.of(sum) / (props.measure.whole ?? highest()) : 0,
      now: Number(sum.name) + props.width === props.until,
      title: `${props.at(sum)}: ${props.measure.words(props.measure.of(sum))}`,
    }));
  const axis = () => {
    const last = props.sums.length - 1;
    const places = [0, Math.round(last / 2), last];
    return places.map((place) => props.sums[place]).filter((sum) => sum !== undefined);
  };
  return (
    <figure class="chart">
      <figcaption class="row">
        <b class="grow">{props.measure.name}</b>
        <span class="small faint">{most()}</span>
      </figcaption>
      <Bars bars={bars()} label={`${props.measure.name} over time, ${most()}`} />
      <div class="axis" aria-hidden="true">
        <For each={axis()}>{(sum) => <span>{props.at(sum)}</span>}</For>
      </div>
    </figure>
  );
}

function SumTable(props: {
  name: string;
  sums: Sum[];
  label?: (sum: Sum) => string;
  link?: boolean;
}) {
  const label = (sum: Sum) => props.label?.(sum) ?? sum.name;
  return (
    <table class="tbl">
      <thead>
        <tr>
          <th>{props.name}</th>
          <th class="num">Turns</th>
          <th class="num hide-s">Calls</th>
          <th class="num">Tokens</th>
          <th class="num hide-s">Cached</th>
          <th class="num">Cost</th>
        </tr>
      </thead>
      <tbody>
        <For each={props.sums}>
          {(sum) => (
            <tr>
              <td>
                <Show when={props.link} fallback={label(sum)}>
                  <a href={href({ page: "chat", agent: sum.name, key: "main" })}>{sum.name}</a>
                </Show>
              </td>
              <td class="num muted">{sum.turns}</td>
              <td class="num muted hide-s">{sum.calls}</td>
              <td class="num muted">{count(sum.tokens)}</td>
              <td class="num muted hide-s">{percent(share(sum))}</td>
              <td class="num">{costOf(sum)}</td>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  );
}

/** Unknown is not nothing. */
export function costOf(sum: Sum): string {
  if (sum.unpriced === sum.calls && sum.calls > 0) return "price unknown";
  return sum.unpriced ? `${money(sum.cost)} and more` : money(sum.cost);
}
