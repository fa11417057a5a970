// A decision in the making: its scope, a pattern for each command, and what these match.

import { createEffect, createSignal, on } from "solid-js";
import { query } from "../../api/http";
import type { ApprovalInfo, Covered, Scope } from "../../api/types";
import type { Choice } from "../../state/approvals";
import { usePage } from "../context";
import { createAction, createReading } from "../hooks";
import { createCommandReading } from "./reading";

/** A key pressed for the item before must not decide this one. */
const SETTLE = 400;

export function createChoice(approval: () => ApprovalInfo) {
  const { approvals } = usePage();
  const { busy, problem, run, forget } = createAction();
  const reading = createCommandReading();
  const [scope, setScope] = createSignal<Scope>("once");
  const [patterns, setPatterns] = createSignal<string[]>([]);
  let since = Date.now();
  createEffect(
    on(
      () => approval().id,
      () => {
        since = Date.now();
        setScope("once");
        setPatterns(approval().commands.map((part) => part.patterns[0] ?? ""));
        forget();
      },
    ),
  );
  const lasts = () => scope() !== "once";
  const given = () => patterns().map((pattern) => pattern.trim());
  const missing = () => given().includes("");
  const covered = createReading<Covered>(() => {
    if (!lasts() || missing()) return undefined;
    // Without any it is about exactly this call.
    const patterns = given().length ? JSON.stringify(given()) : undefined;
    return `/approvals/${approval().id}/covers${query({ scope: scope(), patterns })}`;
  });
  const preview = () =>
    lasts() && !missing() && !covered.loading ? covered.latest : undefined;

  /** Why it cannot be approved so; `bad` where somebody has to change something. */
  function blocked(): { why: string; bad: boolean } | undefined {
    if (!lasts()) return undefined;
    if (missing()) return { why: "Enter a pattern to preview it.", bad: false };
    if (covered.error) return { why: covered.error, bad: true };
    const found = preview();
    if (!found) return { why: "Checking what it matches…", bad: false };
    const why = `The pattern does not match this call: ${found.why}`;
    return found.covers ? undefined : { why, bad: true };
  }

  async function decide(decision: Choice["decision"], note = ""): Promise<void> {
    const approves = decision === "approve";
    if (approves && blocked()) return;
    const choice: Choice = { decision, scope: approves ? scope() : "once" };
    if (approves && lasts()) choice.patterns = given();
    if (note.trim()) choice.note = note.trim();
    await run(() => approvals.decide(approval(), choice), "Not decided: ");
  }

  const still = () => busy() || approvals.moved();
  return {
    /** Of its command. */
    reading,
    /** Whether its buttons do nothing now. */
    still,
    /** By its button. */
    press: (...[decision, note]: Parameters<typeof decide>) =>
      still() ? undefined : void decide(decision, note),
    problem,
    scope,
    setScope,
    lasts,
    patterns,
    write: (at: number, text: string) =>
      setPatterns((all) => all.map((one, index) => (index === at ? text : one))),
    preview,
    blocked,
    decide,
    /** Whether something pressed at this time was meant for the item before. */
    isEarly: (at: number) => at - since < SETTLE,
    /** Keys decide this one from now on. */
    settle: () => (since = Date.now()),
  };
}

export type DecisionChoice = ReturnType<typeof createChoice>;
