//! `Engine`: what runs a turn. Failure is an event, never a panic or a lost turn.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::settings::{AgentSettings, Profile, SandboxSettings, Think};
use crate::traits::provider::{ModelRequest, Providers, SystemPrompt};
use crate::vocab::budget::Over;
use crate::vocab::ids::{AgentId, AgentName, CallId, SessionId, TurnId};
use crate::vocab::message::{Message, Meta, Usage};
use crate::{BoxFuture, Millis};

pub use crate::traits::gate::{CallPermit, Gate, GateRequest, OwnTool, ToolCall, Waiting};
pub use crate::vocab::failure::{FailureCode, RetryCode, RetryInfo, RetryScope};

pub trait Engine: Send + Sync {
    fn id(&self) -> &str;
    fn display_name(&self) -> &str;
    fn capabilities(&self) -> Capabilities;
    /// The model as people know it.
    fn resolve_display_model(&self, agent: &AgentSettings) -> String;

    /// Who keeps the course of a session from one turn to the next.
    fn session_keeper(&self) -> SessionKeeper {
        SessionKeeper::Hive
    }

    fn start(&self, request: TurnRequest) -> TurnHandle;
}

/// Who keeps the course of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKeeper {
    /// The hive: each run is given the whole history, and every call goes through `Gate::run` once
    /// its message is complete.
    Hive,
    /// The engine, under an id of its own: it runs its own loop, and may have tools of its own.
    Engine { on_resume: ResumedTools },
}

/// What a resumed session of an engine does with tools that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumedTools {
    /// It takes the new ones.
    Changed,
    /// It keeps the old ones: with other tools a new session is needed.
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Capabilities {
    pub queue_while_streaming: bool,
    pub interrupt: bool,
    pub tool_events: bool,
    pub full_history: bool,
    pub approvals: bool,
    pub own_tools: bool,
}

pub struct TurnRequest {
    pub agent: AgentName,
    /// What an engine keeps of an agent goes by it, never by the name.
    pub agent_id: AgentId,
    pub turn: TurnId,
    pub session: SessionId,
    pub profile: Arc<Profile>,
    /// Those of the settings the turn began with.
    pub providers: Providers,
    /// Instead of the profile's own `thinking`, also for its fallbacks.
    pub think: Option<Think>,
    pub workspace: PathBuf,
    pub sandbox: SandboxSettings,
    /// The agent's `engine_options`.
    pub options: Map<String, Value>,
    pub system: SystemPrompt,
    /// The engine's session to go on with; without one it begins a new one from `messages`.
    pub resume: Option<Resume>,
    /// The session so far, ending with what is to be answered.
    pub messages: Vec<Arc<Message>>,
    pub gate: Gate,
    /// Model calls this turn may still make.
    pub steps_left: u32,
    /// The engine asks it before every model call.
    pub allowance: Allowance,
    /// Ends the turn at once: the model request and everything the engine started.
    pub cancel: CancellationToken,
    /// Wakes whoever sits out the pause before a model call is made again.
    pub retry_now: Arc<Notify>,
}

/// Whether a call may be spent on a profile. It may take a while: until other calls have given back
/// what they hold.
#[derive(Clone)]
pub struct Allowance(Arc<AskAllowance>);

type AskAllowance = dyn Fn(&Arc<Profile>, &Arc<ModelRequest>) -> Asked + Send + Sync;
type Asked = BoxFuture<'static, Result<Hold, Over>>;

impl Allowance {
    pub fn new(
        hold: impl Fn(&Arc<Profile>, &Arc<ModelRequest>) -> Asked + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(hold))
    }

    /// Allows every call and counts none.
    pub fn unbounded() -> Self {
        Self::new(|_, _| Box::pin(async { Ok(Hold::new(drop)) }))
    }

    pub async fn hold(
        &self,
        profile: &Arc<Profile>,
        request: &Arc<ModelRequest>,
    ) -> Result<Hold, Over> {
        (self.0)(profile, request).await
    }
}

/// What a model call may use, taken before it is made. One that is let go without a word has
/// broken off.
pub struct Hold {
    settle: Option<Box<dyn FnOnce(Settlement) + Send>>,
    /// Tokens of the answer so far, as we count.
    heard: u64,
}

/// How a model call ended, as far as money goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The vendor reported its usage.
    Answered(Usage),
    /// The same, for an answer that holds nothing: no message will carry what it used.
    Unusable(Box<Meta>),
    /// The vendor did not begin to answer.
    Refused,
    /// The usage is unknown: the call broke off, or the vendor does not count.
    Untold { heard: u64 },
}

impl Hold {
    pub fn new(settle: impl FnOnce(Settlement) + Send + 'static) -> Self {
        Self { settle: Some(Box::new(settle)), heard: 0 }
    }

    /// A piece of the answer came.
    pub fn hear(&mut self, tokens: u64) {
        self.heard = self.heard.saturating_add(tokens);
    }

    /// Zero tokens mean that the vendor does not count: every call uses at least one.
    pub fn answered(self, usage: Usage) {
        let heard = self.heard;
        self.end(match usage.total_tokens {
            0 => Settlement::Untold { heard },
            _ => Settlement::Answered(usage),
        });
    }

    /// As [`Self::answered`], for an answer that no message is made of.
    pub fn unusable(self, meta: Meta) {
        let heard = self.heard;
        self.end(match meta.usage.total_tokens {
            0 => Settlement::Untold { heard },
            _ => Settlement::Unusable(Box::new(meta)),
        });
    }

    /// The call failed: before the first piece of its answer it has used nothing.
    pub fn failed(self) {
        let heard = self.heard;
        self.end(if heard == 0 { Settlement::Refused } else { Settlement::Untold { heard } });
    }

    fn end(mut self, ended: Settlement) {
        if let Some(settle) = self.settle.take() {
            settle(ended);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(Settlement::Untold { heard: self.heard });
        }
    }
}

/// A session that an engine keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSession {
    /// The engine's own word for it. A hint: the engine may not know it any more.
    pub id: String,
    /// The last row of history that is part of it.
    pub seen_seq: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub session: EngineSession,
    /// What the engine is told: the messages it has not seen, or that it was interrupted.
    pub text: String,
}

/// A running turn. `events` closes after `End`; closing without it is a crash of the engine. What
/// an engine cannot do, its handle does not have.
pub struct TurnHandle {
    pub events: mpsc::Receiver<EngineEvent>,
    /// Takes messages into the run. An engine whose session the hive keeps has none: messages join
    /// with the answers of the gate.
    pub steer: Option<Steer>,
    /// Ends the run so that the engine's session can go on. Without it, and where it does not help
    /// in time, the run ends by `TurnRequest::cancel`.
    pub interrupt: Option<Interrupt>,
    /// The engine runs an own call with the arguments it is permitted with.
    pub rewrite: Option<Rewrite>,
}

impl TurnHandle {
    /// A run that can be listened to and cancelled.
    pub fn new(events: mpsc::Receiver<EngineEvent>) -> Self {
        Self { events, steer: None, interrupt: None, rewrite: None }
    }
}

/// Where messages join a run.
pub struct Steer {
    pub mode: SteerMode,
    pub messages: mpsc::Sender<Arc<Message>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerMode {
    Any,
    /// Only while a tool runs.
    AtTool,
}

/// The wish that a run ends. The engine listens to the token.
pub struct Interrupt(pub CancellationToken);

/// See `TurnHandle::rewrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite;

#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// The calls that follow ask this profile.
    Asking(Arc<Profile>),
    /// A model call begins, or begins again: what the unfinished one before it said is void.
    CallStart,
    Text(String),
    Thinking(String),
    /// Closes the current thinking block.
    Signature(String),
    RedactedThinking(String),
    ToolCall {
        id: CallId,
        name: String,
        arguments: Value,
    },
    /// The engine says that it starts a tool of its own. That is not yet our permission: some say
    /// so before they ask.
    OwnCall {
        id: CallId,
        name: String,
        arguments: Value,
    },
    /// The engine says what came of a call. Of a call that the gate ran, the gate's answer counts.
    ToolResult {
        id: CallId,
        text: String,
        is_error: bool,
    },
    /// The model call is complete: its message can be journalled.
    Meta(Meta),
    /// The engine keeps this session, and what it was given is part of it.
    EngineSession {
        id: String,
    },
    /// A line as the engine wrote it, for whoever looks for a fault. Never kept.
    Raw(String),
    /// A notice that watchers see too.
    Notice(String),
    /// The model call failed, for this reason, and is made again after a pause.
    Retry {
        retry: RetryInfo,
        text: String,
    },
    End(TurnEnd),
}

/// How an engine's run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEnd {
    Finished,
    Cancelled,
    /// No step left, and the model wants more.
    StepLimit,
    Failed {
        code: FailureCode,
        text: String,
    },
    /// The vendor asked for a longer pause than a call may sit out.
    Park {
        until: Millis,
        code: RetryCode,
        reason: String,
    },
    /// Tries used up on a failure that may pass: again later.
    Retry {
        code: RetryCode,
        text: String,
    },
    /// The engine does not know the session it was to go on with.
    StaleSession,
}
