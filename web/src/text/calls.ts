// What a tool call is about, in one line; the words of a message.

import type { Block } from "../api/types";
import { visible } from "./visible";

const MAIN = ["file_path", "command", "pattern", "path", "url", "query", "message"];
const LONGEST = 200;

/** The argument that says most, else all of them. */
export function mainArgument(input: unknown): string {
  if (typeof input !== "object" || input === null) return short(String(input ?? ""));
  const record = input as Record<string, unknown>;
  for (const name of MAIN) {
    const value = record[name];
    if (typeof value !== "string") continue;
    const within =
      name === "pattern" && typeof record.path === "string" ? ` in ${record.path}` : "";
    return short(value + within);
  }
  const entries = Object.entries(record);
  return short(entries.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join("  "));
}

/** Every argument on a line of its own. */
export function allArguments(input: unknown): string {
  if (typeof input !== "object" || input === null) return visible(String(input ?? ""));
  const lines = Object.entries(input as Record<string, unknown>).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return text.includes("\n") ? `${name}:\n${text}` : `${name}: ${text}`;
  });
  return visible(lines.join("\n"));
}

/** How long a call ran: from when the model asked for it, or a person approved it. */
export function ranFor(asked: number, approved: number | undefined, ended: number): number {
  return ended - Math.max(asked, approved ?? asked);
}

export function textOf(blocks: Block[]): string {
  return blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
}

function short(text: string): string {
  const line = visible(text.replaceAll(/\s*\n\s*/g, " ⏎ "));
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}
