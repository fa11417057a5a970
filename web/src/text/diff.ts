// A unified diff, line by line with its numbers, and which words of a changed line differ.

import type { Message } from "../api/types";

export interface Line {
  sign: " " | "+" | "-";
  number: number;
  /** Pieces of the line; `changed` ones differ from the line it replaces. */
  pieces: { text: string; changed: boolean }[];
}

/** The change a tool reports with its result. */
export function diffOf(message: Message | undefined): string | undefined {
  const details = message?.details as { diff?: unknown } | null | undefined;
  return typeof details?.diff === "string" ? details.diff : undefined;
}

/** What the changes of one file come to. */
export interface ChangedFile {
  path: string;
  added: number;
  removed: number;
  /** It was not there before. */
  isNew: boolean;
}

/** Each file once. A change without a path names it in its first line. */
export function changedFiles(changes: { path?: string; diff: string }[]): ChangedFile[] {
  const files = new Map<string, ChangedFile>();
  for (const { diff, path = /^--- (.*)/.exec(diff)?.[1] ?? "a file" } of changes) {
    const { added, removed } = parse(diff);
    const isNew = diff.includes("\n@@ -0,0 ");
    const file = files.get(path) ?? { path, added: 0, removed: 0, isNew };
    files.set(path, { ...file, added: file.added + added, removed: file.removed + removed });
  }
  return [...files.values()];
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

export function parse(text: string) {
  const lines: (Line | "gap")[] = [];
  let [before, after, added, removed] = [1, 1, 0, 0];
  let inside = false;
  for (const raw of text.split("\n")) {
    const hunk = HUNK.exec(raw);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      if (lines.length) lines.push("gap");
      inside = true;
    } else if (!inside || raw.startsWith("\\")) {
      continue;
    } else if (raw.startsWith("+")) {
      lines.push(line("+", after++, raw.slice(1)));
      added += 1;
    } else if (raw.startsWith("-")) {
      lines.push(line("-", before++, raw.slice(1)));
      removed += 1;
    } else if (raw.startsWith(" ")) {
      lines.push(line(" ", after++, raw.slice(1)));
      before += 1;
    }
  }
  markWords(lines);
  return { lines, added, removed };
}

function line(sign: Line["sign"], number: number, text: string): Line {
  return { sign, number, pieces: [{ text, changed: false }] };
}

/** A run of removed lines followed by as many added ones: each is compared with its own. */
function markWords(lines: (Line | "gap")[]): void {
  let at = 0;
  while (at < lines.length) {
    const removed = run(lines, at, "-");
    const added = run(lines, at + removed.length, "+");
    if (removed.length > 0 && removed.length === added.length) {
      removed.forEach((old, index) => markPair(old, added[index]!));
    }
    at += Math.max(1, removed.length + added.length);
  }
}

function run(lines: (Line | "gap")[], from: number, sign: string): Line[] {
  const found: Line[] = [];
  for (let at = from; at < lines.length; at++) {
    const one = lines[at];
    if (one === undefined || one === "gap" || one.sign !== sign) break;
    found.push(one);
  }
  return found;
}

/** What the two lines share at both ends is not marked; where they share nothing, nothing is. */
function markPair(old: Line, fresh: Line): void {
  const [a, b] = [words(old), words(fresh)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  )
    end++;
  const shared = [...a.slice(0, start), ...a.slice(a.length - end)];
  if (shared.join("").trim() === "") return;
  old.pieces = pieces(a, start, end);
  fresh.pieces = pieces(b, start, end);
}

function words(one: Line): string[] {
  return one.pieces[0]?.text.match(/\w+|\s+|[^\w\s]/g) ?? [];
}

function pieces(parts: string[], start: number, end: number): Line["pieces"] {
  const cut = [
    { text: parts.slice(0, start).join(""), changed: false },
    { text: parts.slice(start, parts.length - end).join(""), changed: true },
    { text: parts.slice(parts.length - end).join(""), changed: false },
  ];
  return cut.filter((piece) => piece.text !== "");
}
