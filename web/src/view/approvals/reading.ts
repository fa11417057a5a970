// A key decides about a call only when the whole of its command has been on the screen.

import { createSignal, onCleanup } from "solid-js";

/** In pixels: edges are seldom at whole ones. */
const NEAR = 2;
/** What was read last stays on the screen: three lines; a bar covers two of them on a phone. */
const OVERLAP = 60;

export function createCommandReading() {
  let box: HTMLElement | undefined;
  /** How far it was on the screen, from its beginning on and without a gap. */
  let seen = 0;
  let height = 0;
  const [unread, setUnread] = createSignal(false);

  /** Whether it is read: whole at once where there is room for it, else part by part. */
  function look(): boolean {
    if (!box?.isConnected || document.hidden) return false;
    const { top, bottom, height: now } = box.getBoundingClientRect();
    if (now !== height) [seen, height] = [0, now];
    const [first, last] = roomOf(box);
    const [from, to] = [Math.max(top, first) - top, Math.min(bottom, last) - top];
    if (from >= to) return false;
    if (from <= seen + NEAR) seen = Math.max(seen, to);
    const whole = height - NEAR;
    return height <= last - first ? from <= NEAR && to >= whole : seen >= whole;
  }

  const sizes = new ResizeObserver(look);
  addEventListener("scroll", look, true);
  onCleanup(() => {
    sizes.disconnect();
    removeEventListener("scroll", look, true);
  });

  return {
    /** What has to be read. */
    place(element: HTMLElement): void {
      box = element;
      sizes.observe(element);
    },
    /** Whether a key was pressed too early. */
    unread,
    /** When a key is pressed: what was not seen yet is shown, and the key does nothing. */
    isRead(): boolean {
      const read = look();
      setUnread(!read);
      if (read || !box) return read;
      const [first, last] = roomOf(box);
      const fits = height <= last - first;
      box.style.scrollMarginTop = `${fits ? 0 : Math.min(0, OVERLAP - seen)}px`;
      box.scrollIntoView({ block: fits ? "center" : "start" });
      return false;
    },
  };
}

/** From where to where a part of the page is on the screen. */
function roomOf(element: HTMLElement): [first: number, last: number] {
  let [first, last] = [0, innerHeight];
  for (let around = element.parentElement; around; around = around.parentElement) {
    if (getComputedStyle(around).overflowY === "visible") continue;
    const { top, bottom } = around.getBoundingClientRect();
    [first, last] = [Math.max(first, top), Math.min(last, bottom)];
  }
  return [first, last];
}
