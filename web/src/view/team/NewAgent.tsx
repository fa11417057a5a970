// A new agent by form.

import { Show } from "solid-js";
import { createStore } from "solid-js/store";
import { post } from "../../api/http";
import type { MadeAgent, ProviderList } from "../../api/types";
import { random } from "../../state/route";
import { sentence } from "../../text/format";
import { usePage } from "../context";
import { Dialog } from "../Dialog";
import { createAction, createReading } from "../hooks";
import { Notice, Select, Unavailable } from "../parts";

/** Whom an agent reports to that is a root of the tree. */
export const ROOT = "Nobody";
const USUAL = "Default of the hive";

export function NewAgent(props: {
  parent: string | undefined;
  template: () => void;
  close: () => void;
}) {
  const { hive, may, router } = usePage();
  const action = createAction();
  const [form, set] = createStore({
    name: "",
    parent: props.parent ?? ROOT,
    description: "",
    engine: USUAL,
    profile: USUAL,
    tools: "",
    scope: "",
  });
  const profiles = createReading<ProviderList>(() =>
    may("read_settings") ? "/providers" : undefined,
  );
  const engines = () => [...new Set(hive.agents().flatMap(({ engine }) => engine || []))].sort();
  /** The same request again makes no second agent. */
  const sent = { body: "", key: "" };

  async function make(): Promise<void> {
    const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    const tools = words(form.tools);
    const body = {
      name: form.name.trim(),
      parent: form.parent === ROOT ? undefined : form.parent,
      description: form.description.trim(),
      engine: form.engine === USUAL ? undefined : form.engine,
      profile: form.profile === USUAL ? undefined : form.profile,
      allowed_tools: tools.length ? tools : undefined,
      scope_accepts: words(form.scope),
    };
    const text = JSON.stringify(body);
    if (sent.body !== text) Object.assign(sent, { body: text, key: random() });
    const { agent } = await post<MadeAgent>("/agents", body, sent.key);
    await hive.refresh();
    props.close();
    router.go({ page: "team", agent, tab: "now" });
  }

  const FIELDS = {
    name: ["Name", "Lower-case letters, digits and single dashes. It cannot be changed later."],
    description: ["Description", "What it is for, in a sentence. Other agents see it, too."],
    tools: ["Tools", "Names and presets, for example @files bash. Empty: those every agent has."],
    scope: ["Keywords", "Work that it takes, for example invoices refunds. May stay empty."],
  } as const;
  const field = (id: keyof typeof FIELDS) => (
    <>
      <label for={`agent-${id}`}>{FIELDS[id][0]}</label>
      <input
        class="field"
        classList={{ mono: id === "name" || id === "tools" }}
        id={`agent-${id}`}
        aria-describedby={`agent-${id}-hint`}
        autocomplete="off"
        autofocus={id === "name"}
        spellcheck={id === "description"}
        value={form[id]}
        onInput={(event) => set(id, event.currentTarget.value)}
      />
      <p class="hint" id={`agent-${id}-hint`}>
        {FIELDS[id][1]}
      </p>
    </>
  );
  const select = (id: "parent" | "engine" | "profile", words: string, of: string[]) => (
    <>
      <label for={`agent-${id}`}>{words}</label>
      <Select id={`agent-${id}`} of={of} chosen={form[id]} choose={(one) => set(id, one)} />
    </>
  );
  return (
    <Dialog class="entry" label="New agent" close={props.close}>
      <div class="row">
        <h2 class="grow">New agent</h2>
        <button type="button" class="btn" onClick={props.template}>
          New from template…
        </button>
      </div>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run(make);
        }}
      >
        {field("name")}
        {select("parent", "Reports to", [ROOT, ...hive.names()])}
        {field("description")}
        {select("engine", "Engine", [USUAL, ...engines()])}
        <Show when={profiles.latest?.providers} keyed>
          {(all) => select("profile", "Model profile", [USUAL, ...all.map(({ name }) => name)])}
        </Show>
        {field("tools")}
        {field("scope")}
        <Notice text={action.problem() && sentence(action.problem()!)} marked />
        <div class="acts">
          <button class="btn go" aria-disabled={action.busy()}>
            Create agent
          </button>
          <button type="button" class="btn bare" onClick={props.close}>
            Cancel
          </button>
          <Unavailable />
        </div>
        <Show when={form.parent !== ROOT}>
          <p class="hint">
            It gets no more tools, hosts and money than {form.parent} has, whatever is set here.
          </p>
        </Show>
      </form>
    </Dialog>
  );
}
