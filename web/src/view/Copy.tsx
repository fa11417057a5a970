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
    const copied = navigator.clipboard.writeText(props.text());
    setBecame(await copied.then(() => "Copied", () => "Not copied"));
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
