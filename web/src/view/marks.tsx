// Icons and state marks. A mark says by its shape what its colour repeats.

type MainIcon = "home" | "chat" | "approve" | "team" | "work";
type PageIcon = MainIcon | "usage" | "log" | "models" | "vault";
type RunIcon = "pause" | "stop" | "send" | "retry";
type ActIcon = RunIcon | "search" | "menu" | "clip" | "slash" | "pen" | "x";
type TalkIcon = "copy" | "check" | "plus" | "more" | "pin" | "down" | "box" | "trash";
export type IconName = PageIcon | ActIcon | TalkIcon | "ask" | "warn" | "chev" | "file" | "folder";

export function Icon(props: { name: IconName; class?: string }) {
  return (
    <svg class={`i ${props.class ?? ""}`} aria-hidden="true">
      <use href={`#i-${props.name}`} />
    </svg>
  );
}

export type MarkName = "run" | "wait" | "idle" | "queue" | "pause" | "stop" | "fail" | "done";

const NAMES: Record<MarkName, string> = {
  run: "running",
  wait: "waiting",
  idle: "idle",
  queue: "queued",
  pause: "paused",
  stop: "stopped",
  fail: "failed",
  done: "done",
};

/** `quiet`: the words beside it say the same. */
export function Mark(props: { name: MarkName; quiet?: boolean; label?: string }) {
  return (
    <svg
      class={`st st-${props.name}`}
      role={props.quiet ? undefined : "img"}
      aria-label={props.quiet ? undefined : (props.label ?? NAMES[props.name])}
      aria-hidden={props.quiet ? "true" : undefined}
    >
      <use href={`#s-${props.name}`} />
    </svg>
  );
}

export function Brand(props: { class?: string }) {
  return (
    <svg class={props.class} aria-hidden="true">
      <use href="#skep" />
    </svg>
  );
}
