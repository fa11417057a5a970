// Says that the hive is away, and that it is back.

import { Show } from "solid-js";
import type { Link } from "../state/live";
import { clock, plural } from "../text/format";
import { usePage } from "./context";
import { createClock } from "./hooks";
import { Mark } from "./marks";

/** `unsent`: messages of the conversation it stands in. */
export function LinkNotice(props: { class: "notice" | "strip"; unsent?: number }) {
  const { live } = usePage();
  const now = createClock(1000);
  function link<S extends Link["state"]>(state: S): Extract<Link, { state: S }> | undefined {
    const link = live.link();
    return link.state === state ? (link as Extract<Link, { state: S }>) : undefined;
  }
  const rest = (again: number) => Math.max(0, Math.ceil((again - now()) / 1000));
  const words = () =>
    props.unsent
      ? `${plural(props.unsent, "message")} will be sent on reconnect.`
      : "Messages you write are sent when the connection is back.";
  return (
    <div class="notices" role="status">
      <Show when={link("offline")}>
        {(link) => (
          <div class={props.class}>
            <Mark name="queue" quiet />
            <span class="grow">
              <b>Disconnected since {clock(link().since)}.</b> {words()}
            </span>
            <span class="small faint nowrap hide-s" aria-hidden="true">
              retrying in {rest(link().again)} s
            </span>
            <button class="btn bare" onClick={() => live.now()}>
              Retry now
            </button>
          </div>
        )}
      </Show>
      <Show when={link("resync")}>
        <div class={props.class}>
          <Mark name="run" quiet />
          <span class="grow">Connected. Loading changes…</span>
        </div>
      </Show>
    </div>
  );
}
