// Why a call would be allowed, asked about or denied, without making it; and a yes for a while.

import { createSignal, For, Show } from "solid-js";
import { post, query, remove, said, url } from "../../api/http";
import type { GrantInfo, Grants, WhyInfo } from "../../api/types";
import { clock } from "../../text/format";
import { visible } from "../../text/visible";
import { usePage } from "../context";
import { createAction, createReading } from "../hooks";
import { Choose, Problem, Section } from "../parts";
import { Trace } from "../Trace";

const TITLES = { allow: "It would run", ask: "You would be asked", deny: "It would be denied" };
const MINUTES = [15, 60, 240, 1440];

export function WhyForm() {
  const { hive, may } = usePage();
  const [agent, setAgent] = createSignal("main");
  const [tool, setTool] = createSignal("bash");
  const [given, setGiven] = createSignal('{"command": "rm -rf build"}');
  const [verdict, setVerdict] = createSignal<WhyInfo>();
  const [problem, setProblem] = createSignal<string>();
  const [stale, setStale] = createSignal(0);

  async function ask(): Promise<void> {
    setVerdict(undefined);
    setProblem(undefined);
    try {
      const body = { tool: tool().trim(), arguments: JSON.parse(given()) as unknown };
      setVerdict(await post<WhyInfo>(url`/agents/${agent()}/why`, body));
    } catch (error) {
      const broken = error instanceof SyntaxError ? "The arguments are no JSON: " : "";
      setProblem(broken + said(error));
    }
  }

  return (
    <div class="halves">
      <Section id="why-form" title="Tool call" tight>
        <form
          class="why-form"
          onSubmit={(event) => {
            event.preventDefault();
            void ask();
          }}
        >
          <Choose label="Agent" of={hive.names()} chosen={agent()} choose={setAgent} />
          <label>
            Tool
            <input
              class="field"
              value={tool()}
              onInput={(event) => setTool(event.currentTarget.value)}
            />
          </label>
          <label>
            Arguments, as JSON
            <textarea
              class="field mono"
              rows="3"
              spellcheck={false}
              value={given()}
              onInput={(event) => setGiven(event.currentTarget.value)}
            />
          </label>
          <div class="acts">
            <button class="btn ink" type="submit">
              Test
            </button>
            <span class="small faint">nothing is run</span>
          </div>
        </form>
        <Problem text={problem()} />
      </Section>
      <div>
        <Show when={verdict()}>
          {(verdict) => (
            <Section id="why-answer" title={TITLES[verdict().effect]} tight>
              <p class="muted why-text">
                <Show when={!verdict().listed}>
                  {agent()} does not have this tool: its allowed_tools do not name it.{" "}
                </Show>
                {visible(verdict().why)}
              </p>
              <Trace verdict={verdict()} />
              <Show when={verdict().effect === "ask" && may("approve")}>
                <GrantForm
                  agent={agent()}
                  tool={tool().trim()}
                  given={given()}
                  done={() => {
                    setStale(stale() + 1);
                    void ask();
                  }}
                />
              </Show>
            </Section>
          )}
        </Show>
        <Grants agent={agent()} stale={stale()} changed={() => setStale(stale() + 1)} />
      </div>
    </div>
  );
}

/** For this very command, path or host where the call names one. */
function conditions(given: string): Record<string, string> {
  const named = JSON.parse(given) as Record<string, unknown>;
  const found: Record<string, string> = {};
  if (typeof named["command"] === "string") found["command"] = named["command"];
  const path = named["file_path"] ?? named["path"];
  if (typeof path === "string") found["path"] = path;
  return found;
}

function GrantForm(props: { agent: string; tool: string; given: string; done: () => void }) {
  const [minutes, setMinutes] = createSignal(60);
  const { problem, run } = createAction();
  async function grant(): Promise<void> {
    const body = { tool: props.tool, ...conditions(props.given), minutes: minutes() };
    await post(url`/agents/${props.agent}/grants`, body);
    props.done();
  }
  return (
    <div class="row choices">
      <Choose
        label="Allow this for"
        of={MINUTES.map(String)}
        words={(one) => (Number(one) < 60 ? `${one} minutes` : `${Number(one) / 60} h`)}
        chosen={String(minutes())}
        choose={(one) => setMinutes(Number(one))}
      />
      <button class="btn go" onClick={() => void run(grant, "Not granted: ")}>
        Grant
      </button>
      <Problem text={problem()} inline />
    </div>
  );
}

function words(grant: GrantInfo): string {
  const { tool, command, path, host } = grant;
  return [tool, command, path, host].filter((word) => word != null).join(" ");
}

function Grants(props: { agent: string; stale: number; changed: () => void }) {
  const { may } = usePage();
  const { problem, run } = createAction();
  const grants = createReading<Grants>(
    () => `/grants${query({ agent: props.agent })}`,
    () => props.stale,
  );
  async function revoke(grant: GrantInfo): Promise<void> {
    await remove(url`/grants/${grant.id}`);
    props.changed();
  }
  return (
    <Section
      id="grants-h"
      class="gap-top"
      title={`Temporary grants for ${props.agent}`}
      tight
    >
      <ul class="pinned">
        <For
          each={grants.latest?.grants}
          fallback={<li class="faint small">No grants.</li>}
        >
          {(grant) => (
            <li>
              <code>{visible(words(grant))}</code>
              <span class="small faint grow">
                {grant.until ? `until ${clock(grant.until)}` : "until the conversation ends"},
                by {grant.made_by}
              </span>
              <Show when={may("approve")}>
                <button
                  class="btn bare"
                  onClick={() => void run(() => revoke(grant), "Not revoked: ")}
                >
                  Revoke
                </button>
              </Show>
            </li>
          )}
        </For>
      </ul>
      <Problem text={problem()} />
    </Section>
  );
}
