// Facts of this session: how full the context is, which files changed, how the turn goes.

import { createMemo, For, Index, Show } from "solid-js";
import type { ApprovalInfo, ContextInfo, SessionInfo } from "../api/types";
import type { RunningTurn } from "../state/hive";
import { type FilesRoute, href } from "../state/route";
import type { Talk } from "../state/talk";
import { wishWords } from "../text/asks";
import { changedFiles, diffOf } from "../text/diff";
import { clock, count, plural, span } from "../text/format";
import { retryWords } from "../text/outcomes";
import { visibleName } from "../text/visible";
import { Coil } from "./Coil";
import { usePage } from "./context";
import { createHiveClock } from "./hooks";
import { Mark } from "./marks";
import { Sums } from "./Workspace";

export function Inspector(props: {
  talk: Talk;
  turn: RunningTurn | undefined;
  asked: ApprovalInfo[];
  info: SessionInfo | undefined;
}) {
  return (
    <aside class="insp" aria-label="This conversation">
      <ContextFacts talk={props.talk} />
      <CacheBreaks info={props.info} />
      <Show when={props.asked.length}>
        <section>
          <h2>Waiting for approval</h2>
          <ul>
            <For each={props.asked}>
              {(approval) => (
                <li>
                  <Mark name="wait" />
                  <a class="clip ltr" href={href({ page: "approvals", id: approval.id })}>
                    {wishWords(approval)}
                  </a>
                </li>
              )}
            </For>
          </ul>
        </section>
      </Show>
      <Changed talk={props.talk} />
      <Show when={props.turn}>{(turn) => <ThisTurn turn={turn()} talk={props.talk} />}</Show>
    </aside>
  );
}

function ContextFacts(props: { talk: Talk }) {
  const context = () => {
    const known = props.talk.state.context;
    return known?.window ? { ...known, window: known.window } : undefined;
  };
  return (
    <Show when={context()}>
      {(context) => (
        <section>
          <h2>
            Context, {count(context().used)} of {count(context().window)}
          </h2>
          <Meter context={context()} />
          <Show when={context().parts}>
            {(parts) => (
              <ul>
                <For each={PARTS}>
                  {([name, words]) => (
                    <li>
                      {words}
                      <span class="muted">{count(parts()[name])}</span>
                    </li>
                  )}
                </For>
                <li>
                  Free
                  <span class="muted">{count(Math.max(0, context().window - context().used))}</span>
                </li>
              </ul>
            )}
          </Show>
        </section>
      )}
    </Show>
  );
}

/** Why the vendor's cache did not help, newest first: the last few calls that it cost. */
function CacheBreaks(props: { info: SessionInfo | undefined }) {
  const breaks = () => (props.info?.cache_breaks ?? []).slice(-3).reverse();
  return (
    <Show when={breaks().length}>
      <section>
        <h2>Cache broken</h2>
        <ul>
          <For each={breaks()}>
            {(broke) => (
              <li title={`${count(broke.tokens)} tokens were read anew`}>
                <span>{broke.why}</span>
                <span class="muted">{clock(broke.since ?? broke.at)}</span>
              </li>
            )}
          </For>
        </ul>
      </section>
    </Show>
  );
}

const PARTS = [
  ["tools", "Tools (estimate)"],
  ["system", "System and rules"],
  ["history", "History"],
  ["newest", "Newest message"],
] as const;

type KnownContext = ContextInfo & { window: number };

function Meter(props: { context: KnownContext }) {
  const share = (tokens: number) => Math.min(100, (tokens / props.context.window) * 100);
  const percent = () => Math.round(share(props.context.used));
  const widths = () => {
    const { parts, used } = props.context;
    return parts ? PARTS.map(([name]) => share(parts[name])) : [share(used)];
  };
  return (
    <div class="ctx">
      <div
        class="meter"
        role="img"
        aria-label={`${percent()} percent of the context is used; compaction at 75 percent`}
      >
        <Index each={widths()}>
          {(width, at) => (
            <i
              classList={{ newest: at === PARTS.length - 1 }}
              style={{ width: `${width()}%` }}
            />
          )}
        </Index>
      </div>
      <span class="mark" />
      <span class="lab">compacts at 75 %</span>
    </div>
  );
}

/** Each leads to its changes. */
function Changed(props: { talk: Talk }) {
  const { may } = usePage();
  const files = createMemo(() =>
    changedFiles(
      props.talk.state.messages.flatMap((message) => {
        const diff = diffOf(message);
        return diff === undefined ? [] : [{ diff }];
      }),
    ),
  );
  const route = (path?: string): FilesRoute => {
    const { agent, session } = props.talk.place;
    return { page: "files", agent, session: props.talk.state.session ?? session, path };
  };
  return (
    <section>
      <Show when={files().length}>
        <h2>Files changed ({files().length})</h2>
        <ul>
          <For each={files()}>
            {(file) => (
              <li>
                <a class="clip ltr" title={visibleName(file.path)} href={href(route(file.path))}>
                  {visibleName(file.path)}
                </a>
                <Sums of={file} />
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={may("read_files")}>
        <a class="small muted" href={href(route())}>
          All workspace files
        </a>
      </Show>
    </section>
  );
}

function ThisTurn(props: { turn: RunningTurn; talk: Talk }) {
  const now = createHiveClock(1000);
  const calls = () => {
    const { state, steps, turn } = props.turn;
    // What its row counts, too.
    const retry = props.talk.state.outcomes.find((one) => one.turn === turn)?.retry;
    if (retry) return retryWords(retry, now());
    // The one under way is one of them.
    return plural(steps + (state === "running" ? 1 : 0), "model call");
  };
  return (
    <section>
      <h2>This turn</h2>
      <Coil strip={props.turn.strip} now={now()} />
      <dl class="kv narrow">
        <dt>Calls</dt>
        <dd>{calls()}</dd>
        <dt>Time</dt>
        <dd>{span(Math.max(0, now() - props.turn.since))}</dd>
      </dl>
    </section>
  );
}
