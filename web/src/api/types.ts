// What the hive answers: the shapes of `/api/v1`, as its OpenAPI document has them.

export type Block =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string; signature?: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "toolCall"; id: string; name: string; arguments: unknown }
  | FileBlock;

export interface FileBlock {
  type: "file";
  name: string;
  mime: string;
  size: number;
  hash: string;
}

export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  /** Dollars; absent where the price is not known. */
  cost?: number;
}

export interface Meta {
  provider: string;
  model: string;
  api: string;
  usage: Usage;
  stopReason: string;
}

export interface Message {
  type: "history";
  id: string;
  seq: number;
  turn: string;
  agentId: string;
  sessionId: string;
  timestamp: number;
  role: "user" | "assistant" | "toolResult" | "system";
  content: Block[];
  meta?: Meta;
  toolCallId?: string;
  toolName?: string;
  isError?: boolean;
  details?: { diff?: string } & Record<string, unknown>;
  origin?: { item: string; messageId: string; channel: string; principal: string };
}

export interface ActiveTurn {
  turn: string;
  agent: string;
  session: string;
  session_key: string;
  token: number;
  call: number;
  /** Deltas up to here are in `content`. */
  deltas: number;
  content: Block[];
}

export interface HistoryPage {
  messages: Message[];
  session?: string;
  view: View;
  streaming: boolean;
  active?: ActiveTurn;
  /** How full the model's context was at the last call, in tokens. */
  context?: Context;
  before?: number;
}

export interface Context {
  used: number;
  window: number | null;
  /** What `used` consists of; tools and system are reckoned. */
  parts?: { tools: number; system: number; history: number; newest: number };
}

export type View = "simple" | "full";

export interface Agent {
  name: string;
  description: string;
  status: "active" | "failed";
  error?: string;
  engine: string;
  model: string;
  queue_depth?: number;
  active_turns?: number;
}

export interface Turn {
  turn: string;
  agent: string;
  session: string;
  session_key: string;
  state: string;
  since: number;
  steps: number;
  waiting_for?: string;
}

export interface UnknownCall {
  turn: string;
  call_id: string;
  agent: string;
  tool: string;
  at: number;
}

export interface Snapshot {
  seq: number;
  hive: { version: string; started_at: number; model_note: string; store: string };
  agents: Agent[];
  turns: Turn[];
  /** For those who see all of it. */
  queue?: { pending: number; running: number; waiting: number };
  unknown_calls: UnknownCall[];
  spend?: Spend;
}

/** What today has cost so far. */
export interface Spend {
  calls: number;
  tokens: number;
  /** Null when the price of a call is not known. */
  cost: number | null;
  known_cost: number;
  unpriced_calls: number;
  limits: { cost_per_day?: number; tokens_per_day?: number };
}

/** A call that a person has to decide, or had to. */
export interface Approval {
  id: string;
  agent: string;
  session: string;
  session_key: string;
  item?: string;
  turn: string;
  call: string;
  tool: string;
  class: string;
  arguments: unknown;
  /** The whole of it, as people read it. */
  shown: string;
  cwd: string;
  files: NamedFile[];
  /** Which files a yes is tied to. */
  bound: "named" | "workspace" | "nothing";
  /** Over the agent, the tool, the exact arguments, the folder and the files. */
  hash: string;
  why: Verdict;
  state: "open" | "approved" | "denied" | "expired" | "withdrawn";
  asked_by: string;
  asked_at: number;
  expires_at: number;
  decision?: {
    by: string;
    at: number;
    from?: string;
    scope: "once" | "session" | "always";
    pattern?: string;
    note?: string;
    /** When the call ran with it. */
    used?: number;
  };
  /** The narrowest first. */
  patterns: string[];
  /** It expired once: a yes runs the call as an item of its own. */
  reopened: boolean;
}

/** What a pattern would come to. */
export interface Covered {
  covers: boolean;
  why: string;
  /** Other open ones that it would answer too. */
  others: Approval[];
}

/** What a call names in the workspace, as it was when the question was asked. */
export interface NamedFile {
  path: string;
  /** Where it leads, when that is another path. */
  target?: string;
  kind: string;
  sha256?: string;
  bytes?: number;
}

export type Effect = "allow" | "ask" | "deny";

/** What the policy says to a call, and why. */
export interface Verdict {
  effect: Effect;
  why: string;
  /** The rule that decided; absent where the class did. */
  rule?: string;
  parts: {
    part: string;
    who: string;
    effect: Effect;
    why: string;
    rule?: string;
    rules: { rule: string; place: string; matched: boolean; why: string }[];
    /** Rules that were looked at and are not told. */
    untold?: number;
  }[];
}

/** What would be decided about a call nobody makes. */
export interface Why extends Verdict {
  /** Whether the agent has the tool at all. */
  listed: boolean;
}

/** A yes for a while. */
export interface Grant {
  id: string;
  agent: string;
  tool: string;
  path?: string;
  command?: string;
  host?: string;
  made_by: string;
  until?: number;
}

/** Absent where nothing limits it. */
export interface Caps {
  tokens?: number;
  cost?: number;
}

/** What may be used, what is, and what calls under way hold. */
export interface Budget {
  limits: Caps;
  tokens: number;
  cost: number;
  unsettled_tokens: number;
  unsettled_cost: number;
  held_tokens: number;
  held_cost: number;
}

export interface BudgetPage {
  hive: Budget;
  agents: (Budget & { agent: string; per_turn: Caps })[];
  per_turn: Caps;
}

/** One row of the audit trail. */
export interface AuditRow {
  id: number;
  at: number;
  kind: string;
  principal?: string;
  agent?: string;
  session?: string;
  turn?: string;
  call_id?: string;
  tool?: string;
  arguments: unknown;
  decision: { stage: string; word: string }[];
  outcome: string;
  took_ms: number;
  bytes: number;
  hash: string;
}

export interface AuditPage {
  rows: AuditRow[];
  next?: number;
}

export interface AuditVerdict {
  ok: boolean;
  rows: number;
  hash: string;
  findings: { kind: string; row: number; text: string }[];
  more: number;
}

/** One thing the program noted; what else belongs to it stands beside these. */
export interface LogLine {
  time: string;
  level: string;
  target: string;
  agent?: string;
  turn?: string;
  tool?: string;
  message: string;
}

/** What one agent used of one model in one hour or day. */
export interface UsageRow {
  at: number;
  agent: string;
  profile: string;
  model: string;
  calls: number;
  turns: number;
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  tokens: number;
  cost: number | null;
  known_cost: number;
  unpriced_calls: number;
}

export interface UsagePage {
  by: "hour" | "day";
  since: number;
  until: number;
  rows: UsageRow[];
}

export interface SessionInfo {
  id: string;
  agent: string;
  session_key: string;
  /** Its first words. */
  title: string;
  created_at: number;
  last_at: number;
  messages: number;
  tokens: number;
  cost?: number;
  /** Its key leads here now. */
  current: boolean;
  forked_from?: { session: string; at: number };
}

export interface SearchHit {
  agent: string;
  session: string;
  session_key: string;
  seq: number;
  timestamp: number;
  role: string;
  excerpt: string;
  cut: boolean;
  /** The matches in the excerpt: first character and length. */
  marks: [number, number][];
}

export interface InboxItem {
  item_id: string;
  message_id: string;
  agent: string;
  session_key: string;
  kind: string;
  state: ItemState;
  attempts: number;
  preview: string;
  error?: { code: string; error: string };
  created_at: number;
  finished_at?: number;
  ord: number;
}

export type ItemState =
  "pending" | "running" | "waiting" | "done" | "failed" | "cancelled" | "dead";

export interface Receipt {
  message_id: string;
  item_id: string;
  agent: string;
  session_key: string;
  state: "started" | "queued" | "waiting" | "done";
  note?: string;
}

interface EventBase {
  seq?: number;
  at: number;
  agent: string;
  session?: string;
  turn?: string;
}

export type LiveEvent = EventBase &
  (
    | {
        type: "turn_start";
        session_key: string;
        token: number;
        from: string;
        body: string;
        resumed: boolean;
      }
    | {
        type: "delta";
        token: number;
        call: number;
        index: number;
        part: "text" | "thinking";
        text: string;
      }
    | { type: "tool_start"; call_id: string; tool: string }
    | { type: "tool_end"; call_id: string; tool: string; is_error: boolean; state: string }
    | { type: "history_updated"; first: number; last: number }
    | { type: "turn_end"; ok: boolean; outcome: string; note?: string; usage: Usage }
    | { type: "turn_waiting"; reason: string; until?: number }
    | { type: "inbox_accepted"; item: string; message_id: string; session_key: string }
    | { type: "inbox_ended"; item: string; message_id: string; state: ItemState }
    | { type: "call_unknown"; call_id: string; tool: string }
    | { type: "call_resolved"; call_id: string; tool: string }
    | { type: "approval_asked"; approval: string; call_id: string; tool: string }
    | { type: "approval_decided"; approval: string; state: Approval["state"]; by?: string }
    | { type: "status"; state: string; reason?: string }
  );
