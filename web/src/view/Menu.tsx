// A button that opens a list of actions. Esc, a choice and a press beside it close it.

import { type JSX, onCleanup, onMount } from "solid-js";
import { Icon, type IconName } from "./marks";

export function Menu(props: {
  label: string;
  /** In the button, where an icon does not say enough. */
  summary?: JSX.Element;
  icon?: IconName;
  class?: string;
  children: JSX.Element;
}) {
  let menu!: HTMLDetailsElement;
  onMount(() => {
    const away = (event: Event) => {
      const to = event.target as Node;
      // A press on its own words moves the focus to what is around it.
      const around = event.type === "focusin" && to.contains(menu);
      if (!menu.contains(to) && !around) menu.open = false;
    };
    addEventListener("pointerdown", away);
    addEventListener("focusin", away);
    onCleanup(() => {
      removeEventListener("pointerdown", away);
      removeEventListener("focusin", away);
    });
  });

  /** A switch in it stays in sight. */
  function choose(event: MouseEvent): void {
    if (!(event.target as Element).closest("button, a")) return;
    if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
    menu.open = false;
  }

  function key(event: KeyboardEvent): void {
    const switches = (event.target as Element).matches("input");
    const step = switches ? undefined : { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const summary = menu.querySelector("summary");
    if (event.key === "Escape" && menu.open) {
      event.stopPropagation();
      menu.open = false;
      summary?.focus();
    } else if (step && menu.open) {
      event.preventDefault();
      const buttons = [...menu.querySelectorAll<HTMLElement>(".pop button, .pop a")];
      const at = buttons.indexOf(document.activeElement as HTMLElement);
      buttons.at((at + step + (at < 0 && step < 0 ? 1 : 0)) % buttons.length)?.focus();
    }
  }

  return (
    <details class={`dd ${props.class ?? ""}`} ref={menu} onKeyDown={key}>
      <summary class="btn bare" classList={{ sq: !props.summary }} aria-label={props.label}>
        {props.summary ?? <Icon name={props.icon ?? "menu"} />}
      </summary>
      <div class="pop" onClick={choose}>
        {props.children}
      </div>
    </details>
  );
}

export function MenuItem(props: {
  icon: IconName;
  words: string;
  hint?: string;
  class?: string;
  act: () => void;
}) {
  return (
    <button class={props.class} onClick={() => props.act()}>
      <Icon name={props.icon} />
      {props.words}
      {props.hint && <kbd>{props.hint}</kbd>}
    </button>
  );
}
