// Light, dark or what the system says; `theme.js` uses it again before the next first paint.

import { createSignal } from "solid-js";

const STORED = "skep.theme";
export type Theme = "system" | "light" | "dark";
export const THEMES: [Theme, string][] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

const { dataset } = document.documentElement;
const [theme, set] = createSignal((dataset["theme"] ?? "system") as Theme);
export { theme };

export function setTheme(to: Theme): void {
  if (to === "system") {
    delete dataset["theme"];
    localStorage.removeItem(STORED);
  } else {
    dataset["theme"] = to;
    localStorage.setItem(STORED, to);
  }
  set(to);
}
