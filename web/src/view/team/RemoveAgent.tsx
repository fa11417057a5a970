// Removing an agent for good: its name is typed first.

import { createMemo, createSignal, Show } from "solid-js";
import { query, remove, url } from "../../api/http";
import { below } from "../../state/team";
import { plural } from "../../text/format";
import { usePage } from "../context";
import { Dialog } from "../Dialog";
import { createAction } from "../hooks";
import { Problem, Unavailable } from "../parts";

/** Names that are shown of a large team. */
const SHOWN = 12;

export function RemoveAgent(props: { name: string; close: () => void }) {
  const { hive, router } = usePage();
  const action = createAction();
  const [typed, setTyped] = createSignal("");
  const team = createMemo(() => below([...hive.agents()], props.name));
  const isSure = () => typed().trim() === props.name;
  const names = () => {
    const rest = team().length - SHOWN;
    return team().slice(0, SHOWN).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
  };

  async function act(): Promise<void> {
    const cascade = team().length ? "true" : undefined;
    await remove(url`/agents/${props.name}` + query({ cascade }));
    await hive.refresh();
    props.close();
    router.go({ page: "team", tab: "now" });
  }

  return (
    <Dialog class="confirm" label={`Remove ${props.name}`} close={props.close}>
      <h2>Remove {props.name}?</h2>
      <p class="muted">
        Its running turns are cancelled. Its folder with all files in it and its secrets
        are deleted. Its conversations and the audit trail stay. This cannot be undone.
      </p>
      <Show when={team().length}>
        <p>
          <b>{plural(team().length, "agent")} below it</b>{" "}
          {team().length === 1 ? "is" : "are"} removed too: {names()}.
        </p>
      </Show>
      <form
        class="stacked"
        onSubmit={(event) => {
          event.preventDefault();
          if (isSure()) void action.run(act);
        }}
      >
        <label for="remove-name">
          Type <b>{props.name}</b> to confirm
        </label>
        <input
          class="field mono"
          id="remove-name"
          autocomplete="off"
          spellcheck={false}
          autofocus
          value={typed()}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <Problem text={action.problem()} />
        <div class="acts">
          <button class="btn stop" aria-disabled={!isSure() || action.busy()}>
            Remove
          </button>
          <button type="button" class="btn bare" onClick={() => props.close()}>
            Cancel
          </button>
          <Unavailable />
        </div>
      </form>
    </Dialog>
  );
}
