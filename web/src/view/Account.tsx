// Who is signed in, and what belongs to this browser: theme, notifications, shortcuts, signing out.

import { createSignal, For, type JSX, Show } from "solid-js";
import { remove } from "../api/http";
import { setTheme, THEMES, theme } from "../state/theme";
import { usePage } from "./context";
import { Dialog } from "./Dialog";
import { createAction, isTyping, onKey } from "./hooks";
import { Menu } from "./Menu";
import { Problem, Radios } from "./parts";

export function Account(props: {
  class: string;
  summary: JSX.Element;
  /** Those without a place of their own on a phone. */
  pages?: [words: string, href: string][];
}) {
  const { live, me, notices, shortcuts } = usePage();
  const action = createAction();
  return (
    <Menu label={`Account of ${me}`} class={props.class} summary={props.summary}>
      <h3>{me}</h3>
      <Radios
        label="Theme"
        name={`theme-${props.class}`}
        of={THEMES}
        chosen={theme()}
        choose={setTheme}
      />
      <label>
        <input
          type="checkbox"
          checked={notices.on()}
          onChange={(event) => {
            const box = event.currentTarget;
            void notices.want(box.checked).then(() => (box.checked = notices.on()));
          }}
        />
        Notifications <span class="faint small nowrap">approvals, results</span>
      </label>
      <Problem text={notices.problem() ?? action.problem()} />
      <For each={props.pages}>
        {([words, href]) => (
          <a class="only-s" href={href}>
            {words}
          </a>
        )}
      </For>
      <button class="hide-s" onClick={shortcuts}>
        Keyboard shortcuts <kbd>?</kbd>
      </button>
      <hr />
      <button onClick={() => void action.run(() => remove("/session").then(live.leave))}>
        Sign out
      </button>
    </Menu>
  );
}

const KEYS: [string, ...string[]][] = [
  ["Search", "Ctrl K", "/"],
  ["Commands, in a message", "/"],
  ["Last message", "↑"],
  ["Send", "Enter"],
  ["New line", "Shift Enter"],
  ["Stop turn, in an empty message", "Esc"],
  ["Rename", "F2"],
  ["Approve", "y"],
  ["Deny", "n"],
  ["Conversation, always: in a conversation", "s", "a"],
  ["Once, conversation, always: under Approvals", "1", "2", "3"],
  ["Note", "e"],
  ["Next, previous approval", "j", "k"],
  ["Open its conversation", "o"],
  ["This list", "?"],
];

/** Opens on `?`, and from the menu. */
export function createShortcuts() {
  const [open, setOpen] = createSignal(false);
  onKey((event) => {
    if (event.key === "?" && !isTyping(event)) setOpen(true);
  });
  const sheet = () => (
    <Show when={open()}>
      <Sheet close={() => setOpen(false)} />
    </Show>
  );
  return { sheet, open: () => void setOpen(true) };
}

function Sheet(props: { close: () => void }) {
  return (
    <Dialog label="Keyboard shortcuts" class="keys-sheet" close={props.close}>
      <div class="row">
        <h2 class="grow">Keyboard shortcuts</h2>
        <button class="btn bare" onClick={props.close}>
          Close
        </button>
      </div>
      <ul class="keys">
        {KEYS.map(([words, ...keys]) => (
          <li>
            {words} <span class="nowrap">{keys.map((key) => <kbd>{key}</kbd>)}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
