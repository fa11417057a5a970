// Numbers, times and sizes as people read them.

import type { UndeliveredFrame } from "../api/types";
import { inert, isBlank } from "./visible";

export function clock(at: number, now = Date.now()): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  if (sameDay(date, new Date(now))) return time;
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  if (sameDay(date, yesterday)) return `yesterday ${time}`;
  const day = date.toLocaleDateString([], { day: "numeric", month: "short" });
  return `${day} ${time}`;
}

function sameDay(a: Date, b: Date): boolean {
  return a.toDateString() === b.toDateString();
}

/** How long something takes: `40 ms`, `3.1 s`, `3:41`. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = String(seconds % 60).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `212`, `1.1 k`, `61.2 k`, `1.9 M`. */
export function count(value: number): string {
  if (value < 1000) return String(value);
  if (value < 999_950) return `${(value / 1000).toFixed(1)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

/** Dollars with two decimals, four below a cent; an unknown price says so. */
export function money(value: number | undefined | null): string {
  if (value === undefined || value === null) return "price unknown";
  if (value > 0 && value < 0.01) return `$${value.toFixed(4)}`;
  return `$${value.toFixed(2)}`;
}

/** What became of a frame that its channel did not take. */
export function undelivered(channel: string, frame: UndeliveredFrame): string {
  const why = frame.reason ? `: ${frame.reason}` : "";
  if (frame.state === "refused") return `${channel} refused the ${frame.kind}${why}`;
  return `${channel} has not taken the ${frame.kind} yet, after ${frame.attempts} tries${why}`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${Math.round(value / 1000)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

/** `1 turn`, `2 turns`. */
export function plural(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** As a sentence: `no room` is `No room.` */
export function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** The first words of a text. */
export function title(text: string, longest = 60): string {
  const line = inert(text.trim().split("\n", 1)[0] ?? "");
  return line.length > longest ? `${line.slice(0, longest - 1)}…` : line;
}

/** Without its middle: names that begin alike stay apart. */
export function ends(text: string, most: number): string {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** What a conversation is called; one whose words say nothing, by when it began. */
export function nameOf(of: { title: string; agent: string; created_at: number }): string {
  return isBlank(of.title) ? `${of.agent}, ${clock(of.created_at)}` : inert(of.title);
}
