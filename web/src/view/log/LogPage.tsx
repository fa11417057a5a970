// Log & audit: every call with what the gate said, the program's own log, and why something would
// be allowed or not.

import { Match, Switch } from "solid-js";
import type { Action } from "../../api/types";
import { href, type LogTab } from "../../state/route";
import { usePage } from "../context";
import { PageBody, Tabs } from "../parts";
import { Audit } from "./Audit";
import { Lines } from "./Lines";
import { WhyForm } from "./Why";

const TABS: [LogTab, string, Action][] = [
  ["audit", "Audit", "read_audit"],
  ["why", "Why", "read_settings"],
  ["lines", "Log", "read_logs"],
];

const HEADS: Record<LogTab, [string, string]> = {
  audit: [
    "Tool calls and decisions",
    "Every tool call with its decision chain, newest first.",
  ],
  why: ["Test the policy", "Shows how a tool call would be decided. Nothing is run."],
  lines: [
    "Log",
    "Newest last. Messages and secrets are not logged.",
  ],
};

export function LogPage(props: { tab: LogTab; turn: string | undefined }) {
  const { may } = usePage();
  return (
    <PageBody
      title={HEADS[props.tab][0]}
      text={HEADS[props.tab][1]}
      beside={
        <Tabs
          label="What is shown"
          of={TABS.filter(([, , action]) => may(action))}
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
