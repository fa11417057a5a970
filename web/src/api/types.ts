// Generated from the OpenAPI document by page_types_tests.rs of skep-server.
// Do not edit; checksum 883380ea2d7a8565.

export type AckState = "started" | "queued" | "waiting" | "done";

export type Action = "see_self" | "list_agents" | "talk" | "read_history" | "read_files" | "watch" | "connect" | "read_settings" | "read_metrics" | "read_logs" | "read_audit" | "manage_tokens" | "decide" | "approve" | "configure" | "shutdown";

/** The model call under way, for whoever comes late. Its deltas up to `deltas` are in `content`. */
export interface ActiveTurn {
  turn: TurnId;
  agent: AgentName;
  session: SessionId;
  session_key: SessionKey;
  token: Token;
  call: number;
  deltas: number;
  content: Block[];
}

export interface AgentBody {
  name: string;
  /** The agent whose team it belongs to; absent for a root of the tree. */
  parent?: string | null;
  /** What it is for, in a sentence. */
  description?: string;
  engine?: string | null;
  profile?: string | null;
  /** Those that every agent has, where it is left out. */
  allowed_tools?: string[] | null;
  /** Keywords of work that it takes. */
  scope_accepts?: string[];
}

export type AgentBudget = BudgetInfo & {
  agent: AgentName;
  /** What one of its turns may use, where its settings say so. */
  per_turn: CapsInfo;
  team?: BudgetInfo | null;
};

/** What the model calls of an agent used today, and what they may. */
export interface AgentDay {
  calls: number;
  tokens: number;
  /** Dollars of the calls whose price is known. */
  known_cost: number;
  unpriced_calls: number;
  /** Absent where nothing limits it. */
  cost_per_day?: number | null;
  tokens_per_day?: number | null;
}

/** The text of an agent's file, and what is in force. */
export interface AgentFile {
  agent: AgentName;
  /** Below the home. */
  path: string;
  /** Without secrets. */
  text: string;
  /** Names this text when it is changed. Absent where the file holds a secret: such a file is changed on the disk alone. */
  hash?: string | null;
  /** The keys that the file sets; the others have their defaults. */
  written: string[];
  /** Why this text is not in force, where it is not. */
  problems: ConfigProblem[];
  effective?: EffectiveSettings | null;
}

export interface AgentInfo {
  name: AgentName;
  /** After its removal it is found as `id:N`; for those who see the whole hive. */
  id?: number | null;
  parent?: AgentName | null;
  description: string;
  /** `active`, `paused`, `stopped` or `failed`. */
  status: string;
  error?: string | null;
  engine: string;
  model: string;
  capabilities?: Capabilities | null;
  /** Where the programs it starts run: `confined`, or `host` without any walls. */
  sandbox?: string | null;
  /** What they reach from there: `none`, `proxy` (the hosts of its `network`), or `full`, whatever this machine reaches. On the host always `full`. */
  network?: string | null;
  /** Tools in its list or rules that are not there now: whoever brings them is not there either. */
  missing_tools?: string[];
  /** Where and why its policy cannot be read: all of its tool calls are denied. For those who see the whole hive. */
  policy_error?: string | null;
  work?: WorkInfo | null;
  /** What it says it does; for those who see all of it. */
  doing?: string | null;
  today?: AgentDay | null;
}

/** The limits of one agent; absent where there is none. */
export interface AgentLimits {
  tokens_per_day?: number | null;
  cost_per_day?: number | null;
  team_tokens_per_day?: number | null;
  team_cost_per_day?: number | null;
  tokens_per_turn?: number | null;
  cost_per_turn?: number | null;
  turn_seconds?: number | null;
}

/** The name of an agent; unique among the living ones. */
export type AgentName = string;

export interface Agents {
  agents: AgentInfo[];
}

export interface Answer {
  role: string;
  content: string;
}

/** A call that waits for a person, in short. */
export interface ApprovalBrief {
  id: string;
  agent: AgentName;
  session_key: SessionKey;
  tool: string;
  /** In one line: the first line of the command, or what else the call is about. */
  summary: string;
  asked_at: i64;
  expires_at: i64;
}

/** A call that waits, or waited, for a person. */
export interface ApprovalInfo {
  id: string;
  agent: AgentName;
  session: SessionId;
  session_key: SessionKey;
  item?: ItemId | null;
  turn: TurnId;
  call: CallId;
  tool: string;
  class: string;
  /** Exactly what would run. */
  arguments: Record<string, unknown>;
  /** The same for people: whole, and with everything invisible made visible. */
  shown: string;
  /** The same in one line: the first line of the command, or what else the call is about. */
  summary: string;
  /** What the agent said in the message that asks for the call: its beginning, with everything invisible made visible. Absent where it said nothing. */
  words?: string | null;
  /** The folder it would run in. */
  cwd: string;
  sandbox?: SandboxLevel | null;
  network?: NetworkAccess | null;
  /** Where that is `listed`: the hosts and addresses of the agent's `network`. Other ones than at the question ask again. */
  hosts?: string[];
  /** What the arguments name in the workspace, as it was when the question was asked. */
  files: NamedFile[];
  /** Which files a yes is tied to. */
  bound: Bound;
  /** What a decision is bound to; to be sent back with it. */
  hash: string;
  /** Why it was asked: the whole decision of the policy. */
  why: Verdict;
  /** Who may answer, as the rules said when it was asked: one of each list. */
  approvers: Approvers;
  /** Why whoever reads this may not answer; absent: they may. */
  refused?: string | null;
  /** `shape`: the call does not wait, and runs by itself once it is approved. */
  kind: ApprovalKind;
  state: ApprovalState;
  /** It expired once and was asked again: a yes runs the call as an item of its own. */
  reopened: boolean;
  /** Whose messages led to the call. */
  asked_by: string[];
  asked_at: i64;
  expires_at: i64;
  decision?: DecisionInfo | null;
  /** What a lasting yes has to cover, all of it: each command of its line, else its path or its host. Empty where the call names nothing of the kind, or more than can be listed. */
  commands: CallPart[];
  /** Why no yes to it can last: no rule could be about calls like it and no others. Absent: one can. */
  once_only?: string | null;
}

export type ApprovalKind = "call" | "shape";

export interface ApprovalPage {
  /** The newest first. */
  approvals: ApprovalInfo[];
  /** Give it as `cursor` for the next page; absent on the last. */
  next?: number | null;
}

export type ApprovalState = "open" | "approved" | "denied" | "expired" | "withdrawn";

/** Lists of people: whoever answers is on each. A call is asked about once, also where several rules ask about parts of it. */
export type Approvers = string[][];

/** The files of a conversation, each content once. */
export interface AttachmentSum {
  count: number;
  bytes: number;
}

export interface AuditFinding {
  kind: FindingKind;
  /** The row it is about, or the first of several. */
  row: number;
  text: string;
}

/** One row of the audit trail. What a row of its kind does not have is absent. */
export interface AuditInfo {
  id: number;
  at: i64;
  kind: AuditKind;
  /** Who asked for the turn, or who decided. */
  principal?: string | null;
  agent?: string | null;
  /** Another agent may have had the same name. Absent in rows from before there was one. */
  agent_id?: number | null;
  session?: string | null;
  turn?: string | null;
  call_id?: string | null;
  tool?: string | null;
  /** Of a call, without secrets; of other kinds, what there is to say. */
  arguments: unknown;
  /** What each stage of the gate said: a list of `{stage, word}`. */
  decision: unknown;
  outcome: string;
  took_ms: number;
  /** Of the answer. */
  bytes: number;
  /** SHA-256 over this row and the hash before it. */
  hash: string;
}

export type AuditKind = "call" | "contact" | "decision" | "change" | "checkpoint" | "break";

export interface AuditPage {
  /** Newest first. A page may be short, even empty, and still have a `next`. */
  rows: AuditInfo[];
  next?: number | null;
}

/** What the reading of a whole trail came to. */
export interface AuditVerdict {
  /** Nothing was found. */
  ok: boolean;
  rows: number;
  first: number;
  last: number;
  /** Of the last row, in hexadecimal: kept elsewhere, it proves everything before it. */
  hash: string;
  findings: AuditFinding[];
  /** How many findings are not listed. */
  more: number;
}

/** A piece of a message, kept in the order in which it happened. */
export type Block = {
  text: string;
  type: "text";
} | {
  thinking: string;
  signature?: string | null;
  type: "thinking";
} | {
  data: string;
  type: "redacted_thinking";
} | {
  id: CallId;
  name: string;
  arguments: unknown;
  type: "toolCall";
} | BlockChoice4;

export type BlockChoice4 = File & {
  type: "file";
};

/** What stands in a message, before the writer gave it its place. */
export interface Body {
  role: MessageRole;
  content: Block[];
  /** What was put before a user's text in the prompt (time, unread, memory…): part of the row, so that a request is built from rows alone and stays the same bytes for ever. */
  shown?: string | null;
  meta?: Meta | null;
  toolCallId?: CallId | null;
  toolName?: string | null;
  isError?: boolean | null;
  details?: unknown;
  origin?: Origin | null;
}

/** Which files a yes is tied to. */
export type Bound = "named" | "workspace" | "nothing";

export interface BudgetInfo {
  limits: CapsInfo;
  calls: number;
  /** As vendors counted them. */
  tokens: number;
  /** Dollars, of calls whose price is known. */
  cost: number;
  /** Of calls whose price is not known. */
  unpriced_tokens: number;
  /** Of calls that broke off or were lost: what they may have used, as we count. */
  unsettled_tokens: number;
  unsettled_cost: number;
  /** Taken in advance by calls under way. */
  held_calls: number;
  held_tokens: number;
  held_cost: number;
}

/** What a day's calls have used of what they may. */
export interface BudgetPage {
  /** Of all agents together. */
  hive: BudgetInfo;
  /** Agents that used something today, or have a limit of their own. */
  agents: AgentBudget[];
  /** What one turn may use, where the hive says so. */
  per_turn: CapsInfo;
  /** When the sums begin anew. */
  until: i64;
}

/** A call that found little of what the one before it had left in the cache. */
export interface CacheBreak {
  /** The message that the call became. */
  seq: number;
  at: i64;
  part: CachePart;
  /** In a sentence. */
  why: string;
  since?: i64 | null;
  /** Tokens that were read anew. */
  tokens: number;
}

export type CachePart = "model" | "compaction" | "settings" | "pause" | "unknown";

export interface CachedTokens {
  cached_tokens: number;
}

export interface CallFinding {
  /** `happened`, `did_not`, or `run_again`: then that very call runs once more, through the whole gate, and its result reaches its session. */
  outcome: Resolution;
  /** For the audit trail. */
  note?: string | null;
}

/** A tool call, as the model named it. */
export type CallId = string;

/** A part of a call that a pattern can be about. */
export interface CallPart {
  /** For people. */
  text: string;
  /** Patterns that cover it, the narrowest first. */
  patterns: string[];
}

export type CallState = "planned" | "started" | "done" | "unknown" | "waiting";

export interface Capabilities {
  queue_while_streaming: boolean;
  interrupt: boolean;
  tool_events: boolean;
  full_history: boolean;
  approvals: boolean;
  own_tools: boolean;
}

/** Absent where nothing limits it. */
export interface CapsInfo {
  tokens?: number | null;
  cost?: number | null;
}

/** What the turn of an item in a chain asked a person. */
export interface ChainApproval {
  id: string;
  item_id: ItemId;
  tool: string;
  state: ApprovalState;
  asked_at: i64;
  decided_at?: i64 | null;
  decided_by?: string | null;
}

export interface ChangeOfLife {
  action: LifeCycle;
}

export interface ChangedLife {
  /** It was otherwise before. */
  changed: boolean;
}

/** A stable place frames go to, such as `ws:4f…`. */
export type ChannelId = string;

export interface ChatMessage {
  role: string;
  content?: Content | null;
}

/** The body of `POST /v1/chat/completions`. Sampling parameters and fields that are not known have no effect: the agent's own settings decide. What would make the answer another one than the client relies on (`tools`, `n` above 1, …) is refused. */
export interface ChatRequest {
  /** The name of an agent. */
  model: string;
  messages: ChatMessage[];
  stream?: boolean | null;
  stream_options?: StreamOptions | null;
  n?: number | null;
}

export interface Choice {
  index: number;
  message: Answer;
  finish_reason: string;
}

export type Class = "read" | "write" | "run" | "reach" | "shape";

export interface ClassEffect {
  class: Class;
  effect: Effect;
}

/** A command as it is shown and completed everywhere: `/help`, the terminal, the page. */
export interface CommandInfo {
  /** With its slash. */
  name: string;
  /** What may follow it; empty where nothing does. */
  arguments: string;
  help: string;
}

export interface Commands {
  commands: CommandInfo[];
}

export interface Compact {
  /** What the notes have to hold above all. */
  keep?: string | null;
}

export interface Completion {
  id: string;
  object: string;
  created: number;
  model: AgentName;
  choices: Choice[];
  usage?: TokenCounts | null;
}

export type ConfigOutcome = "applied" | "kept";

/** A mistake in the files that keeps them, or one agent's, from being in force. */
export interface ConfigProblem {
  file: string;
  line?: number | null;
  /** The whole sentence for people: file, line, key, what is wrong, what was expected. */
  text: string;
}

/** How the files stand to what is in force. */
export interface ConfigStanding {
  problems: ConfigProblem[];
  /** Keys whose new value is used after the next start. */
  needs_restart: string[];
  /** Why changes of the files are not noticed, when they are not. */
  unwatched?: string | null;
}

export type Content = string | Part[];

/** How full a model's window is. */
export interface ContextInfo {
  /** Tokens of its last call, answer included. */
  used: number;
  /** Null where nobody knows. */
  window?: number | null;
  parts?: ContextParts | null;
}

/** Tokens of a call by what they are for; their sum is `used`. Vendors count the whole alone: `tools` and `system` are reckoned from their length. */
export interface ContextParts {
  tools: number;
  system: number;
  history: number;
  /** The answer. */
  newest: number;
}

/** What patterns would come to. */
export interface Covered {
  /** Whether it would answer this question. */
  covers: boolean;
  /** Why, or why not. */
  why: string;
  /** What it would allow; nothing: every call of the tool. */
  allows: string[];
  /** Other open questions that it would answer too: of the agent, or of the conversation. */
  others: ApprovalInfo[];
  /** What it would have covered before. */
  last: PastCalls;
}

/** An answer. */
export interface Decision {
  decision: Word;
  scope?: Scope | null;
  /** For `session` and `always`: what is allowed, one for each command of the call's line, all of it covered; exactly this call where there are none. */
  patterns?: string[];
  /** For the agent where it is a no, for the record else. */
  note?: string | null;
  /** The `hash` of what was shown. */
  hash: string;
}

/** A person's answer. */
export interface DecisionInfo {
  by: string;
  at: i64;
  /** The door it came through. */
  from: string;
  scope: Scope;
  /** What a lasting yes allowed; none: every call of the tool. */
  patterns?: string[];
  note?: string | null;
  used?: i64 | null;
}

export type DeltaPart = "text" | "thinking";

export type Effect = "allow" | "ask" | "deny";

/** The settings of an agent as they are in force: with the defaults of the hive, and no more than those above it may. The names are the keys of its file. */
export interface EffectiveSettings {
  description: string;
  parent?: AgentName | null;
  engine: string;
  profile: string;
  model: string;
  think?: Think | null;
  allowed_tools: string[];
  /** The names of the tools that this comes to now. */
  tools: string[];
  /** How many tools the hive has. */
  tools_known: number;
  max_steps: number;
  manager: boolean;
  parallel: Parallel;
  allowed_recipients: string[];
  queue_mode: QueueMode;
  workspace: string;
  sandbox: SandboxInfo;
  network: NetworkInfo;
  budgets: AgentLimits;
  /** How many rules its policy has, with those of the agents above it. */
  policy_rules: number;
}

export interface Entered {
  name: string;
  role: Role;
  /** What the role may do. */
  may: Action[];
  /** For the header `X-Skep-Key`, beside the cookie that comes with this answer. */
  key: string;
}

export type Event = EventChoice0 | EventChoice1 | EventChoice2 | EventChoice3 | EventChoice4 | EventChoice5 | EventChoice6 | EventChoice7 | EventChoice8 | EventChoice9 | EventChoice10 | EventChoice11 | EventChoice12 | EventChoice13 | EventChoice14 | EventChoice15 | EventChoice16 | EventChoice17 | EventChoice18 | EventChoice19 | EventChoice20 | EventChoice21 | EventChoice22;

export type EventChoice0 = {
  session_key: SessionKey;
  token: Token;
  from: string;
  body: string;
  resumed: boolean;
  type: "turn_start";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice1 = {
  token: Token;
  call: number;
  index: number;
  part: DeltaPart;
  text: string;
  type: "delta";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice10 = {
  approval: string;
  call_id: CallId;
  tool: string;
  expires_at: i64;
  type: "approval_asked";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice11 = {
  approval: string;
  state: ApprovalState;
  by?: string | null;
  scope?: Scope | null;
  /** What a lasting yes allowed; none: every call of the tool. */
  patterns?: string[];
  type: "approval_decided";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice12 = {
  question: ItemId;
  session_key: SessionKey;
  to: string;
  expires_at?: i64 | null;
  type: "question_asked";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice13 = {
  question: ItemId;
  state: QuestionEnd;
  type: "question_ended";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice14 = {
  item: ItemId;
  message_id: MessageId;
  session_key: SessionKey;
  type: "inbox_accepted";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice15 = {
  item: ItemId;
  message_id: MessageId;
  state: ItemState;
  /** Why there is no answer, as a word; absent where there is one. */
  code?: string | null;
  /** The same for people. */
  error?: string | null;
  type: "inbox_ended";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice16 = {
  session_key: SessionKey;
  title: string;
  pinned: boolean;
  archived: boolean;
  type: "session_changed";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice17 = {
  session_key: SessionKey;
  type: "session_deleted";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice18 = {
  call_id: CallId;
  tool: string;
  type: "call_unknown";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice19 = {
  call_id: CallId;
  tool: string;
  outcome: Resolution;
  type: "call_resolved";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice2 = {
  call_id: CallId;
  tool: string;
  type: "tool_start";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice20 = {
  state: string;
  reason?: string | null;
  type: "status";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice21 = {
  state: ConfigOutcome;
  problems: ConfigProblem[];
  /** Keys whose new value is used after the next start. */
  needs_restart: string[];
  type: "config";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice22 = {
  state: string;
  text?: string | null;
  type: "integrity";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice3 = {
  call_id: CallId;
  tool: string;
  is_error: boolean;
  state: CallState;
  type: "tool_end";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice4 = {
  first: number;
  last: number;
  type: "history_updated";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice5 = {
  ok: boolean;
  /** Why it failed or was ended, as a word; absent where it was answered. */
  code?: string | null;
  /** The same for people. */
  error?: string | null;
  usage: Usage;
  /** The profile that answered last, when any did. */
  profile?: string | null;
  type: "turn_end";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice6 = {
  upto: number;
  messages: number;
  reason: Reason;
  type: "compacted";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice7 = {
  text: string;
  type: "note";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice8 = (RetryInfo & {
  type: "model_retry";
}) & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventChoice9 = {
  reason: string;
  until?: i64 | null;
  type: "turn_waiting";
} & {
  seq?: number | null;
  at: i64;
  /** Absent on the wire where the event is about the hive as a whole. */
  agent?: AgentName;
  session?: SessionId | null;
  turn?: TurnId | null;
};

export type EventKind = {
  session_key: SessionKey;
  token: Token;
  from: string;
  body: string;
  resumed: boolean;
  type: "turn_start";
} | {
  token: Token;
  call: number;
  index: number;
  part: DeltaPart;
  text: string;
  type: "delta";
} | {
  call_id: CallId;
  tool: string;
  type: "tool_start";
} | {
  call_id: CallId;
  tool: string;
  is_error: boolean;
  state: CallState;
  type: "tool_end";
} | {
  first: number;
  last: number;
  type: "history_updated";
} | {
  ok: boolean;
  /** Why it failed or was ended, as a word; absent where it was answered. */
  code?: string | null;
  /** The same for people. */
  error?: string | null;
  usage: Usage;
  /** The profile that answered last, when any did. */
  profile?: string | null;
  type: "turn_end";
} | {
  upto: number;
  messages: number;
  reason: Reason;
  type: "compacted";
} | {
  text: string;
  type: "note";
} | EventKindChoice8 | {
  reason: string;
  until?: i64 | null;
  type: "turn_waiting";
} | {
  approval: string;
  call_id: CallId;
  tool: string;
  expires_at: i64;
  type: "approval_asked";
} | {
  approval: string;
  state: ApprovalState;
  by?: string | null;
  scope?: Scope | null;
  /** What a lasting yes allowed; none: every call of the tool. */
  patterns?: string[];
  type: "approval_decided";
} | {
  question: ItemId;
  session_key: SessionKey;
  to: string;
  expires_at?: i64 | null;
  type: "question_asked";
} | {
  question: ItemId;
  state: QuestionEnd;
  type: "question_ended";
} | {
  item: ItemId;
  message_id: MessageId;
  session_key: SessionKey;
  type: "inbox_accepted";
} | {
  item: ItemId;
  message_id: MessageId;
  state: ItemState;
  /** Why there is no answer, as a word; absent where there is one. */
  code?: string | null;
  /** The same for people. */
  error?: string | null;
  type: "inbox_ended";
} | {
  session_key: SessionKey;
  title: string;
  pinned: boolean;
  archived: boolean;
  type: "session_changed";
} | {
  session_key: SessionKey;
  type: "session_deleted";
} | {
  call_id: CallId;
  tool: string;
  type: "call_unknown";
} | {
  call_id: CallId;
  tool: string;
  outcome: Resolution;
  type: "call_resolved";
} | {
  state: string;
  reason?: string | null;
  type: "status";
} | {
  state: ConfigOutcome;
  problems: ConfigProblem[];
  /** Keys whose new value is used after the next start. */
  needs_restart: string[];
  type: "config";
} | {
  state: string;
  text?: string | null;
  type: "integrity";
};

/** A model call failed, or a turn did, and is tried again after a pause. Live only: the state of the hive says the same to whoever comes late. */
export type EventKindChoice8 = RetryInfo & {
  type: "model_retry";
};

export interface Failure {
  code: string;
  error: string;
}

/** A file of a message. Its row has everything but the bytes: those are kept once for each hash and put in again for whoever needs them. */
export interface File {
  name: string;
  mime: string;
  size: number;
  /** SHA-256 of the bytes, in hex. */
  hash: string;
  /** Base64; only where the bytes were asked for. */
  data?: string | null;
}

export interface FileChange {
  /** From the workspace on; absolute for a file elsewhere. */
  path: string;
  at: i64;
  /** The message that asked for it. */
  seq: number;
  /** As a unified diff. */
  diff: string;
}

/** What `write` and `edit` changed in a conversation. What commands changed is not known. */
export interface FileChanges {
  /** Oldest first. */
  changes: FileChange[];
  /** There are older ones. */
  cut: boolean;
}

/** What another text of an agent's file would come to. Nothing is changed. */
export interface FileCheck {
  /** Why the text cannot be applied; empty for one that can. */
  problems: ConfigProblem[];
  /** Unified, from the file as it is; empty where nothing differs. */
  diff: string;
  /** The file as it is. */
  hash: string;
}

/** The bytes of a file. */
export type FileContent = string;

export type FindingKind = "changed" | "foreign" | "removed" | "reordered" | "cut_off" | "rewritten" | "head" | "break";

/** A message followed to its end. */
export interface Followed {
  message_id: MessageId;
  item_id: ItemId;
  agent: AgentName;
  session_key: SessionKey;
  state: ItemState;
  turn?: TurnId | null;
  response?: Response | null;
  error?: Failure | null;
}

export interface Fork {
  /** The last message to keep; else all of them. It cannot stand between a tool call and its result. */
  at?: number | null;
  /** Leads to the fork from then on; made up where it is left out. */
  session_key?: string | null;
}

/** Where a fork began. */
export interface ForkedFrom {
  session: SessionId;
  /** The last message that was copied. */
  at: number;
}

export type FrameKind = "ack" | "response" | "error" | "notification" | "question" | "approval";

export type FrameState = "pending" | "delivered" | "refused";

/** What somebody answered: options, words of their own, or both. */
export interface GivenAnswer {
  /** Words of one's own. */
  answer?: string | null;
  /** Options of the question, as they are written there. */
  options?: string[];
}

/** Something allowed for a time or a session. */
export interface GrantInfo {
  id: string;
  agent: AgentName;
  session?: string | null;
  tool: string;
  path?: string | null;
  command?: string | null;
  host?: string | null;
  /** For whom. */
  grants: string[];
  made_by: string;
  made_at: i64;
  until?: i64 | null;
}

export interface Grants {
  grants: GrantInfo[];
}

/** The skills and subagents of an agent. */
export interface GuidanceInfo {
  skills: SkillInfo[];
  subagents: SubagentInfo[];
  /** Files that are left out, and headings that stand in two files. */
  warnings: ConfigProblem[];
}

export interface HistoryPage {
  /** Oldest first: as JSON, with commas between them. */
  messages: Message[];
  session?: SessionId | null;
  view: View;
  streaming: boolean;
  active?: ActiveTurn | null;
  /** Turns with rows on this page that failed, were cancelled, ended with an empty answer or are about to be tried again; oldest first. One with rows on two pages is on both: the higher `seq` is its place. */
  turns: TurnOutcome[];
  /** Give this as `before` for the page before; absent at the beginning. */
  before?: number | null;
  /** Where `after` was given: give this for the page after; absent at the end. */
  after?: number | null;
  context?: ContextInfo | null;
}

export interface HiveInfo {
  version: string;
  /** The folder it serves; for those who see everything. */
  home?: string | null;
  started_at: i64;
  uptime_ms: i64;
  model_note: string;
  /** `ok`, or why writes are held (`disk_full`, `store_unsynced`, `store_moved`). */
  store: string;
  /** How the files of the home stand to what is in force. */
  config: ConfigStanding;
  /** What a look at the whole database found, after a stop out of order. */
  integrity: IntegrityInfo;
}

/** The hive at one moment: everything with a durable `seq` up to `seq` is in it. */
export interface HiveState {
  seq: number;
  hive: HiveInfo;
  agents: AgentInfo[];
  turns: TurnInfo[];
  work?: WorkInfo | null;
  unknown_calls: UnknownCall[];
  /** Calls that wait for a person, the newest first. */
  approvals: ApprovalBrief[];
  spend?: SpendInfo | null;
}

/** What the agent's setting `network` says of a host. */
export type HostListing = "listed" | "unlisted" | "denied";

/** The host of a call, in the one spelling that is dialled. */
export interface HostStanding {
  /** In ASCII: letters of other scripts as `xn--…`. */
  host: string;
  port: number;
  /** The whole address as it would be fetched. */
  url: string;
  standing: HostListing;
  /** The entry of `network.deny` that denies it. */
  denied_by?: string | null;
  /** The entry for `network.hosts` that would list it; absent where it is listed or denied. */
  entry?: string | null;
}

export interface ImageUrl {
  /** The picture itself, as a data URL; the hive fetches nothing. */
  url: string;
}

export interface Imagined {
  tool: string;
  arguments: Record<string, unknown>;
  /** For whom: a principal such as `operator`; you where it is left out. */
  who?: string | null;
}

/** What became of an import. */
export interface ImportReport {
  agent: AgentName;
  session: SessionId;
  messages: number;
  /** Absent rows were written; `false`: the same session was there already. */
  imported: boolean;
}

export interface Inbox {
  items: InboxItem[];
  /** Give it as `after` for the next page; absent on the last. */
  after?: number | null;
}

/** A line of the inbox. */
export interface InboxItem {
  item_id: ItemId;
  message_id: MessageId;
  agent: AgentName;
  session_key: SessionKey;
  kind: string;
  priority: string;
  state: ItemState;
  attempts: number;
  /** The first 200 characters. */
  preview: string;
  error?: Failure | null;
  created_at: i64;
  finished_at?: i64 | null;
  /** Give it as `after` for the next page. */
  ord: number;
}

/** unchecked → running → whole | damaged | unchecked (it could not be done, or the hive stopped). */
export interface IntegrityInfo {
  /** `unchecked` (the last stop was in order), `running`, `whole` or `damaged`. */
  state: string;
  checked_at?: i64 | null;
  /** What is wrong and what to do about it. */
  text?: string | null;
}

/** The durable unit that wakes an agent (UUIDv7). */
export type ItemId = string;

/** One item of the inbox with everything that is known of it. */
export type ItemInfo = InboxItem & {
  /** The whole message. */
  text: string;
  from: Principal;
  channel?: ChannelId | null;
  session?: SessionId | null;
  turn?: TurnId | null;
  /** Model calls of its turn. */
  steps: number;
  waiting_for?: string | null;
  started_at?: i64 | null;
  /** The answer. */
  response?: string | null;
  retry_of?: ItemId | null;
  retried_as?: ItemId | null;
  root?: ItemId | null;
  /** The tasks of its chain, in the order they were given. */
  chain?: TaskInfo[];
  /** What its first item and its tasks asked people, oldest first. */
  approvals?: ChainApproval[];
  /** Frames about it that its channel refused or put off. */
  undelivered?: UndeliveredFrame[];
};

export type ItemKind = "task" | "peer" | "event" | "reminder" | "trigger" | "bootstrap" | "escalation" | "question" | "continue" | "approved";

export type ItemState = "pending" | "running" | "waiting" | "done" | "failed" | "cancelled" | "dead";

/** What somebody wants of an agent. */
export type LifeCycle = "pause" | "stop" | "start" | "restart";

export interface Link {
  /** What stands behind `#once=` in the link. */
  once: string;
}

/** Roles that people have. */
export type LinkRole = "operator" | "user" | "viewer";

/** One thing that happened. */
export type LogLine = Record<string, unknown> & {
  /** UTC, with milliseconds: `2026-02-03T04:05:06.789Z`. As text it sorts as it happened. */
  time: string;
  level: string;
  /** Which part of the program says it. */
  target: string;
  agent?: string | null;
  session?: string | null;
  turn?: string | null;
  tool?: string | null;
  message: string;
};

export interface Looked {
  rule: string;
  /** File and line. */
  place: string;
  matched: boolean;
  why: string;
}

/** A secret in the clear, without its value. */
export interface LooseSecret {
  /** The file from the home on, or the database. */
  file: string;
  /** The line in a file, or the table, row and column. */
  place: string;
  /** Which secret, or which format. */
  secret: string;
  /** Who can make it void. */
  rotate: string;
}

export interface MadeAgent {
  agent: AgentName;
}

export interface MadeLink {
  /** Opens the dashboard and signs in, once, within ten minutes. */
  link: string;
}

/** A team that was made of a template, and is in force. */
export interface MadeTeam {
  template: string;
  /** The lead, then those below it. */
  agents: TemplateAgent[];
  /** A first task for the lead. */
  request: string;
}

export type MadeToken = TokenInfo & {
  /** The token itself, shown this once. */
  token: string;
};

export interface Me {
  name: string;
  role: Role;
  /** What the role may do; what it may not is refused by every door. */
  may: Action[];
}

/** A stored message: a body with its place. */
export type Message = Body & {
  /** Always `history`, so that a line of an export says what it is. */
  type?: string;
  id: string;
  agentId: AgentName;
  sessionId: SessionId;
  turn: TurnId;
  /** Order inside the session; never the timestamp. */
  seq: number;
  timestamp: i64;
};

/** What the sender calls a message: its own id, or the item's. */
export type MessageId = string;

export type MessageRole = "user" | "assistant" | "toolResult" | "system";

export interface Meta {
  /** The profile that answered; it may be a fallback of the one that was to. */
  profile?: string | null;
  provider: string;
  model: string;
  /** The wire format, for instance `anthropic-messages`. */
  api: string;
  /** Absent where nobody counted: of a call that was cut off. */
  usage?: Usage;
  stopReason: StopReason;
}

export interface Model {
  /** The name of an agent. */
  id: string;
  object: string;
  created: number;
  owned_by: string;
}

export interface Models {
  object: string;
  data: Model[];
}

export interface MovedSecrets {
  /** The entries that hold them now. */
  entries: string[];
}

/** A file or folder that a call names or may use. */
export interface NamedFile {
  /** As the call names it; `.` is the workspace. */
  path: string;
  /** Where it leads, when that is another path. */
  target?: string | null;
  /** `file`, `folder`, `other`; `written` of a file that a redirection writes; `workspace` where it stands for everything in there. */
  kind: string;
  /** Of a file's content, absent where it is not read; of a folder, over path, inode, size and time of change of everything in it. */
  sha256?: string | null;
  bytes?: number | null;
}

/** What a call may connect to. */
export type NetworkAccess = "none" | "host" | "listed" | "open";

/** The hosts that an agent's tools and programs may reach. */
export interface NetworkInfo {
  /** Reached without a question. */
  hosts: string[];
  /** Never reached. */
  deny: string[];
  /** Addresses inside own networks that may be reached. */
  private: string[];
  /** Requests to one host in a minute. */
  requests_per_minute: number;
}

export interface NewEntry {
  /** Left out, the value that is there stays. */
  value?: string | null;
  /** Hosts that `web_fetch` may send it to, such as `api.example.org` or `*.example.org:8443`. Left out, those that are there stay; with none it is not sent anywhere. */
  hosts?: string[] | null;
}

/** Something to be allowed for a time. */
export interface NewGrant {
  /** A tool's name, or a pattern with `*`. */
  tool: string;
  path?: string | null;
  command?: string | null;
  host?: string | null;
  /** `any`, `role:ROLE`, `user:NAME`; anyone where it is left out. */
  grants?: string[] | null;
  /** For how long. */
  minutes: number;
}

export interface NewLink {
  /** Whose browser it is. */
  name?: string | null;
  role?: LinkRole | null;
}

export interface NewMessage {
  /** May be blank where there are attachments. */
  message: string;
  /** `main` where it is left out. */
  session_key?: string | null;
  mode?: QueueMode | null;
  think?: Think | null;
  /** Files the model is shown with the message; 20 MiB together. */
  attachments?: RawAttachment[] | null;
}

/** A model profile to be saved. */
export interface NewProfile {
  /** `anthropic`, `openai`, `openai-responses` or `ollama`. */
  provider: string;
  /** The model's name at the vendor. */
  model: string;
  /** Base address of a compatible server. Left out: the one it has, else the vendor's own. */
  api_url?: string | null;
  /** Kept in `keys.env` and never shown again. Left out, the key that is there stays. */
  api_key?: string | null;
}

export interface NewToken {
  /** What it is for. */
  name: string;
  role?: Role | null;
  /** For the role `channel`, and only there: its conversations begin so. */
  prefix?: string | null;
  /** For the role `agent`, and only there: the agent whose engine's child holds it. */
  agent?: string | null;
}

export interface Noted {
  /** In the order in which they were written. */
  lines: LogLine[];
  /** Where the next lines will be: give it as `after`. */
  next?: string | null;
}

/** The form of every refusal under `/v1`, for the OpenAPI document. */
export interface OpenAiError {
  error: OpenAiErrorBody;
}

export interface OpenAiErrorBody {
  message: string;
  type: string;
  param?: string | null;
  /** The same stable word as in a problem of the other routes. */
  code: string;
}

/** Where a user message came from. */
export interface Origin {
  item: ItemId;
  messageId: MessageId;
  /** `ws`, `api`, `cli`. */
  channel: string;
  principal: string;
  kind?: ItemKind | null;
}

/** How many turns of an agent run at a time. */
export type Parallel = "sessions" | "one";

export interface Part {
  type: string;
  text?: string | null;
  image_url?: ImageUrl | null;
}

export type PartKind = "tools" | "system" | "rules" | "identity" | "availability" | "subagent" | "skill";

/** The decision on one part of the call, for one person. */
export interface PartVerdict {
  /** Which part of the call. */
  part: string;
  /** Whose message led to it. */
  who: string;
  effect: Effect;
  why: string;
  rule?: string | null;
  /** The rules, and why each matched or did not. */
  rules: Looked[];
  /** How many compared rules are left out of `rules`. */
  untold?: number;
}

/** The newest calls of the tool in the conversation, this one among them. */
export interface PastCalls {
  /** How many were looked at; at most five. */
  calls: number;
  /** How many of them the patterns cover. */
  covered: number;
}

/** The content of a file that a call names, as it was when the approval was asked for. */
export interface PinnedFile {
  path: string;
  bytes: number;
  /** Of the whole file. */
  lines: number;
  /** With everything invisible made visible; absent where the file is not text. */
  text?: string | null;
  /** `text` is only the beginning. */
  cut: boolean;
}

/** What an agent's calls are decided by. */
export interface PolicyInfo {
  agent: AgentName;
  /** What each class comes to where no rule matches. */
  classes: ClassEffect[];
  rules: RuleInfo[];
  network: NetworkInfo;
  /** What was granted for a time or a session. */
  grants: GrantInfo[];
  /** Where and why it could not be read: everything is denied. */
  broken?: string | null;
}

/** Who a credential belongs to: `operator`, or the id of a token. */
export type Principal = string;

/** The form of every refusal, for the OpenAPI document. Some carry further members, such as the id to follow. */
export interface Problem {
  /** Always `about:blank`. */
  type: string;
  title: string;
  status: number;
  /** What, why and what to do, for people. */
  detail: string;
  /** A stable word for programs. */
  code: string;
}

/** Everything that stands before the messages in a request of the agent's engine. */
export interface PromptInfo {
  agent: AgentName;
  subagent?: string | null;
  engine: string;
  /** Provider and model. */
  model: string;
  /** As they stand in a request. */
  parts: PromptPartInfo[];
  /** Of all parts, estimated: the model's vendor counts no more. */
  tokens: number;
  /** Tokens that the model takes, where that is known. */
  window?: number | null;
  /** Files that are left out, and headings that stand in two files. */
  warnings: ConfigProblem[];
}

export interface PromptPartInfo {
  part: PartKind;
  title: string;
  /** The file, relative to the home. */
  source?: string | null;
  tier?: RuleTierWord | null;
  text: string;
  bytes: number;
  /** Estimated, as `tokens` of the whole. */
  tokens: number;
}

/** A profile without its key. */
export interface ProviderInfo {
  name: string;
  /** The vendor's wire. */
  provider: string;
  model: string;
  /** Scheme, host and port; nothing where no address is dialled. */
  address?: string | null;
  /** Where its key comes from; never the key. */
  key: string;
  max_output_tokens: number;
  context_window?: number | null;
  /** Whether calls can be priced; where not, their cost is unknown. */
  price_known: boolean;
  /** Asked in this order while it cannot answer. */
  fallback: string[];
  /** The agents that use it. */
  agents: AgentName[];
  reached?: Reached | null;
}

export interface ProviderList {
  providers: ProviderInfo[];
}

/** What became of a try. */
export interface ProviderTry {
  name: string;
  model: string;
  ok: boolean;
  took_ms: i64;
  usage?: Usage | null;
  error?: Failure | null;
}

export type QuestionEnd = "answered" | "expired" | "withdrawn" | "failed";

/** An agent waits for what the operator says, or has told the operator something. */
export interface QuestionInfo {
  id: ItemId;
  kind: QuestionKind;
  agent: AgentName;
  /** The conversation that hears the answer. */
  session_key: SessionKey;
  root?: ItemId | null;
  thread?: ItemId | null;
  text: string;
  /** What may be chosen; words of one's own are always an answer. */
  options: string[];
  /** Several options may be chosen. */
  multi: boolean;
  created_at: i64;
  until?: i64 | null;
}

export type QuestionKind = "question" | "escalation" | "message";

/** What the operator has to look at. */
export interface Questions {
  /** Oldest first; at most 200. */
  questions: QuestionInfo[];
  /** There are newer ones, which are listed when some of these have ended. */
  more: boolean;
}

/** What happens to a message that arrives while a turn of its session runs. */
export type QueueMode = "queue" | "interrupt";

/** A file with a message: a picture (PNG, JPEG, GIF, WebP) of up to 5 MiB, or UTF-8 text of up to 256 KiB. The bytes decide which. */
export interface RawAttachment {
  name: string;
  /** What kind of text it is; of a picture the bytes say it. */
  mime?: string | null;
  /** Base64. */
  data: string;
}

/** Whether something answers at an address. No model was asked and no key was sent. */
export interface Reached {
  ok: boolean;
  took_ms: i64;
  error?: string | null;
}

export type Reason = "full" | "overflow" | "asked";

/** The message is durable. */
export interface Receipt {
  message_id: MessageId;
  item_id: ItemId;
  agent: AgentName;
  session_key: SessionKey;
  session?: SessionId | null;
  state: AckState;
  note?: string | null;
  /** The same id and body had been accepted before; absent where not. */
  joined?: boolean;
}

export interface RemovedAgents {
  removed: string[];
}

export interface ReplacedText {
  /** The whole file. */
  text: string;
  /** The `hash` of the text that it replaces. */
  hash: string;
}

export type Resolution = "happened" | "did_not" | "run_again";

/** What was said about a call. */
export interface ResolvedInfo {
  turn: TurnId;
  call_id: CallId;
  outcome: Resolution;
  item?: ItemId | null;
}

export interface Response {
  content: string;
  in_reply_to: MessageId[];
  stop_reason?: StopReason | null;
}

export type RetryCode = "overloaded" | "rate_limited" | "unavailable" | "unreachable" | "timeout" | "cut" | "unusable" | "engine_crashed";

/** A failure that may pass, and the pause before the next try. */
export interface RetryInfo {
  scope: RetryScope;
  /** The number of the next try; absent where the vendor named the time, which is not counted. */
  try?: number | null;
  /** So many tries there are at most. */
  of?: number | null;
  /** The attempt of the turn in which the call is made, where it is not the first: tries of a call are counted anew in each. */
  attempt?: number | null;
  code: RetryCode;
  next_at: i64;
}

export type RetryScope = "call" | "turn";

export type Role = "operator" | "user" | "viewer" | "channel" | "agent";

/** A rule as doors show it. */
export interface RuleInfo {
  effect: Effect;
  tool: string;
  path?: string | null;
  command?: string | null;
  host?: string | null;
  /** `any`, `role:…`, `user:…`. */
  grants: string[];
  /** Of a rule that asks: who may answer. */
  approvers?: string[];
  /** File and line. */
  place: string;
}

export type RuleTierWord = "hive" | "above" | "own_org" | "team";

export interface SandboxInfo {
  /** `confined` or `host`. */
  level: string;
  /** `none`, `proxy` or `full`. */
  network: string;
}

/** Whether the programs an agent starts are walled in. */
export type SandboxLevel = "confined" | "host";

export type Scope = "once" | "session" | "always";

/** A message with the words in it. */
export interface SearchHit {
  agent: AgentName;
  session: SessionId;
  session_key: SessionKey;
  /** Of the conversation; empty where it has none. */
  title: string;
  archived: boolean;
  seq: number;
  timestamp: i64;
  role: MessageRole;
  /** The name of whoever sent it; absent for your own messages and for answers. */
  sender?: string | null;
  /** The part of the text around the first match. */
  excerpt: string;
  /** Where it begins in the text, in characters. */
  excerpt_at: number;
  /** The text goes on after it. */
  cut: boolean;
  /** The matches in the excerpt: first character and length. */
  marks: number[][];
}

export interface SearchPage {
  /** Newest first, in the order they came into the hive. */
  hits: SearchHit[];
  /** With the words in their titles, the latest first; on the first page alone. */
  conversations: SessionInfo[];
  /** Give this as `before` for the next page; absent on the last. */
  before?: number | null;
  /** How many messages the index does not know yet, after an upgrade; else absent. */
  unindexed?: number | null;
}

/** What was found in files and rows of the home. */
export interface SecretScan {
  /** How many files were read. */
  files: number;
  found: LooseSecret[];
  /** What was not read, and why. */
  skipped: string[];
}

/** One server-sent event, for the OpenAPI document. */
export interface ServerSentEvent {
  event?: string | null;
  /** The `seq` of a durable event. */
  id?: string | null;
  /** JSON; of the OpenAI interface also `[DONE]`. */
  data: string;
}

/** What a person changes about a conversation; what is left out stays. */
export interface SessionEdit {
  /** One line; empty for the automatic title. */
  title?: string | null;
  pinned?: boolean | null;
  archived?: boolean | null;
}

/** One conversation of one agent (UUIDv7). */
export type SessionId = string;

/** A conversation in a list. */
export interface SessionInfo {
  id: SessionId;
  agent: AgentName;
  session_key: SessionKey;
  /** What a person named it, else what its first message is about. Empty where that says too little: show the agent and `created_at`. */
  title: string;
  pinned: boolean;
  /** Out of the way until something is said in it. */
  archived: boolean;
  state: SessionState;
  /** Why the newest turn failed or was cancelled; absent in other states. */
  last_error?: string | null;
  /** The first words of the newest message, on one line. */
  last_message?: string | null;
  created_at: i64;
  /** When something was last said in it. */
  last_at: i64;
  messages: number;
  /** What its model calls took so far. A fork counts from its beginning. */
  tokens: number;
  /** Dollars; absent where the price of a call is not known. */
  cost?: number | null;
  /** Its key leads here now: a message under the key goes on in it. */
  current: boolean;
  /** What `/model` chose for its key; absent where the agent's own profile holds. */
  profile?: string | null;
  think?: Think | null;
  forked_from?: ForkedFrom | null;
  /** Where the vendor's cache did not help its newest calls, and why; only of one that is asked for by its id. */
  cache_breaks?: CacheBreak[];
  attachments?: AttachmentSum | null;
}

/** What a door calls a conversation: `main`, a channel id, a topic. It leads to a session. */
export type SessionKey = string;

export interface SessionPage {
  /** The pinned ones first, then the latest. */
  sessions: SessionInfo[];
  /** Give this as `after` for the next page; absent on the last. */
  after?: string | null;
}

/** What goes on in a conversation, or how its newest turn ended. */
export type SessionState = "idle" | "running" | "waiting" | "queued" | "failed" | "cancelled";

export interface SkillInfo {
  name: string;
  description: string;
  /** Relative to the home. */
  file: string;
  /** Tools that it needs. */
  tools: string[];
  /** Those of them that the agent does not have now. */
  missing_tools: string[];
  bytes: number;
}

export type Span = "hour" | "day";

/** What model calls used since 00:00 UTC. */
export interface SpendInfo {
  calls: number;
  tokens: number;
  /** Dollars; null when the price of a call is not known. */
  cost?: number | null;
  /** Dollars of the calls whose price is known. */
  known_cost: number;
  unpriced_calls: number;
  unpriced_tokens: number;
  /** Of calls that broke off or were lost: what they may have used, as we count. It counts towards the limits beside the sums above. */
  unsettled_tokens: number;
  unsettled_cost: number;
  limits: SpendLimits;
  /** When the sums begin anew. */
  until: i64;
}

/** The daily limits; absent where there are none. */
export interface SpendLimits {
  cost_per_day?: number | null;
  tokens_per_day?: number | null;
  /** Of calls whose price is not known, while only the cost is limited. */
  unpriced_tokens_per_day?: number | null;
}

export interface Status {
  status: string;
}

export interface Stop {
  /** `main` where it is left out. */
  session_key?: string | null;
}

export type StopReason = "end_turn" | "tool_use" | "max_tokens" | "stop_sequence" | "refusal" | "cancelled" | "interrupted" | "error" | "other";

export interface Stopped {
  stopped: boolean;
  turn?: TurnId | null;
}

export interface Stopping {
  state: string;
}

export interface StreamOptions {
  /** A last chunk with the tokens used. */
  include_usage?: boolean | null;
}

export interface SubagentInfo {
  name: string;
  description: string;
  /** Relative to the home. */
  file: string;
  /** Skills that are active in its session. */
  skills: string[];
  bytes: number;
}

/** Work that one agent gave another. Its id is that of its item. */
export interface TaskInfo {
  item_id: ItemId;
  parent_task?: ItemId | null;
  from: AgentName;
  agent: AgentName;
  session_key: SessionKey;
  kind: TaskKind;
  state: TaskState;
  item_state: ItemState;
  /** How many hands it came through. */
  hops: number;
  /** What was given in its course and has not ended. */
  open: number;
  /** The first characters of the work. */
  preview: string;
  result?: string | null;
  /** Why it did not end well. */
  code?: string | null;
  created_at: i64;
  ended_at?: i64 | null;
}

export type TaskKind = "delegate" | "query" | "escalate" | "hand_up" | "question" | "subagent" | "shape";

export type TaskState = "open" | "done" | "failed" | "cancelled";

export interface TeamBody {
  /** Of the lead; the other names begin with it. The template's where it is left out. */
  name?: string | null;
  /** The agent whose team the lead belongs to; absent for a root of the tree. */
  parent?: string | null;
}

export interface TemplateAgent {
  name: string;
  description: string;
}

/** A team that is ready to use. */
export interface TemplateInfo {
  name: string;
  /** What the team is for. */
  description: string;
  /** The lead, then those below it, as they are called without another name. */
  agents: TemplateAgent[];
  /** A first task for the lead. */
  request: string;
}

export interface Templates {
  templates: TemplateInfo[];
}

/** How much a model thinks before it answers. */
export type Think = "off" | "low" | "medium" | "high";

export type TimingKind = "model" | "tool" | "wait";

/** A time in which a turn did one thing. */
export interface TimingRow {
  kind: TimingKind;
  /** The model, the tool, or `queue`. */
  name: string;
  from: i64;
  first?: i64 | null;
  until?: i64 | null;
  /** In a line: the profile, what the call is about, what is waited for, or why it failed. */
  detail?: string;
  /** The call went wrong, or was refused. */
  failed?: boolean;
  /** Of a model call that was made more than once. */
  tries?: number | null;
  usage?: Usage | null;
  call_id?: CallId | null;
  /** What a person was asked. */
  approval?: string | null;
}

/** A lane's fencing token: every lease takes the next one, and a write with an old one is refused. */
export type Token = number;

export interface TokenCounts {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: CachedTokens;
}

export interface TokenInfo {
  id: string;
  name: string;
  role: Role;
  /** Of a channel: its conversations begin so. */
  prefix?: string | null;
  agent?: AgentName | null;
  created_at: i64;
  revoked_at?: i64 | null;
}

export interface Tokens {
  tokens: TokenInfo[];
}

/** One run of an engine (UUIDv7). */
export type TurnId = string;

export interface TurnInfo {
  turn: TurnId;
  agent: AgentName;
  session: SessionId;
  session_key: SessionKey;
  state: string;
  since: i64;
  steps: number;
  waiting_for?: string | null;
  retry?: RetryInfo | null;
  context?: ContextInfo | null;
}

/** A turn that was not simply answered. It is no message, and no model is shown it. */
export interface TurnOutcome {
  turn: TurnId;
  item?: ItemId | null;
  /** Its last row on the page. */
  seq: number;
  state: TurnOutcomeState;
  /** Why, as a word: that of `turn_end`, or of `retry`. Absent for an empty answer. */
  code?: string | null;
  /** The same for people. */
  error?: string | null;
  started_at: i64;
  ended_at?: i64 | null;
  /** Model calls that were answered. */
  steps: number;
  /** Tool calls that ran. */
  tools_run: number;
  retried_as?: ItemId | null;
  retry?: RetryInfo | null;
}

export type TurnOutcomeState = "failed" | "cancelled" | "empty" | "retrying";

/** How the time of a turn was spent. */
export interface TurnTiming {
  turn: TurnId;
  agent: AgentName;
  session: SessionId;
  session_key: SessionKey;
  item_id?: ItemId | null;
  /** `ready`, `running`, `waiting` or `ended`. */
  state: string;
  waiting_for?: string | null;
  started_at: i64;
  ended_at?: i64 | null;
  /** Without what it waited; as of the last thing it wrote. */
  active_ms: number;
  model_calls: number;
  /** Of all of them; absent where one has no known price. */
  cost?: number | null;
  /** In the order in which they began. */
  rows: TimingRow[];
  /** It has more than are given. */
  cut: boolean;
}

/** A frame that its channel refused, or put off. */
export interface UndeliveredFrame {
  kind: FrameKind;
  state: FrameState;
  /** How often it was sent. */
  attempts: number;
  next_at?: i64 | null;
  /** Why it was refused. */
  reason?: string | null;
}

export interface UnknownCall {
  turn: TurnId;
  call_id: CallId;
  agent: AgentName;
  session_key: SessionKey;
  tool: string;
  at: i64;
}

export interface UnknownCallInfo {
  turn: TurnId;
  call_id: CallId;
  agent: AgentName;
  session_key: SessionKey;
  tool: string;
  arguments: unknown;
  /** When it was found that nobody knows. */
  at: i64;
}

export interface UnknownCalls {
  /** Newest first; at most 200. */
  calls: UnknownCallInfo[];
}

/** Tokens as the wire reported them, and what they cost. */
export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  /** `None` if the price is unknown, which is not zero. */
  cost?: number | null;
}

/** What one agent used of one model in one hour or day (UTC). */
export interface UsageInfo {
  /** When the hour or day began. */
  at: i64;
  agent: AgentName;
  profile: string;
  /** Empty where it was not kept apart. */
  model: string;
  calls: number;
  /** Turns whose first answer came then. */
  turns: number;
  /** Tokens of prompts that came from no cache and went into none. */
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  /** Of all four kinds. */
  tokens: number;
  /** Dollars; null when the price of a call is not known. */
  cost?: number | null;
  /** Dollars of the calls whose price is known. */
  known_cost: number;
  unpriced_calls: number;
}

export interface UsagePage {
  by: Span;
  /** The first moment that is counted. */
  since: i64;
  /** The end of the present hour or day. */
  until: i64;
  /** Oldest first; hours and days without a model call are left out. */
  rows: UsageInfo[];
}

/** An entry without its value. */
export interface VaultEntry {
  name: string;
  agent?: AgentName | null;
  /** Set by a person: agents use it and never see it. Otherwise the agent set it itself. */
  secret: boolean;
  /** Where `web_fetch` may send it; nowhere when empty. */
  hosts: string[];
  /** The id of the key that it is sealed with. */
  key: string;
  set_at: i64;
  used_at?: i64 | null;
  /** The profiles that name it. */
  profiles: string[];
  /** Why it cannot be used, and what to do about it. */
  problem?: string | null;
}

/** The vault without its values. */
export interface VaultInfo {
  /** The file of its keys; absent where there is no place for one. */
  key_file?: string | null;
  /** The id of the key that seals; absent where there is none yet. */
  key?: string | null;
  /** Why no key can be used, and what to do about it. */
  problem?: string | null;
  /** Profiles whose key stands in a file in plain text; `skep vault move` moves it here. */
  in_files: string[];
  /** By agent and name; those of the hive first. */
  entries: VaultEntry[];
}

/** What a rotation did. */
export interface VaultRotation {
  /** The id of the key that seals from now on. */
  key: string;
  /** How many entries were sealed with it. */
  entries: number;
  key_file: string;
}

/** What was decided. */
export interface Verdict {
  effect: Effect;
  /** In a sentence. */
  why: string;
  /** The rule that decided; absent where the class did. */
  rule?: string | null;
  parts: PartVerdict[];
  /** Where it asks: who may answer, one of each list. */
  approvers?: Approvers;
  host?: HostStanding | null;
  /** The command that runs instead of the given one: the same words, quoted again. */
  runs?: string | null;
}

/** Which part of a history a reader asked for. */
export type View = "simple" | "full";

export type WhyInfo = Verdict & {
  agent: AgentName;
  tool: string;
  class: Class;
  /** Whether the agent has the tool at all. */
  listed: boolean;
};

export interface WishedText {
  /** The whole file. */
  text: string;
}

export type Word = "approve" | "deny";

/** How much work there is. What is open is counted whatever its kind; what has ended as the query says and among the newest 5 000 items. */
export interface WorkCounts {
  pending: number;
  running: number;
  waiting: number;
  done: number;
  failed: number;
  cancelled: number;
}

/** How much there is to do. The words mean the same wherever they are shown. */
export interface WorkInfo {
  /** Turns that run, also those that pause before a model call is made again. */
  running: number;
  /** Turns that wait: for a person, for a time, or for another try. */
  waiting: number;
  /** Messages that a turn has still to take up, and those of turns that are about to go on. */
  queued: number;
}

/** An item as work. */
export interface WorkItem {
  item_id: ItemId;
  /** Give it as `after` for what is older. */
  ord: number;
  kind: string;
  task?: TaskKind | null;
  agent: AgentName;
  session_key: SessionKey;
  /** The agent that gave it, else whoever sent it. */
  from: string;
  /** The first 200 characters. */
  preview: string;
  priority: string;
  state: ItemState;
  waiting_for?: string | null;
  turn?: TurnId | null;
  attempts: number;
  error?: Failure | null;
  created_at: i64;
  started_at?: i64 | null;
  finished_at?: i64 | null;
  /** The first item of its chain; itself where it begins one. */
  root: ItemId;
  parent?: ItemId | null;
  /** What was given in its course and has not ended. */
  open: number;
  retried_as?: ItemId | null;
}

export interface WorkPage {
  /** Newest first. */
  items: WorkItem[];
  /** Give it as `after` for what is older; absent on the last page. A page may hold fewer items than it could, or none, where few of those it looked at are of the kind. */
  next?: number | null;
  counts?: WorkCounts | null;
}

export interface WorkspaceEntry {
  /** From the workspace on. */
  path: string;
  kind: WorkspaceKind;
  size: number;
  modified_at: i64;
}

/** A folder or a file of an agent's workspace. */
export interface WorkspaceItem {
  /** From the workspace on, links followed; `.` for the workspace itself. */
  path: string;
  /** Of a folder: folders first, each kind by name. */
  entries?: WorkspaceEntry[] | null;
  /** Of a text, without secrets of the hive. */
  text?: string | null;
  /** Of a picture: its type. */
  picture?: string | null;
  /** There is more than these entries or this text. */
  cut: boolean;
  /** Of a file. */
  size?: number | null;
  modified_at?: i64 | null;
}

export type WorkspaceKind = "folder" | "file" | "link" | "other";

export type i64 = number;
