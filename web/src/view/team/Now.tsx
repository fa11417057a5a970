// What an agent does now: what it needs a person for, its queue, what it runs on.

import { createMemo, For, Show } from "solid-js";
import { query, url } from "../../api/http";
import type { AgentFile, AgentInfo, WorkPage } from "../../api/types";
import { messageOf } from "../../state/hive";
import { retryOf, turnStanding } from "../../state/standing";
import { href, talkOf } from "../../state/route";
import { shortKey } from "../../state/self";
import { filesProblem, lastFailure } from "../../state/team";
import { danger } from "../../text/asks";
import { clock, plural, sentence, span, title } from "../../text/format";
import { failureWords, pauseWords } from "../../text/outcomes";
import { spendShare, spendWords } from "../../text/team";
import { inert, visible } from "../../text/visible";
import { Wants } from "../approvals/AskCard";
import { usePage } from "../context";
import { createClock, createReading } from "../hooks";
import { Mark } from "../marks";
import { DangerTag, Notice, Section } from "../parts";
import { StandingMark } from "../Standing";
import { number, Parts, readPrompt } from "./Prompt";

/** Of an agent whose files have a mistake. */
export const EARLIER = "Its files have a mistake; the earlier settings are in force.";
const NO_WORDS = { code: "", error: "" };

export function Now(props: { agent: AgentInfo; changed: number }) {
  const { hive, may } = usePage();
  const name = () => props.agent.name;
  return (
    <>
      <Needs name={name()} />
      <Show when={props.agent.error ?? props.agent.policy_error}>
        {(why) => (
          <div class="notice bad">
            <span class="grow">{inert(why())}</span>
          </div>
        )}
      </Show>
      <Show when={filesProblem(hive.state.snapshot?.hive.config.problems, props.agent)}>
        <div class="notice bad">
          <span class="grow">{EARLIER}</span>
          <Show when={may("read_settings")}>
            <a class="btn bare" href={href({ page: "team", agent: name(), tab: "settings" })}>
              Settings
            </a>
          </Show>
        </div>
      </Show>
      <Show when={lastFailure(hive.state.recent, name())}>
        {(item) => (
          <div class="notice bad">
            <span class="grow">
              Last turn failed ({clock(item().finished_at ?? item().created_at)}).{" "}
              {visible(sentence(item().error?.error || failureWords(item().error ?? NO_WORDS)))}
            </span>
            <a class="btn bare" href={href({ page: "work", item: item().item_id })}>
              Open
            </a>
          </div>
        )}
      </Show>
      <Queue agent={props.agent} />
      <Engine agent={props.agent} changed={props.changed} />
      <Show when={may("read_settings") && props.agent.status !== "failed"}>
        <PromptSum name={name()} changed={props.changed} />
      </Show>
    </>
  );
}

/** What waits for a person; one of them is the decision here. */
function Needs(props: { name: string }) {
  const { approvals, questions } = usePage();
  const now = createClock(10_000);
  const open = () => approvals.state.open.filter((one) => one.agent === props.name);
  const asked = () => questions.state.open.filter((one) => one.agent === props.name);
  return (
    <>
      <For each={open()}>
        {(approval, at) => (
          <section class="ask-card" aria-label={`Approval for ${props.name}`}>
            <div class="row">
              <Mark name="wait" quiet />
              <span class="grow">
                <Wants approval={approval} />
              </span>
              <span class="when">{span(Math.max(0, now() - approval.asked_at))}</span>
            </div>
            <div class="acts">
              <a
                class="btn"
                classList={{ go: at() === 0 && approval.refused == null }}
                href={href({ page: "approvals", id: approval.id })}
              >
                Review
              </a>
            </div>
          </section>
        )}
      </For>
      <For each={asked()}>
        {(question) => (
          <section class="ask-card" aria-label={`Question of ${props.name}`}>
            <div class="row">
              <Mark name="wait" quiet />
              <span class="grow">{title(question.text, 120)}</span>
              <span class="when">{span(Math.max(0, now() - question.created_at))}</span>
            </div>
            <div class="acts">
              <a class="btn" href={href({ page: "home" })}>
                Answer on Home
              </a>
            </div>
          </section>
        )}
      </For>
    </>
  );
}

const SHOWN = 20;

function Queue(props: { agent: AgentInfo }) {
  const { hive, may } = usePage();
  const now = createClock(1000);
  const name = () => props.agent.name;
  const turns = () => hive.turns().filter((turn) => turn.agent === name());
  const work = createMemo(() => JSON.stringify(props.agent.work ?? {}));
  const pending = createReading<WorkPage>(
    () =>
      may("watch")
        ? `/work${query({ agent: name(), state: "pending", limit: SHOWN })}`
        : undefined,
    // Its numbers change with what waits.
    work,
  );
  const all = () => [...(pending.latest?.items ?? [])].reverse();
  /** What belongs to a turn is in its row already. */
  const items = () => all().filter(({ turn }) => !turn || !hive.state.turns[turn]);
  const more = () => (props.agent.work?.queued ?? 0) - items().length;
  return (
    <Section id="queue-h" title="Queue">
      <ul class="entries" aria-live="off">
        <For each={turns()}>
          {(turn) => (
            <li>
              <StandingMark of={turnStanding(turn)} />
              <a class="clip" href={href(talkOf(turn))}>
                {title(messageOf(turn, hive.state.recent)) || shortKey(turn.session_key)}
              </a>
              <Show
                when={retryOf(turn, now())}
                fallback={
                  <span class="faint small nowrap">
                    {turnStanding(turn) === "waiting" ? "waiting " : ""}
                    {span(Math.max(0, now() - turn.since))}
                  </span>
                }
              >
                {(retry) => <span class="faint small">{pauseWords(retry(), now())}</span>}
              </Show>
            </li>
          )}
        </For>
        <For each={items()}>
          {(item) => (
            <li>
              <Mark name="queue" />
              <a class="clip" href={href(talkOf(item))}>
                {title(item.preview) || item.kind}
              </a>
              <span class="faint small nowrap">{clock(item.created_at)}</span>
            </li>
          )}
        </For>
      </ul>
      <Notice text={pending.error && `Reading the queue failed: ${pending.error}`} />
      <Show when={pending.latest && turns().length + items().length === 0}>
        <p class="faint small">Nothing is queued.</p>
      </Show>
      <Show when={more() > 0 && all().length === SHOWN}>
        <p class="small">
          <a href={href({ page: "work", view: "table", agent: name(), column: "queued" })}>
            {more()} older
          </a>
        </p>
      </Show>
    </Section>
  );
}

function Engine(props: { agent: AgentInfo; changed: number }) {
  const { may } = usePage();
  const name = () => props.agent.name;
  const file = createReading<AgentFile>(
    () => (may("read_settings") ? url`/agents/${name()}/settings` : undefined),
    () => props.changed,
  );
  const effective = () => file.latest?.effective;
  const share = () => props.agent.today && spendShare(props.agent.today);
  const networks: Record<string, string> = {
    none: "no network",
    proxy: "listed hosts only",
    full: "full network",
  };
  /** What the red words beside it say is not said twice. */
  const network = () =>
    danger(props.agent) === "full network" ? undefined : networks[props.agent.network ?? ""];
  return (
    <Section
      id="engine-h"
      title="Engine"
      beside={
        <Show when={may("read_settings")}>
          <a href={href({ page: "team", agent: name(), tab: "settings" })}>
            {may("configure") ? "Change" : "Settings"}
          </a>
        </Show>
      }
    >
      <dl class="kv">
        <dt>Engine</dt>
        <dd>{[props.agent.engine, props.agent.model].filter(Boolean).join(", ") || "unknown"}</dd>
        <Show when={props.agent.sandbox}>
          {(sandbox) => (
            <>
              <dt>Sandbox</dt>
              <dd>
                {[sandbox(), network()].filter(Boolean).join(", ")} <DangerTag of={props.agent} />
              </dd>
            </>
          )}
        </Show>
        <Show when={effective()}>
          {(effective) => (
            <>
              <dt>Tools</dt>
              <dd>
                {effective().tools.length} of {effective().tools_known},{" "}
                <code>{inert(effective().allowed_tools.join(" "))}</code>
              </dd>
            </>
          )}
        </Show>
        <Show when={props.agent.today}>
          {(day) => (
            <>
              <dt>Today</dt>
              <dd>
                {spendWords(day())}, {plural(day().calls, "model call")}
              </dd>
            </>
          )}
        </Show>
      </dl>
      <Show when={share() !== undefined}>
        <div
          class="meter"
          role="img"
          aria-label={`${Math.round((share() ?? 0) * 100)} percent of the daily limit`}
        >
          <i
            classList={{ full: share() === 1 }}
            style={{ width: `${Math.round((share() ?? 0) * 100)}%` }}
          />
        </div>
      </Show>
    </Section>
  );
}

function PromptSum(props: { name: string; changed: number }) {
  const prompt = readPrompt(() => props.name, () => props.changed);
  return (
    <Show when={prompt.latest}>
      {(prompt) => (
        <Section
          id="prompt-h"
          title="Prompt"
          beside={
            <a href={href({ page: "team", agent: props.name, tab: "prompt" })}>
              {number(prompt().tokens)} tokens
            </a>
          }
        >
          <Parts of={prompt()} />
        </Section>
      )}
    </Show>
  );
}
