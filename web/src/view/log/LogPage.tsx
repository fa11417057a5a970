// Log & audit: every call with what the gate said, the program's own log, and why something would
// be allowed or not.

import { Match, Switch } from "solid-js";
import { href, type LogTab } from "../../state/route";
import { PageBody, Tabs } from "../parts";
import { Audit } from "./Audit";
import { Lines } from "./Lines";
import { WhyForm } from "./Why";

const TABS: [LogTab, string][] = [
  ["audit", "Audit"],
  ["why", "Why"],
  ["lines", "Log"],
];

const HEADS: Record<LogTab, [string, string]> = {
  audit: [
    "What was done, and who let it",
    "Every tool call with what each stage of the gate said, newest first.",
  ],
  why: ["What would be let through", "The policy answers without anything being run."],
  lines: [
    "What the hive notes",
    "Newest below, as it is written. Messages and secrets are not in it.",
  ],
};

export function LogPage(props: { tab: LogTab; turn: string | undefined }) {
  return (
    <PageBody
      title={HEADS[props.tab][0]}
      text={HEADS[props.tab][1]}
      beside={
        <Tabs
          label="What is shown"
          of={TABS}
          chosen={props.tab}
          href={(tab) => href({ page: "log", tab })}
        />
      }
    >
      <Switch fallback={<Audit turn={props.turn} />}>
        <Match when={props.tab === "lines"}>
          <Lines />
        </Match>
        <Match when={props.tab === "why"}>
          <WhyForm />
        </Match>
      </Switch>
    </PageBody>
  );
}
