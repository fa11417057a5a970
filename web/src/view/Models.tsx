// Model providers. On the first run: what the rehearsal model is, and how to get another. Later:
// the profiles there are, to be tested, edited and deleted, and the form for one more.

import { createComputed, createSignal, For, type JSX, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { post, put, remove, url } from "../api/http";
import type { ProviderInfo, ProviderList, ProviderTry } from "../api/types";
import { draftId } from "../state/drafts";
import { href, talkOf } from "../state/route";
import { sentence, span } from "../text/format";
import { formProblem, formWords, isByHand } from "../text/profile";
import { inert } from "../text/visible";
import { usePage } from "./context";
import { Confirm } from "./Dialog";
import { createAction, createReading } from "./hooks";
import { Mark } from "./marks";
import { Notice, PageBody, Section, Select, Unavailable } from "./parts";

/** What is chosen, in words; its wire, model, usual address, and one that has to be given. */
type Preset = [id: string, words: string, wire: string, model: string, usual: string, url?: string];
const PRESETS: Preset[] = [
  ["anthropic", "Anthropic", "anthropic", "claude-sonnet-4-5", "https://api.anthropic.com"],
  ["openai", "OpenAI", "openai-responses", "gpt-5", "https://api.openai.com/v1"],
  ["openrouter", "OpenRouter", "openai", "", "", "https://openrouter.ai/api/v1"],
  ["ollama", "Ollama on the machine of the hive", "ollama", "", "http://127.0.0.1:11434/v1"],
  ["server", "Another compatible server", "openai", "", "https://…/v1"],
];
const TRIES = [
  "What can you do, and which tools do you have?",
  "List the files in your workspace and summarise them.",
];

export function Models(props: { first: boolean }) {
  const { hive } = usePage();
  const [changed, setChanged] = createSignal(0);
  const [saved, setSaved] = createSignal<ProviderTry>();
  const [edited, edit] = createSignal<ProviderInfo>();
  const list = createReading<ProviderList>(() => "/providers", changed);
  /** No profile is written yet: what is listed was found, or is the rehearsal model. */
  const note = () => hive.state.snapshot?.hive.model_note ?? "";
  const none = () => !note().endsWith("of providers.yaml)");
  function keep(tried?: ProviderTry): void {
    setSaved(tried);
    edit(undefined);
    setChanged(changed() + 1);
    void hive.refresh();
  }
  const form = () => (
    <ModelForm
      known={list.latest?.providers ?? []}
      first={props.first}
      rehearses={note().startsWith("rehearsal:")}
      edited={edited()}
      saved={saved()}
      keep={keep}
    />
  );
  return (
    <Show
      when={props.first}
      fallback={
        <PageBody title="Models" text="Profiles that agents can use." beside={<></>}>
          <Notice text={list.error} />
          <ul class="profiles">
            <For each={list.latest?.providers}>
              {(one) => (
                <Profile one={one} edit={none() ? undefined : edit} removed={keep}>
                  <Show when={edited()?.name === one.name}>
                    <Section
                      id="edit-h"
                      title={`Edit ${one.name}`}
                      beside={
                        <button class="btn bare" onClick={() => edit(undefined)}>
                          Cancel
                        </button>
                      }
                    >
                      {form()}
                    </Section>
                  </Show>
                </Profile>
              )}
            </For>
          </ul>
          <Show when={!edited()}>
            <Section id="add-h" class="setup" title="Add a provider">
              {form()}
            </Section>
          </Show>
        </PageBody>
      }
    >
      <FirstRun form={form()} model={saved()?.model} />
    </Show>
  );
}

function FirstRun(props: { form: JSX.Element; model: string | undefined }) {
  const { firstRun, outbox, router } = usePage();
  const main = talkOf({ agent: "main" });
  function send(text: string): void {
    const draft = draftId({ agent: "main", key: main.key });
    outbox.send({ agent: "main", sessionKey: main.key, draft, text, files: [], mode: "queue" });
    router.go(main);
  }
  return (
    <div class="page setup">
      <header>
        <h1>Add a model provider</h1>
        <Show
          when={props.model === undefined}
          fallback={
            <p class="lead">
              <b>main</b> answers with <b>{inert(props.model!)}</b>.
            </p>
          }
        >
          <p class="lead">
            No provider key is set, so <b>main</b> answers with the <b>rehearsal model</b>, a
            built-in script that is free and works offline. It shows conversations, tool calls and
            approvals, but it does not understand what you write.
          </p>
          <a class="btn" href={href(main)} onClick={firstRun.skip}>
            Continue with the rehearsal model
          </a>
        </Show>
      </header>
      <ol class="steps">
        <li>
          <span class="n" classList={{ ok: props.model !== undefined }}>
            {props.model === undefined ? 1 : <Mark name="done" />}
          </span>
          <div>
            <h2>Provider</h2>
            {props.form}
          </div>
        </li>
        <li>
          <span class="n">2</span>
          <div>
            <h2>First message</h2>
            <div class="tries-list">
              <For each={TRIES}>
                {(text) => (
                  <button class="btn" onClick={() => send(text)}>
                    {text}
                  </button>
                )}
              </For>
            </div>
            <p class="small faint">
              Answered by {inert(props.model ?? "the rehearsal model")}.{" "}
              <a href={href(main)}>Write your own</a>
            </p>
          </div>
        </li>
      </ol>
      <p class="small faint">
        Providers can be changed later under <a href={href({ page: "models" })}>Models</a>.
      </p>
    </div>
  );
}

function Profile(props: {
  one: ProviderInfo;
  /** Nothing while no profile is written. */
  edit: ((one: ProviderInfo) => void) | undefined;
  removed: () => void;
  /** The form, while it is edited. */
  children: JSX.Element;
}) {
  const action = createAction();
  const [tried, setTried] = createSignal<ProviderTry>();
  const [deleting, setDeleting] = createSignal(false);
  const path = () => url`/providers/${props.one.name}`;
  const facts = () => {
    const { address, agents, key } = props.one;
    const used = agents.length ? `used by ${agents.join(", ")}` : "used by no agent";
    return [address, `key: ${key}`, used].filter(Boolean).join(" · ");
  };
  const users = () => props.one.agents.join(", ");
  const test = async () => setTried(await post<ProviderTry>(`${path()}/test`, {}));
  const acts = () => {
    const all: [string, () => void][] = [
      ["Test", () => void action.run(test)],
      ["Edit", edit],
      ["Delete", () => setDeleting(true)],
    ];
    return props.edit && !isByHand(props.one) ? all : all.slice(0, 1);
  };
  return (
    <li>
      <div class="row">
        <b>{props.one.name}</b>
        <span class="grow clip">{inert(props.one.model)}</span>
        <div class="acts">
          <For each={acts()}>
            {([words, act]) => (
              <button
                class="btn"
                aria-label={`${words} ${props.one.name}`}
                aria-disabled={action.busy()}
                onClick={act}
              >
                {words}
              </button>
            )}
          </For>
          <Show when={props.edit && isByHand(props.one)}>
            <span class="small faint">in providers.yaml</span>
          </Show>
        </div>
      </div>
      <p class="small faint">{inert(facts())}</p>
      <Notice text={action.problem() ?? formWords(tried()?.error?.error ?? "")} marked />
      <Show when={tried()?.ok && tried()}>{(tried) => <Answered tried={tried()} words="" />}</Show>
      <Show when={deleting()}>
        <Confirm
          label="Delete profile"
          title={users() ? `${props.one.name} is in use` : `Delete the profile ${props.one.name}?`}
          acts={users() ? [] : [["Delete", () => remove(path()).then(props.removed)]]}
          close={() => setDeleting(false)}
        >
          <Show
            when={users()}
            fallback={
              <>
                {props.one.key === "keys.env" ? "Its key is removed from keys.env. " : ""}
                Conversations that chose it with /model have to choose another one. This cannot be
                undone.
              </>
            }
          >
            It is used by {users()}. Name another profile in their <code>config.yaml</code>{" "}
            (<code>profile: NAME</code>) first.
          </Show>
        </Confirm>
      </Show>
      {props.children}
    </li>
  );

  function edit(): void {
    props.edit?.(props.one);
    document.getElementById("model")?.focus();
  }
}

function Answered(props: { tried: ProviderTry; words: string }) {
  return (
    <div class="notice ok" role="status">
      <Mark name="done" quiet />
      <span class="grow">
        {props.words}
        {inert(props.tried.model)} answered in {span(props.tried.took_ms)}.
      </span>
    </div>
  );
}

function ModelForm(props: {
  known: ProviderInfo[];
  /** Of the first run, which gives no name. */
  first: boolean;
  /** Nothing but the rehearsal model is there: what is saved takes its place. */
  rehearses: boolean;
  edited: ProviderInfo | undefined;
  saved: ProviderTry | undefined;
  keep: (tried: ProviderTry) => void;
}) {
  const { live } = usePage();
  const action = createAction();
  const [replacing, setReplacing] = createSignal(false);
  const testing = () => action.busy() && live.away() === undefined;
  const saved = () => (props.edited ? undefined : props.saved);
  const [form, set] = createStore({ kind: "", name: "", address: "", key: "", model: "" });
  const preset = (id = form.kind) => PRESETS.find(([one]) => one === id) ?? PRESETS[0]!;
  function choose(id: string): void {
    const [kind, , , model, , address = ""] = preset(id);
    const name = props.edited?.name ?? (props.first || props.rehearses ? "default" : kind);
    set({ kind, name, address, model });
  }
  createComputed(() => {
    const { edited } = props;
    action.forget();
    choose(edited ? kindOf(edited) : "");
    set({ key: "" });
    if (edited) set({ address: "", model: edited.model });
  });
  const name = () => form.name.trim();
  const known = () => props.known.find((one) => one.name === name());
  /** Whose key and address stay when nothing is typed. */
  const before = () => {
    const isSame = (props.edited || props.first) && known()?.provider === preset()[2];
    return isSame ? known() : undefined;
  };

  function submit(): void {
    const isOther = known() && !props.edited && !props.first && !props.rehearses;
    if (isOther && !formProblem(form, before())) setReplacing(true);
    else void action.run(save);
  }

  async function save(): Promise<void> {
    const problem = formProblem(form, before());
    if (problem) throw new Error(problem);
    const body = {
      provider: preset()[2],
      model: form.model.trim(),
      api_url: form.address.trim() || undefined,
      api_key: form.key.trim() || undefined,
    };
    const tried = await put<ProviderTry>(url`/providers/${name()}`, body);
    set("key", "");
    props.keep(tried);
  }

  const hints = () => {
    const has = before();
    const paste = form.kind === "ollama" ? "Not needed" : "Paste the key";
    return {
      name: "for /model",
      key: has && has.key !== "none" ? "Saved. Paste a new key to replace it" : paste,
      model: "as the provider calls it",
      address: has?.address ? `Unchanged: ${has.address}` : preset()[4],
    };
  };
  const field = (id: "name" | "address" | "key" | "model", words: string) => (
    <>
      <label for={id}>{words}</label>
      <input
        class="field"
        id={id}
        type={id === "key" ? "password" : "text"}
        autocomplete="off"
        spellcheck={false}
        placeholder={hints()[id]}
        value={form[id]}
        onInput={(event) => set(id, event.currentTarget.value)}
      />
    </>
  );
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label for="kind">Type</label>
      <Select
        id="kind"
        of={PRESETS.map(([id]) => id)}
        words={(id) => preset(id)[1]}
        chosen={form.kind}
        choose={choose}
      />
      <Show when={!props.edited && !props.first}>{field("name", "Name")}</Show>
      {field("key", "Key")}
      <p class="hint">
        Saved in <code>keys.env</code> on the server. It is not shown again. Leave it empty for a
        server that needs none.
      </p>
      {field("model", "Model")}
      {field("address", "Address")}
      <div class="acts">
        <button class="btn" classList={{ go: !saved() }} aria-disabled={action.busy()}>
          {testing() ? "Testing…" : "Test and save"}
        </button>
        <span class="small faint">one call, less than $0.01</span>
        <Unavailable />
      </div>
      <Notice text={action.problem() && sentence(formWords(action.problem()!))} marked />
      <Show when={!action.problem() && saved()}>
        {(tried) => <Answered tried={tried()} words="Saved. " />}
      </Show>
      <Show when={replacing()}>
        <Confirm
          label="Replace profile"
          title={`${name()} exists. Replace it?`}
          acts={[["Replace", async () => void action.run(save)]]}
          close={() => setReplacing(false)}
        >
          It is {inert(known()?.model ?? "")}
          {known()?.agents.length ? `, used by ${known()!.agents.join(", ")}` : ""}.
        </Confirm>
      </Show>
    </form>
  );
}

/** The type whose wire and address a profile has. */
function kindOf({ provider, address }: ProviderInfo): string {
  const same = PRESETS.filter(([, , wire]) => wire === provider);
  const found = same.find(([, , , , usual, given]) => (given ?? usual).startsWith(address ?? "-"));
  return (found ?? same.at(-1) ?? PRESETS[0]!)[0];
}
