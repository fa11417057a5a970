// Nobody is signed in here. A link is good for ten minutes and once.

import { Brand } from "./marks";

export function SignIn(props: { why: string | undefined }) {
  return (
    <main class="page sign-in" id="main">
      <Brand class="brand-m" />
      <h1>Sign in to this hive</h1>
      {props.why ? (
        <div class="notice bad" role="alert">
          {props.why}
        </div>
      ) : null}
      <p>
        On the machine where the hive runs, this prints a link that is good for ten minutes, once:
      </p>
      <code class="cmd">skep link</code>
      <p class="muted">
        The link works in one browser. After that this browser stays signed in for 30 days.
      </p>
    </main>
  );
}
