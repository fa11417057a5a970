// What every view may need: the hive, the link to it, the place.

import { createContext, useContext } from "solid-js";
import type { Action } from "../api/types";
import type { Approvals } from "../state/approvals";
import type { Dismissed } from "../state/dismissed";
import type { Drafts } from "../state/drafts";
import type { FirstRun } from "../state/firstRun";
import type { HiveModel } from "../state/hive";
import type { Live } from "../state/live";
import type { Notices } from "../state/notices";
import type { Outbox } from "../state/outbox";
import type { People } from "../state/people";
import type { Questions } from "../state/questions";
import type { Router } from "../state/route";

export interface Page {
  hive: HiveModel;
  approvals: Approvals;
  dismissed: Dismissed;
  drafts: Drafts;
  firstRun: FirstRun;
  live: Live;
  notices: Notices;
  outbox: Outbox;
  questions: Questions;
  router: Router;
  /** Opens the search. */
  find: () => void;
  /** Opens the list of keys. */
  shortcuts: () => void;
  /** What the open conversation is called, for the title of the window. */
  setConversation: (name: string | undefined) => void;
  me: string;
  /** What a principal is called. */
  whoIs: People;
  /** What the role of whoever looks allows; the hive refuses the rest. */
  may: (action: Action) => boolean;
}

export const PageContext = createContext<Page>();

export function usePage(): Page {
  const page = useContext(PageContext);
  if (!page) throw new Error("a view outside of the page");
  return page;
}
