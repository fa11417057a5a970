// Approvals: what waits at the left, the one that is read in the middle, the decision below it.

import { createEffect, createMemo, For, type JSX, Match, Show, Switch } from "solid-js";
import type { ApprovalInfo } from "../../api/types";
import { when } from "../../state/approvals";
import { href, talkOf } from "../../state/route";
import { left, verdict, wish } from "../../text/asks";
import { clock } from "../../text/format";
import { usePage } from "../context";
import { createClock, isTyping, onKey } from "../hooks";
import { Mark, type MarkName } from "../marks";
import { DangerTag, Empty } from "../parts";
import { Wants } from "./AskCard";
import { createChoice } from "./choice";
import { Decide } from "./Decide";
import { Detail } from "./Detail";

export function ApprovalsPage(props: { id: string | undefined }) {
  const { approvals, router } = usePage();
  const now = createClock(10_000);
  const open = () => approvals.state.open;
  const picked = createMemo(() =>
    props.id === undefined ? open()[0] : approvals.find(props.id),
  );
  const place = () => open().findIndex((one) => one.id === picked()?.id);
  // What is read stays under the eye: once shown, an item is named in the address.
  createEffect(() => {
    const first = picked();
    if (props.id === undefined && first) {
      history.replaceState(null, "", href({ page: "approvals", id: first.id }));
      dispatchEvent(new HashChangeEvent("hashchange"));
    }
  });

  function step(by: number): void {
    const next = open()[place() + by];
    if (next) router.go({ page: "approvals", id: next.id });
  }
  onKey((event) => {
    if (isTyping(event)) return;
    if (event.key === "j") step(1);
    if (event.key === "k") step(-1);
    const approval = picked();
    if (event.key === "o" && approval) router.go(talkOf(approval));
  });

  return (
    <div class="split" classList={{ "one-picked": props.id !== undefined }}>
      <List picked={picked()?.id} now={now()} />
      <Show when={picked()} fallback={<Nothing id={props.id} />} keyed>
        {(approval) => {
          const choice = createChoice(() => approval);
          return (
            <article class="detail" aria-labelledby="ap-h">
              <Detail
                approval={approval}
                choice={choice}
                now={now()}
                place={place()}
                of={open().length}
                step={step}
              />
              <Decide approval={approval} choice={choice} />
            </article>
          );
        }}
      </Show>
    </div>
  );
}

function List(props: { picked: string | undefined; now: number }) {
  const { approvals } = usePage();
  return (
    <aside class="asks" aria-label="Approvals">
      <header>
        <h1>Approvals</h1>
      </header>
      <h2>Waiting ({approvals.state.open.length})</h2>
      <ul>
        <For
          each={approvals.state.open}
          fallback={<li class="none faint small">Nothing to approve.</li>}
        >
          {(approval) => (
            <Item approval={approval} picked={props.picked}>
              <span class="row">
                <span class="grow clip">
                  <b>{approval.agent}</b> wants to {wish(approval).verb}
                </span>
                <span class="when">{left(props.now - approval.asked_at)}</span>
              </span>
              <span class="row">
                <span class="grow mono clip">{wish(approval).about}</span>
                <DangerTag of={approval} />
              </span>
            </Item>
          )}
        </For>
      </ul>
      <Past title="Approved, not used" approvals={approvals.state.unused} picked={props.picked} />
      <Past title="Recently decided" approvals={approvals.state.past} picked={props.picked} />
    </aside>
  );
}

function Past(props: { title: string; approvals: ApprovalInfo[]; picked: string | undefined }) {
  return (
    <Show when={props.approvals.length}>
      <h2>{props.title}</h2>
      <ul>
        <For each={props.approvals}>
          {(approval) => (
            <Item approval={approval} picked={props.picked}>
              <span class="row">
                <span class="grow clip">
                  <Wants approval={approval} past />
                </span>
                <span class="when">{clock(when(approval))}</span>
              </span>
              <span class="small faint clip">{verdict(approval)}</span>
            </Item>
          )}
        </For>
      </ul>
    </Show>
  );
}

function Item(props: {
  approval: ApprovalInfo;
  picked: string | undefined;
  children: JSX.Element;
}) {
  const state = () => props.approval.state;
  return (
    <li>
      <a
        href={href({ page: "approvals", id: props.approval.id })}
        aria-current={props.approval.id === props.picked ? "page" : undefined}
      >
        <Mark name={markOf(props.approval)} label={state() === "open" ? "waiting" : state()} />
        {props.children}
      </a>
    </li>
  );
}

const MARKS: Record<string, MarkName> = { open: "wait", approved: "done", expired: "queue" };

export function markOf(approval: ApprovalInfo): MarkName {
  return MARKS[approval.state] ?? "stop";
}

function Nothing(props: { id: string | undefined }) {
  const { approvals, may } = usePage();
  return (
    <Switch>
      <Match when={approvals.state.loaded && props.id}>
        <Empty title="Approval not found">
          <p>
            It may be older than the list on this page. <a href="#/approvals">Waiting approvals</a>
          </p>
        </Empty>
      </Match>
      <Match when={approvals.state.loaded}>
        <Empty title="Nothing to approve">
          <p>
            When a rule of the policy says <code>ask</code>, the tool call is listed here and its
            turn waits for the decision.
          </p>
          <Show when={may("read_settings")}>
            <p>
              <a href={href({ page: "log", tab: "why" })}>Test the policy</a>
            </p>
          </Show>
        </Empty>
      </Match>
      <Match when={approvals.state.refused}>
        {(why) => (
          <Empty title="No access to approvals">
            <p>{why()}</p>
          </Empty>
        )}
      </Match>
    </Switch>
  );
}
