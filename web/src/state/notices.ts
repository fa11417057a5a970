// Tells a person who looks elsewhere that something waits or a turn has ended, where they asked
// for that. Permission is asked for when they do, never on its own.

import { createSignal } from "solid-js";
import type { Live } from "./live";
import { href, type Route, type Router, talkOf } from "./route";

const STORED = "skep.notify";

export function createNotices(live: Live, router: Router) {
  const known = typeof Notification !== "undefined";
  const allowed = () => known && Notification.permission === "granted";
  const [on, setOn] = createSignal(allowed() && localStorage.getItem(STORED) !== null);
  const [problem, setProblem] = createSignal<string>();

  async function want(wanted: boolean): Promise<void> {
    if (wanted && known) await Notification.requestPermission();
    setOn(wanted && allowed());
    setProblem(wanted && !on() ? "This browser does not allow notifications here." : undefined);
    if (on()) localStorage.setItem(STORED, "yes");
    else localStorage.removeItem(STORED);
  }

  function show(title: string, body: string, to: Route): void {
    if (!on() || !document.hidden) return;
    try {
      const notice = new Notification(title, { body, tag: href(to), icon: "/icon-192.png" });
      notice.onclick = () => {
        notice.close();
        window.focus();
        router.go(to);
      };
    } catch {
      // Some phones let only service workers do this.
    }
  }

  /** By turn: where it was asked for. */
  const keys = new Map<string, string>();
  live.on({
    snapshot: ({ turns }) => turns.forEach((one) => keys.set(one.turn, one.session_key)),
    event(event) {
      const { agent = "", session, turn } = event;
      const key = keys.get(turn ?? "") ?? "main";
      if (event.type === "turn_start") keys.set(turn ?? "", event.session_key);
      else if (event.type === "approval_asked") {
        const to: Route = { page: "approvals", id: event.approval };
        show(`${agent} needs approval`, `Tool call: ${event.tool}`, to);
      } else if (event.type === "question_asked" && event.to === "operator") {
        // Nobody waits for a reply to a message.
        const words = event.expires_at ? "needs an answer" : "has written";
        show(`${agent} ${words}`, "", { page: "home" });
      } else if (event.type === "turn_end") {
        keys.delete(turn ?? "");
        const words = event.ok ? "has answered" : "could not answer";
        const to = talkOf({ agent: agent ?? "", session_key: key, session });
        show(`${agent} ${words}`, event.error ?? "", to);
      }
    },
  });
  return { on, problem, want };
}

export type Notices = ReturnType<typeof createNotices>;
