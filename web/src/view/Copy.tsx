// Puts a text on the clipboard, and says so.

import { createSignal, onCleanup } from "solid-js";
import { Icon } from "./marks";

const SHOWN = 2000;

export function Copy(props: { text: () => string; label: string; words?: string }) {
  const [became, setBecame] = createSignal("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  async function copy(): Promise<void> {
    clearTimeout(timer);
    setBecame((await put(props.text())) ? "Copied" : "Not copied");
    timer = setTimeout(() => setBecame(""), SHOWN);
  }
  return (
    <button class="btn bare" aria-label={became() || props.label} onClick={() => void copy()}>
      <Icon name={became() === "Copied" ? "check" : "copy"} />
      {became() || props.words}
      <span class="sr" role="status">
        {became()}
      </span>
    </button>
  );
}

/** Browsers have a clipboard for HTTPS and localhost only; elsewhere a selection is copied. */
async function put(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const before = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  before?.focus({ preventScroll: true });
  return copied;
}
