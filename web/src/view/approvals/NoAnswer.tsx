// Above the composer: a typed "yes" decides nothing.

import { Mark } from "../marks";

export function NoAnswer(props: { send: () => void; close: () => void }) {
  return (
    <div class="strip" role="alert">
      <Mark name="wait" quiet />
      <span class="grow">
        Chat messages never approve anything. Use the buttons of the approval above.
      </span>
      <button class="btn bare" onClick={() => props.send()}>
        Send anyway
      </button>
      <button class="btn bare" onClick={() => props.close()}>
        Cancel
      </button>
    </div>
  );
}
