// Text that somebody has to judge: whatever the eye would miss or be misled by is shown by number,
// as the hive itself does it.

/** Controls but for tab and line end, marks of direction, what has no width, no plain blanks. */
const HIDDEN = new RegExp(
  `[${[
    "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680",
    "\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000",
    "\\u3164\\ue000-\\uf8ff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb",
    "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\u{f0000}-\\u{10ffff}",
  ].join("")}]`,
  "gu",
);

/** Blanks in a row that stay as they are, and line ends among them. */
const BLANKS = 80;
const LINE_ENDS = 10;

function bounded(blank: string): string {
  const lineEnds = blank.split("\n").length - 1;
  if (blank.length <= BLANKS && lineEnds <= LINE_ENDS) return blank;
  return `‹${blank.length - lineEnds} blanks, ${lineEnds} line ends›`;
}

export function visible(text: string): string {
  return text.replace(/[ \t\n]+/g, bounded).replace(HIDDEN, number);
}

/** A name: it has one line, so the end of one is shown by number too. */
export function visibleName(name: string): string {
  return visible(name).replace(/[\t\n]/g, number);
}

/** Whether the eye sees nothing of it. */
export function isBlank(text: string): boolean {
  return text.replace(HIDDEN, "").trim() === "";
}

/** Controls, and marks that turn what comes after them around. */
const TURNING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g;

/** Text that is read and not judged, of any script: only what would mislead is shown by number. */
export function inert(text: string): string {
  return text.replace(TURNING, number);
}

function number(found: string): string {
  const code = found.codePointAt(0) ?? 0;
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

export function lineCount(text: string): number {
  return text === "" ? 0 : text.replace(/\n$/, "").split("\n").length;
}
