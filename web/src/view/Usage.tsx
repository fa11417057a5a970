// What models used: money, tokens, turns and what came from the cache, by time, agent and model.

import { createMemo, createSignal, For, Show } from "solid-js";
import { query } from "../api/http";
import type { UsageInfo, UsagePage } from "../api/types";
import { href, talkOf, type UsageSpan } from "../state/route";
import { count, money, plural } from "../text/format";
import { costOf, DAY, group, HOUR, spans, type Sum, total } from "../text/sums";
import { inert } from "../text/visible";
import { Bars } from "./Bars";
import { Budgets } from "./Budgets";
import { usePage } from "./context";
import { createReading } from "./hooks";
import { Empty, Notice, PageBody, Section, Select, Tabs } from "./parts";

const SPANS: [UsageSpan, string, number][] = [
  ["today", "Today", 0],
  ["week", "7 days", 7],
  ["month", "30 days", 30],
  ["quarter", "90 days", 90],
];

export function Usage(props: { span: UsageSpan; agent: string | undefined }) {
  const { hive, router } = usePage();
  const days = () => SPANS.find(([name]) => name === props.span)?.[2] ?? 0;
  const usage = createReading<UsagePage>(
    () => {
      const since = days() ? Date.now() - (days() - 1) * DAY : undefined;
      return `/usage${query({ by: days() ? "day" : "hour", since, agent: props.agent })}`;
    },
    // Again with each call that was counted.
    () => hive.state.snapshot?.spend?.calls,
  );
  const sum = createMemo(() => total(usage.latest?.rows ?? []));
  return (
    <PageBody
      title={title(sum(), days())}
      text={sentence(sum())}
      beside={
        <>
          <Select
            spoken="Agent"
            of={hive.names()}
            all="All agents"
            chosen={props.agent}
            choose={(agent) => router.go({ page: "usage", span: props.span, agent })}
          />
          <Tabs
            label="Time"
            of={SPANS}
            chosen={props.span}
            href={(span) => href({ page: "usage", span, agent: props.agent })}
          />
        </>
      }
    >
      <Notice text={usage.error && `Reading the usage failed: ${usage.error}`} />
      <Show when={usage.latest}>{(page) => <Figures page={page()} />}</Show>
      <Budgets />
    </PageBody>
  );
}

function title(sum: Sum, days: number): string {
  const when = days ? `in ${days} days` : "today";
  if (sum.calls === 0) return `No model calls ${when}`;
  if (sum.cost === 0) return `${count(sum.tokens)} tokens ${when}`;
  return `${money(sum.cost)} ${when}`;
}

function sentence(sum: Sum): string {
  const used = [plural(sum.turns, "turn"), plural(sum.calls, "model call"), count(sum.tokens)];
  const unpriced = sum.unpriced ? ` ${sum.unpriced} calls have no known price.` : "";
  return `${used.join(", ")} tokens. Days and hours are in UTC.${unpriced}`;
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
  { name: "Cached share of prompt", of: share, words: percent, whole: 1 },
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
            <Chart measure={measure} sums={sums()} at={at} end={props.page.until - width()} />
          )}
        </For>
      </div>
      <p class="gap-half">
        <button class="text-button" onClick={() => setTable(!table())} aria-expanded={table()}>
          {table() ? "Hide the table" : "Show as table"}
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
    <Empty title="No usage yet">
      <p>Model calls are counted here by hour, day, agent and model.</p>
    </Empty>
  );
}

const used = (sums: Sum[]) => sums.filter((sum) => sum.calls > 0).reverse();
const model = (row: UsageInfo) => inert(row.model) || `profile ${row.profile}`;

function moment(at: number, by: "hour" | "day"): string {
  const date = new Date(at);
  if (by === "hour") return date.toISOString().slice(11, 16);
  return date.toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" });
}

function Chart(props: {
  measure: Measure;
  sums: Sum[];
  at: (sum: Sum) => string;
  /** Where the span that is not over begins. */
  end: number;
}) {
  const highest = () => Math.max(...props.sums.map((sum) => props.measure.of(sum)));
  const top = () => props.sums.find((sum) => props.measure.of(sum) === highest());
  const most = () => {
    const sum = top();
    if (!sum || highest() === 0) return "nothing";
    return `most ${props.at(sum)}: ${props.measure.words(highest())}`;
  };
  const bar = (sum: Sum) => ({
    height: highest() > 0 ? props.measure.of(sum) / (props.measure.whole ?? highest()) : 0,
    now: Number(sum.name) === props.end,
    title: `${props.at(sum)}: ${props.measure.words(props.measure.of(sum))}`,
  });
  const axis = () => {
    const last = props.sums.length - 1;
    return [0, Math.round(last / 2), last].flatMap((place) => props.sums[place] ?? []);
  };
  return (
    <figure class="chart">
      <figcaption class="row">
        <b class="grow">{props.measure.name}</b>
        <span class="small faint">{most()}</span>
      </figcaption>
      <Bars
        bars={props.sums.map(bar)}
        label={`${props.measure.name} over time, ${most()}`}
        axis={axis().map(props.at)}
      />
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
                  <a href={href(talkOf({ agent: sum.name }))}>{sum.name}</a>
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
