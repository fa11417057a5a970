//! Live events: one closed enum for everything a watcher can receive (spec 04 §7).
//!
//! Durable events carry `seq` in commit order; deltas carry turn, token, call and index instead,
//! and are provisional: a new token or call voids what was shown under the old one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Millis;
use crate::vocab::approval::{ApprovalState, Scope};
use crate::vocab::compaction_reason::Reason;
use crate::vocab::configuration::ConfigProblem;
use crate::vocab::failure::RetryInfo;
use crate::vocab::ids::{
    AgentId, AgentName, CallId, ItemId, MessageId, SessionId, SessionKey, Token, TurnId,
};
use crate::vocab::message::Usage;
use crate::vocab::task::QuestionEnd;
use crate::vocab::words::words;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seq: Option<i64>,
    pub at: Millis,
    /// Absent on the wire where the event is about the hive as a whole.
    #[serde(skip_serializing_if = "AgentName::is_nobody", default = "AgentName::nobody")]
    pub agent: AgentName,
    /// Whose event it is: the name may be another agent's by now. Not on the wire.
    #[serde(skip)]
    pub agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<TurnId>,
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// About an agent. It has its `seq` once it is durable.
    pub fn of(agent: AgentId, name: &AgentName, at: Millis, kind: EventKind) -> Self {
        Self { agent: name.clone(), agent_id: Some(agent), ..Self::of_hive(at, kind) }
    }

    /// About the hive as a whole.
    pub fn of_hive(at: Millis, kind: EventKind) -> Self {
        let (seq, agent, agent_id) = (None, AgentName::nobody(), None);
        Self { seq, at, agent, agent_id, session: None, turn: None, kind }
    }

    pub fn within(self, session: &SessionId, turn: Option<&TurnId>) -> Self {
        Self { session: Some(session.clone()), turn: turn.cloned(), ..self }
    }
}

/// Characters of the message at the start of a turn: the whole of it stands in history.
pub const TURN_START_CHARACTERS: usize = 200;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A turn has begun, or goes on after a restart or a wait (`resumed`).
    TurnStart {
        session_key: SessionKey,
        token: Token,
        from: String,
        body: String,
        resumed: bool,
    },
    /// Provisional words of the model call that is under way.
    Delta {
        token: Token,
        call: u32,
        index: u32,
        part: DeltaPart,
        text: String,
    },
    ToolStart {
        call_id: CallId,
        tool: String,
    },
    ToolEnd {
        call_id: CallId,
        tool: String,
        is_error: bool,
        state: CallState,
    },
    /// Rows `first..=last` of the session are new.
    HistoryUpdated {
        first: i64,
        last: i64,
    },
    TurnEnd {
        ok: bool,
        /// Why it failed or was ended, as a word; absent where it was answered.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        code: Option<String>,
        /// The same for people.
        #[serde(skip_serializing_if = "Option::is_none", default, alias = "note")]
        error: Option<String>,
        usage: Usage,
        /// The profile that answered last, when any did.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        profile: Option<String>,
    },
    /// Rows up to `upto` are shown to the model as notes from here on.
    Compacted {
        upto: i64,
        messages: usize,
        reason: Reason,
    },
    /// A notice about the turn for its watchers.
    Note {
        text: String,
    },
    /// A model call failed, or a turn did, and is tried again after a pause. Live only: the state
    /// of the hive says the same to whoever comes late.
    ModelRetry(RetryInfo),
    /// The turn gave back its slot and waits for this.
    TurnWaiting {
        reason: String,
        until: Option<Millis>,
    },
    /// A call waits for a person.
    ApprovalAsked {
        approval: String,
        call_id: CallId,
        tool: String,
        expires_at: Millis,
    },
    /// The question is answered, or needs no answer any more.
    ApprovalDecided {
        approval: String,
        state: ApprovalState,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        by: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        scope: Option<Scope>,
        /// What a lasting yes allowed; none: every call of the tool.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        patterns: Vec<String>,
    },
    /// An agent has asked the operator, or another agent (`to`), or written to the operator.
    QuestionAsked {
        question: ItemId,
        session_key: SessionKey,
        to: String,
        /// Absent where no answer is waited for.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires_at: Option<Millis>,
    },
    /// A question has its answer, or needs none any more; a message to the operator was read.
    QuestionEnded {
        question: ItemId,
        state: QuestionEnd,
    },
    InboxAccepted {
        item: ItemId,
        message_id: MessageId,
        session_key: SessionKey,
    },
    InboxEnded {
        item: ItemId,
        message_id: MessageId,
        state: ItemState,
        /// Why there is no answer, as a word; absent where there is one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        code: Option<String>,
        /// The same for people.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        error: Option<String>,
    },
    /// A person named, pinned or archived the session, or took that back.
    SessionChanged {
        session_key: SessionKey,
        title: String,
        pinned: bool,
        archived: bool,
    },
    /// The session and everything said in it are gone.
    SessionDeleted {
        session_key: SessionKey,
    },
    /// A call whose outcome a crash left unknown: it is not repeated, a person should look.
    CallUnknown {
        call_id: CallId,
        tool: String,
    },
    /// A person said what became of such a call.
    CallResolved {
        call_id: CallId,
        tool: String,
        outcome: Resolution,
    },
    Status {
        state: String,
        reason: Option<String>,
    },
    /// The files of the home were read again. What `problems` name is not in force: the version
    /// before it goes on.
    Config {
        state: ConfigOutcome,
        problems: Vec<ConfigProblem>,
        /// Keys whose new value is used after the next start.
        needs_restart: Vec<String>,
    },
    /// What a look at the whole database found; live only, a damaged one is not written to for
    /// this.
    Integrity {
        state: String,
        text: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaPart {
    Text,
    Thinking,
}

impl EventKind {
    /// The word under which the event is stored and sent.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TurnStart { .. } => "turn_start",
            Self::Delta { .. } => "delta",
            Self::ToolStart { .. } => "tool_start",
            Self::ToolEnd { .. } => "tool_end",
            Self::HistoryUpdated { .. } => "history_updated",
            Self::TurnEnd { .. } => "turn_end",
            Self::Compacted { .. } => "compacted",
            Self::Note { .. } => "note",
            Self::ModelRetry(_) => "model_retry",
            Self::TurnWaiting { .. } => "turn_waiting",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::QuestionAsked { .. } => "question_asked",
            Self::QuestionEnded { .. } => "question_ended",
            Self::InboxAccepted { .. } => "inbox_accepted",
            Self::InboxEnded { .. } => "inbox_ended",
            Self::SessionChanged { .. } => "session_changed",
            Self::SessionDeleted { .. } => "session_deleted",
            Self::CallUnknown { .. } => "call_unknown",
            Self::CallResolved { .. } => "call_resolved",
            Self::Status { .. } => "status",
            Self::Config { .. } => "config",
            Self::Integrity { .. } => "integrity",
        }
    }
}

words! {
    /// pending → running ⇄ waiting → done | failed | cancelled | dead.
    /// A running item goes back to pending (keeping its turn) when its lease ends unplanned.
    ItemState {
        Pending = "pending", Running = "running", Waiting = "waiting", Done = "done",
        Failed = "failed", Cancelled = "cancelled", Dead = "dead",
    }
    /// planned → started → done | unknown; planned → waiting → started …
    CallState {
        Planned = "planned", Started = "started", Done = "done", Unknown = "unknown",
        Waiting = "waiting",
    }
    /// ready → running ⇄ waiting; running → ready (crash, retry) → running; any → ended.
    TurnState { Ready = "ready", Running = "running", Waiting = "waiting", Ended = "ended" }
    /// What became of changed files: in force, or the version before them goes on.
    ConfigOutcome { Applied = "applied", Kept = "kept" }
    /// What became of a call whose outcome was unknown.
    Resolution { Happened = "happened", DidNot = "did_not", RunAgain = "run_again" }
    /// Why a turn was asked to end.
    CancelReason { Stop = "stop", Interrupt = "interrupt", ClientGone = "client_gone" }
}
