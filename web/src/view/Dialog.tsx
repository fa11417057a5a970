// A dialog above the page. It takes the focus and gives it back. Esc and a click beside close it.

import { type JSX, onCleanup, onMount } from "solid-js";

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
