// The mark of what an agent or a conversation is doing. While the hive is away nobody knows whether
// it still does: the mark says what it was.

import type { Standing } from "../state/standing";
import { clock } from "../text/format";
import { usePage } from "./context";
import { Mark, type MarkName } from "./marks";

const MARKS: Record<Standing, MarkName> = {
  running: "run",
  waiting: "wait",
  retrying: "queue",
  queued: "queue",
  failed: "fail",
  idle: "idle",
};

export function StandingMark(props: { of: Standing }) {
  const { live } = usePage();
  const was = () => live.away() !== undefined && props.of === "running";
  return (
    <Mark
      name={was() ? "idle" : MARKS[props.of]}
      label={was() ? "was running" : props.of}
    />
  );
}

/** `running`, or while the hive is away `running at 14:32`. */
export function standingWords(of: Standing, away: number | undefined): string {
  return away === undefined || of !== "running" ? of : `running at ${clock(away)}`;
}
