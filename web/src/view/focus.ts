// Where the focus goes when what had it leaves the page: to what stands in its place. Never to a
// button there, which the next press would hit.

/** What can be read out as a whole. */
const PLACES = "li, section, article, dialog, [tabindex], main";
const CONTROLS = "button, a, input, select, textarea, summary";

export function keepFocus(): void {
  let last: Node | undefined;
  addEventListener("focusin", ({ target }) => (last = target as Node));
  addEventListener("focusout", () =>
    queueMicrotask(() => {
      // The person has put it nowhere.
      if (last?.isConnected && isNowhere()) last = undefined;
    }),
  );
  const observer = new MutationObserver((records) => {
    if (!last || last.isConnected) return;
    if (isNowhere()) replace(last, records);
    else last = document.activeElement ?? undefined;
  });
  observer.observe(document.body, { childList: true, subtree: true });
}

function isNowhere(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

function replace(lost: Node, records: MutationRecord[]): void {
  for (const { target, addedNodes, removedNodes, nextSibling, previousSibling } of records) {
    if (![...removedNodes].some((node) => node.contains(lost))) continue;
    lost = target;
    if (!target.isConnected) continue;
    const around = (target as Element).closest(PLACES);
    const beside = [...addedNodes, nextSibling, previousSibling, around];
    if (beside.some((place) => place instanceof HTMLElement && focus(place))) return;
  }
}

function focus(place: HTMLElement): boolean {
  if (place.matches(CONTROLS)) return false;
  const to = place.matches(".box") ? place.querySelector("textarea") : place;
  // Nothing would be read out, and an empty box be drawn.
  if (to === place && !place.matches(PLACES) && place.textContent === "") return false;
  if (to?.isConnected && to.tabIndex < 0) to.tabIndex = -1;
  to?.focus({ preventScroll: true });
  return document.activeElement === to;
}
