// A team from a template: its lead and the agents below it.

import { createMemo, For, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { post, url } from "../../api/http";
import type { MadeTeam, Templates } from "../../api/types";
import { random } from "../../state/route";
import { freeName, taken } from "../../state/team";
import { sentence } from "../../text/format";
import { usePage } from "../context";
import { Dialog } from "../Dialog";
import { createAction, createReading } from "../hooks";
import { Notice, Select, Unavailable } from "../parts";
import { ROOT } from "./NewAgent";

export function NewTeam(props: { parent: string | undefined; close: () => void }) {
  const { hive, router } = usePage();
  const action = createAction();
  const read = createReading<Templates>(() => "/templates");
  const [form, set] = createStore({ template: "", name: "", parent: props.parent ?? ROOT });
  const all = () => read.latest?.templates ?? [];
  const chosen = createMemo(() => all().find(({ name }) => name === form.template) ?? all()[0]);
  /** What was typed, else what is suggested. */
  const lead = () => form.name.trim() || (chosen() ? freeName(hive.names(), chosen()!) : "");
  const clash = () => (chosen() ? taken(hive.names(), chosen()!, lead()) : []);
  const problem = () => {
    const [first] = clash();
    // Those that the request itself has just made stay unsaid.
    if (first && !action.busy()) return `The agent ${first} is there already.`;
    return action.problem() && sentence(action.problem()!);
  };
  /** The same request again makes no second team. */
  const sent = { body: "", key: "" };

  async function make(template: string): Promise<void> {
    const body = {
      name: lead() === template ? undefined : lead(),
      parent: form.parent === ROOT ? undefined : form.parent,
    };
    const text = JSON.stringify([template, body]);
    if (sent.body !== text) Object.assign(sent, { body: text, key: random() });
    const made = await post<MadeTeam>(url`/templates/${template}`, body, sent.key);
    await hive.refresh();
    props.close();
    router.go({ page: "team", agent: made.agents[0]?.name, tab: "now" });
  }

  return (
    <Dialog class="entry" label="New from template" close={props.close}>
      <h2>New from template</h2>
      <Notice text={read.error} />
      <Show
        when={chosen()}
        fallback={
          <Show when={read.error ?? read.latest}>
            <div class="acts">
              <button class="btn bare" onClick={props.close}>
                Cancel
              </button>
            </div>
          </Show>
        }
      >
        {(one) => (
          <form
            class="form"
            onSubmit={(event) => {
              event.preventDefault();
              if (clash().length === 0) void action.run(() => make(one().name));
            }}
          >
            <fieldset class="templates">
              <legend class="sr">Template</legend>
              <For each={all()}>
                {(template) => (
                  <label>
                    <input
                      type="radio"
                      name="template"
                      checked={template.name === one().name}
                      onChange={() => set("template", template.name)}
                    />
                    <b>{template.name}</b>
                    <span>{template.description}</span>
                  </label>
                )}
              </For>
            </fieldset>
            <label for="team-name">Name</label>
            <input
              class="field mono"
              id="team-name"
              aria-describedby="team-name-hint"
              autocomplete="off"
              spellcheck={false}
              placeholder={freeName(hive.names(), one())}
              value={form.name}
              onInput={(event) => set("name", event.currentTarget.value)}
            />
            <p class="hint" id="team-name-hint">
              Of the lead; the other names begin with it. Names cannot be changed later.
            </p>
            <Notice text={problem()} marked />
            <label for="team-parent">Reports to</label>
            <Select
              id="team-parent"
              of={[ROOT, ...hive.names()]}
              chosen={form.parent}
              choose={(name) => set("parent", name)}
            />
            <h3>Creates</h3>
            <dl class="members">
              <For each={one().agents}>
                {({ name, description }) => (
                  <>
                    <dt class="mono">
                      {lead() + name.slice(one().name.length)}
                    </dt>
                    <dd>{description}</dd>
                  </>
                )}
              </For>
            </dl>
            <p class="hint">First task to try: {one().request}</p>
            <div class="acts">
              <button class="btn go" aria-disabled={action.busy() || clash().length > 0}>
                Create team
              </button>
              <button type="button" class="btn bare" onClick={props.close}>
                Cancel
              </button>
              <Unavailable />
            </div>
          </form>
        )}
      </Show>
    </Dialog>
  );
}
