// Signing in: the link carries a word after `#`, which never reaches a server's log. It is posted
// once and becomes a cookie and a key.

import { get, keep, mayStore, post, Refusal, said, useStoredKey } from "./http";
import type { Entered, Me } from "./types";

const ONCE = /^#once=([\w-]+)$/;

/** Who is signed in here; why not, otherwise. */
export async function signIn(): Promise<{ me: Me } | { why: string | undefined }> {
  if (!mayStore()) {
    const what = "This browser keeps no data for this address, and Skep needs it to sign you in.";
    return { why: `${what} Allow cookies and site data for ${location.host}, then reload.` };
  }
  // A link that is opened where the page is already: the browser does not load it anew.
  addEventListener("hashchange", () => {
    if (ONCE.test(location.hash)) location.reload();
  });
  const once = ONCE.exec(location.hash)?.[1];
  if (once) {
    history.replaceState(null, "", "/");
    try {
      keep((await post<Entered>("/session", { once })).key);
    } catch (error) {
      return { why: said(error) };
    }
  }
  // The page begins anew, as theirs.
  if (!useStoredKey(() => location.reload())) return { why: undefined };
  for (;;) {
    try {
      return { me: await get<Me>("/session") };
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return { why: undefined };
      // The hive is away: the page waits for it as any open page does.
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}
