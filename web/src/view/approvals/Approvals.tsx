// Approvals: what waits at the left, the one that is read in the middle, the decision below it.

import { createEffect, createMemo, For, Show } from "solid-js";
import type { ApprovalInfo } from "../../api/types";
import { href } from "../../state/route";
import { left, verdict, wish } from "../../text/asks";
import { clock } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { createClock, onKey } from "../hooks";
import { Mark, type MarkName } from "../marks";
import { Empty } from "../parts";
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
        {(approval) => (
          <article class="detail" aria-labelledby="ap-h">
            <Detail approval={approval} now={now()} place={place()} of={open().length} />
            <Decide approval={approval} />
          </article>
        )}
      </Show>
    </div>
  );
}

/** Keys act where nothing is typed. */
export function isTyping(event: KeyboardEvent): boolean {
  const field = (event.target as HTMLElement).closest("input, textarea, select");
  const typed = field && (field as HTMLInputElement).type !== "radio";
  return Boolean(typed) || event.ctrlKey || event.metaKey || event.altKey;
}

export function talkOf(approval: ApprovalInfo) {
  const { agent, session } = approval;
  return { page: "chat" as const, agent, key: approval.session_key, session };
}

function List(props: { picked: string | undefined; now: number }) {
  const { approvals } = usePage();
  return (
    <aside class="asks" aria-label="Approvals">
      <header>
        <h1>Approvals</h1>
      </header>
      <h2>Waiting, {approvals.state.open.length}</h2>
      <ul>
        <For
          each={approvals.state.open}
          fallback={<li class="none faint small">Nothing waits for your word.</li>}
        >
          {(approval) => (
            <li>
              <a
                href={href({ page: "approvals", id: approval.id })}
                aria-current={approval.id === props.picked ? "page" : undefined}
              >
                <Mark name="wait" />
                <span class="row">
                  <b class="grow clip">{approval.agent}</b>
                  <span class="when">{left(props.now - approval.asked_at)}</span>
                </span>
                <span class="clip">{wish(approval)}</span>
                <span class="mono clip">
                  {approval.tool} {visible(approval.shown).split("\n", 1)[0]}
                </span>
              </a>
            </li>
          )}
        </For>
      </ul>
      <Past title="Approved, not used" approvals={approvals.state.unused} picked={props.picked} />
      <Past title="Decided lately" approvals={approvals.state.past} picked={props.picked} />
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
            <li>
              <a
                href={href({ page: "approvals", id: approval.id })}
                aria-current={approval.id === props.picked ? "page" : undefined}
              >
                <Mark name={markOf(approval)} label={approval.state} />
                <span class="row">
                  <span class="grow clip">
                    <b>{approval.agent}</b> {wish(approval)}
                  </span>
                  <span class="when">{clock(approval.decision?.at ?? approval.expires_at)}</span>
                </span>
                <span class="small faint clip">{verdict(approval)}</span>
              </a>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}

export function markOf(approval: ApprovalInfo): MarkName {
  switch (approval.state) {
    case "open":
      return "wait";
    case "approved":
      return "done";
    case "expired":
      return "queue";
    default:
      return "stop";
  }
}

function Nothing(props: { id: string | undefined }) {
  const { approvals } = usePage();
  return (
    <Show
      when={approvals.state.loaded}
      fallback={
        <Show when={approvals.state.refused}>
          {(why) => (
            <Empty title="Approvals are not for you">
              <p>{why()}</p>
            </Empty>
          )}
        </Show>
      }
    >
      <Show
        when={props.id}
        fallback={
          <Empty title="Nothing waits for your word">
            <p>
              When a rule of the policy says <code>ask</code>, the call comes here whole, and its
              turn waits until you have decided.
            </p>
          </Empty>
        }
      >
        <Empty title="There is no such approval here">
          <p>
            It may be older than what is kept at the side.{" "}
            <a href="#/approvals">To those that wait</a>
          </p>
        </Empty>
      </Show>
    </Show>
  );
}
