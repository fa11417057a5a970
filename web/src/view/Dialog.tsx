// A dialog above the page. It takes the focus and gives it back. Esc and a click beside close it.

import { For, type JSX, onCleanup, onMount } from "solid-js";
import { createAction } from "./hooks";
import { Problem } from "./parts";

export function Dialog(props: {
  label: string;
  class: string;
  close: () => void;
  children: JSX.Element;
}) {
  let dialog!: HTMLDialogElement;
  let gone = false;
  onMount(() => dialog.showModal());
  onCleanup(() => {
    gone = true;
    dialog.close();
  });
  return (
    <dialog
      class={`dialog ${props.class}`}
      ref={dialog}
      aria-label={props.label}
      onCancel={() => props.close()}
      // Comes later than the closing: one that was opened meanwhile stays. Browsers may close
      // without `cancel`.
      onClose={() => gone || props.close()}
      onClick={(event) => event.target === dialog && props.close()}
    >
      {props.children}
    </dialog>
  );
}

/** Asks before something is gone; the first of the acts does it. */
export function Confirm(props: {
  label: string;
  title: string;
  acts: [words: string, work: () => Promise<unknown>][];
  close: () => void;
  children: JSX.Element;
}) {
  const { busy, problem, run } = createAction();
  return (
    <Dialog class="confirm" label={props.label} close={props.close}>
      <h2>{props.title}</h2>
      <p class="muted">{props.children}</p>
      <Problem text={problem()} />
      <div class="acts">
        <For each={props.acts}>
          {([words, work], at) => (
            <button
              class="btn"
              classList={{ stop: at() === 0 }}
              aria-disabled={busy()}
              onClick={() => void run(() => work().then(props.close))}
            >
              {words}
            </button>
          )}
        </For>
        <button class="btn bare" autofocus onClick={() => props.close()}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
