// The item that was picked: what can be done with it, where it came from, how its time was spent.

import { createComputed, createEffect, createSignal, For, Show } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { post, url } from "../../api/http";
import type { ApprovalInfo, ItemInfo, Receipt, TurnTiming } from "../../api/types";
import type { HiveModel, RunningTurn } from "../../state/hive";
import { href, random, talkOf, type WorkRoute } from "../../state/route";
import { isRetrying, retryOf } from "../../state/standing";
import { createStale } from "../../state/work";
import { clock, sentence, undelivered } from "../../text/format";
import { type LineageNode, lineage } from "../../text/lineage";
import { failureWords, pauseWords } from "../../text/outcomes";
import { inert, visible } from "../../text/visible";
import { howWords, isOpen, nameOfWork, shortId, standingOfItem } from "../../text/work";
import { usePage } from "../context";
import { createAction, createReading } from "../hooks";
import { Mark } from "../marks";
import { Notice, Problem, Section, Unavailable } from "../parts";
import { Graph, LineageList } from "./Lineage";
import { Timeline } from "./Timeline";

/** An item that begins in so much of the window is seen. */
const SEEN = 0.75;

export function Picked(props: {
  item: string;
  route: WorkRoute;
  now: number;
  /** What is above it is there. */
  listed: boolean;
}) {
  const { live } = usePage();
  const [agents, setAgents] = createSignal<Set<string>>();
  // What other chains do changes nothing here. Until this one is known, anything may.
  const stale = createStale(live, ({ agent }) => agent == null || agents()?.has(agent) !== false);
  const item = createReading<ItemInfo>(() => url`/inbox/${props.item}`, stale);
  const rootId = () => item.latest?.root ?? undefined;
  const first = createReading<ItemInfo>(() => {
    const root = rootId();
    return root && url`/inbox/${root}`;
  }, stale);
  /** Who began the chain knows all of it. */
  const root = () => (rootId() ? first.latest : item.latest);
  createEffect(() => {
    const whole = root();
    if (!whole) return;
    const chain = (whole.chain ?? []).flatMap((task) => [task.agent, task.from]);
    setAgents(new Set([...chain, whole.agent, item.latest?.agent ?? ""]));
  });
  const turn = () => item.latest?.turn ?? undefined;
  const timing = createReading<TurnTiming>(() => {
    const id = turn();
    return id && url`/turns/${id}/timing`;
  }, stale);
  // A link leads to it, wherever it is: once all of it is there. Whoever picks it from the list
  // sees it below the list, but for a phone.
  let top: HTMLDivElement | undefined;
  let shown = props.listed && !matchMedia("(max-width: 760px)").matches;
  createEffect(() => {
    const whole = item.latest && (root() ?? first.error);
    const timed = turn() === undefined || timing.latest || timing.error;
    if (shown || !props.listed || !whole || !timed) return;
    shown = true;
    queueMicrotask(() => {
      if (!top || top.getBoundingClientRect().top < innerHeight * SEEN) return;
      top.scrollIntoView({ block: "start" });
    });
  });
  return (
    <>
      <div ref={top} />
      <Notice text={item.error && `Reading the item failed: ${item.error}`} />
      <Show when={item.latest}>
        {(item) => (
          <>
            <Head item={item()} route={props.route} now={props.now} />
            <Words item={item()} now={props.now} />
            <div class="under">
              <Delegation
                root={root()}
                problem={first.error}
                item={props.item}
                route={props.route}
                now={props.now}
              />
              <Show
                when={turn() === undefined ? undefined : timing.latest}
                fallback={<NoTimeline item={item()} problem={timing.error} />}
              >
                {(timing) => <Timeline timing={timing()} now={props.now} />}
              </Show>
            </div>
          </>
        )}
      </Show>
    </>
  );
}

function NoTimeline(props: { item: ItemInfo; problem: string | undefined }) {
  return (
    <Section id="wf-h" title="Timeline">
      <Notice text={props.problem && `Reading the times failed: ${props.problem}`} />
      <Show when={props.item.turn == null}>
        <p class="small muted small-pad">{notBegun(props.item)}</p>
      </Show>
    </Section>
  );
}

function notBegun(item: ItemInfo): string {
  if (item.state === "pending") return "No turn has taken it yet. Its timeline begins then.";
  return "It ended without a turn.";
}

/** That it is in, where it goes on. */
function turnOf(hive: HiveModel, item: ItemInfo): RunningTurn | undefined {
  return isOpen(item.state) ? hive.state.turns[item.turn ?? ""] : undefined;
}

function Head(props: { item: ItemInfo; route: WorkRoute; now: number }) {
  const { approvals, hive, may, router, whoIs } = usePage();
  const { busy, problem, run } = createAction();
  const item = () => props.item;
  const approval = (): ApprovalInfo | undefined =>
    approvals.state.open.find(
      (one) => one.turn === item().turn || one.item === item().item_id,
    );
  const own = () => item().chain?.find((task) => task.item_id === item().item_id);
  /** Also one whose turn is over while others work for it. */
  const goesOn = () =>
    isOpen(item().state) || own()?.state === "open" || (item().root == null && hasOpenTasks());
  const hasOpenTasks = () => Boolean(item().chain?.some((task) => task.state === "open"));
  const mayRetry = () =>
    item().kind === "message" && item().error != null && item().retried_as == null;
  const cancel = () => post(url`/inbox/${item().item_id}/cancel`, null);
  async function retry(): Promise<void> {
    const again = await post<Receipt>(url`/inbox/${item().item_id}/retry`, null, random());
    router.go({ ...props.route, item: again.item_id });
  }
  const standing = () => standingOfItem(item().state, isRetrying(turnOf(hive, item())));
  const about = () => {
    const kind = own()?.kind ?? item().kind;
    const from = own()?.from ?? whoIs(item().from);
    const parts = [item().agent, `${howWords(kind)} from ${from}`, `${item().priority} priority`];
    if (item().attempts > 1) parts.push(`attempt ${item().attempts}`);
    return parts.join(", ");
  };
  return (
    <section class="picked" aria-label="Selected item">
      <Mark name={standing()[0]} label={standing()[1]} />
      <h2 class="clip" dir="auto" title={nameOfWork(item(), 200)}>
        {nameOfWork(item())}
      </h2>
      <span class="small muted hide-s clip">{about()}</span>
      <span class="small faint hide-s nowrap" title={item().item_id}>
        item {shortId(item().item_id)}
      </span>
      <div class="acts">
        <Problem text={problem()} inline />
        <Unavailable />
        <Show when={approval()}>
          {(approval) => (
            <a class="btn go" href={href({ page: "approvals", id: approval().id })}>
              Review approval
            </a>
          )}
        </Show>
        <Show when={item().retried_as}>
          {(newer) => (
            <a class="btn" href={href({ ...props.route, item: newer() })}>
              Newest try
            </a>
          )}
        </Show>
        <Show when={hive.names().includes(item().agent)}>
          <a class="btn" href={href(talkOf(item()))}>
            Open
          </a>
        </Show>
        <Show when={may("talk") && mayRetry()}>
          <button class="btn" aria-disabled={busy()} onClick={() => void run(retry)}>
            Try again
          </button>
        </Show>
        <Show when={may("talk") && goesOn()}>
          <button class="btn stop" aria-disabled={busy()} onClick={() => void run(cancel)}>
            {busy() ? "Cancelling…" : "Cancel"}
          </button>
        </Show>
        <a
          class="btn bare"
          href={href({ ...props.route, item: undefined })}
          aria-label="Close the selected item"
        >
          Close
        </a>
      </div>
    </section>
  );
}

/** What it says, and what came of it. */
function Words(props: { item: ItemInfo; now: number }) {
  const { hive } = usePage();
  const own = () => props.item.chain?.find((task) => task.item_id === props.item.item_id);
  /** Of a task that failed its result is why, which is said below. */
  const result = () => {
    const words = own()?.result ?? props.item.response ?? undefined;
    return words === props.item.error?.error ? undefined : words;
  };
  const retry = () => retryOf(turnOf(hive, props.item), props.now);
  const text = () => inert(props.item.text);
  return (
    <dl class="work-words">
      <Show when={text().includes("\n") || text().length > 80}>
        <dt>Text</dt>
        <Long text={text()} />
      </Show>
      <Show when={result()}>
        {(result) => (
          <>
            <dt>Result</dt>
            <Long text={inert(result())} />
          </>
        )}
      </Show>
      <Show when={props.item.error}>
        {(error) => (
          <>
            <dt>Failed</dt>
            <dd class="bad-text">{visible(sentence(error().error || failureWords(error())))}</dd>
          </>
        )}
      </Show>
      <Show when={retry()}>
        {(retry) => (
          <>
            <dt>Retrying</dt>
            <dd>{pauseWords(retry(), props.now)}</dd>
          </>
        )}
      </Show>
      <Show when={props.item.waiting_for && isOpen(props.item.state) && !retry()}>
        <dt>Waits</dt>
        <dd>for {visible(props.item.waiting_for ?? "")}</dd>
      </Show>
      <Show when={props.item.undelivered?.length}>
        <dt>Channel</dt>
        <dd>
          <For each={props.item.undelivered}>
            {(frame) => (
              <p class="bad-text">{inert(undelivered(props.item.channel ?? "", frame))}</p>
            )}
          </For>
        </dd>
      </Show>
    </dl>
  );
}

/** A text of more letters may need more room than there is: it scrolls. */
const LONG = 200;

function Long(props: { text: string }) {
  const long = () => props.text.length > LONG || props.text.split("\n").length > 5;
  return (
    <dd dir="auto" tabindex={long() ? 0 : undefined}>
      {props.text}
    </dd>
  );
}

/** A chain of more nodes begins as a list. */
const DRAWN = 40;

function Delegation(props: {
  root: ItemInfo | undefined;
  problem: string | undefined;
  item: string;
  route: WorkRoute;
  now: number;
}) {
  const { hive, whoIs } = usePage();
  const retries = (of: { agent: string; session_key: string; turn?: string | null }) =>
    hive.turns().some((turn) => {
      const isIts =
        of.turn === undefined
          ? turn.agent === of.agent && turn.session_key === of.session_key
          : turn.turn === of.turn;
      return isIts && isRetrying(turn);
    });
  const nodesOf = (root: ItemInfo) => lineage(root, props.item, whoIs, Date.now(), retries);
  // Read again they are the same ones, by their id: what has the focus keeps it.
  const [chain, setChain] = createStore<{ nodes: LineageNode[] }>({ nodes: [] });
  createComputed(() =>
    setChain("nodes", reconcile(props.root ? nodesOf(props.root) : [])),
  );
  const nodes = () => chain.nodes;
  const [chosen, choose] = createSignal<boolean>();
  const asList = () => chosen() ?? nodes().length > DRAWN;
  const link = (item: string) => href({ ...props.route, item });
  return (
    <Section
      id="lin-h"
      title="Delegation"
      beside={
        <button class="text-button small hide-s" onClick={() => choose(!asList())}>
          {asList() ? "As graph" : "As list"}
        </button>
      }
    >
      <Notice text={props.problem && `Reading the chain failed: ${props.problem}`} />
      <Show when={props.root}>
        {(root) => (
          <>
            <Show when={!asList()}>
              <Graph nodes={nodes()} link={link} now={props.now} />
            </Show>
            <LineageList
              nodes={nodes()}
              link={link}
              now={props.now}
              class={asList() ? "" : "only-list"}
            />
            <p class="sr">Accepted {clock(root().created_at)}</p>
          </>
        )}
      </Show>
    </Section>
  );
}
