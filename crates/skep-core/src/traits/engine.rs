//! `Engine`: what runs a turn. Failure is an event, never a panic or a lost turn.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::settings::{AgentSettings, Profile, Think};
use crate::traits::provider::{ModelRequest, Providers, SystemPrompt, ToolSpec};
use crate::vocab::budget::Over;
use crate::vocab::ids::{AgentName, CallId, SessionId, TurnId};
use crate::vocab::message::{Message, Meta, Usage};
use crate::{BoxFuture, Millis};

pub use crate::vocab::failure::FailureCode;

pub trait Engine: Send + Sync {
    fn id(&self) -> &str;
    fn display_name(&self) -> &str;
    fn capabilities(&self) -> Capabilities;
    /// The model as people know it.
    fn resolve_display_model(&self, agent: &AgentSettings) -> String;
    fn start(&self, request: TurnRequest) -> TurnHandle;
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
    pub turn: TurnId,
    pub session: SessionId,
    pub profile: Arc<Profile>,
    /// Those of the settings the turn began with.
    pub providers: Providers,
    /// Instead of the profile's own `thinking`, also for its fallbacks.
    pub think: Option<Think>,
    pub workspace: PathBuf,
    pub system: SystemPrompt,
    /// The session so far, ending with what is to be answered.
    pub messages: Vec<Arc<Message>>,
    pub gate: Gate,
    /// Model calls this turn may still make.
    pub steps_left: u32,
    /// The engine asks it before every model call.
    pub allowance: Allowance,
    /// Ends the turn at once: the model request and everything the engine started.
    pub cancel: CancellationToken,
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
    settle: Option<Box<dyn FnOnce(Ended) + Send>>,
    /// Tokens of the answer so far, as we count.
    heard: u64,
}

/// How a model call ended, as far as money goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// The vendor reported its usage.
    Answered(Usage),
    /// The vendor did not begin to answer.
    Refused,
    /// The usage is unknown: the call broke off, or the vendor does not count.
    Untold { heard: u64 },
}

impl Hold {
    pub fn new(settle: impl FnOnce(Ended) + Send + 'static) -> Self {
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
            0 => Ended::Untold { heard },
            _ => Ended::Answered(usage),
        });
    }

    /// The call failed: before the first piece of its answer it has used nothing.
    pub fn failed(self) {
        let heard = self.heard;
        self.end(if heard == 0 { Ended::Refused } else { Ended::Untold { heard } });
    }

    fn end(mut self, ended: Ended) {
        if let Some(settle) = self.settle.take() {
            settle(ended);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(Ended::Untold { heard: self.heard });
        }
    }
}

/// A running turn. `events` closes after `End`; closing without it is a crash of the engine.
pub struct TurnHandle {
    pub events: mpsc::Receiver<EngineEvent>,
    /// Takes messages into the run, for engines that keep their own loop.
    pub steer: Option<mpsc::Sender<Arc<Message>>>,
}

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
    /// The model call is complete: its message can be journalled.
    Meta(Meta),
    /// Private words of the engine, for the log.
    Note(String),
    /// A notice that watchers see too.
    Notice(String),
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
        reason: String,
    },
    /// Tries used up on a failure that may pass: again later.
    Retry {
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    pub name: String,
    pub arguments: Value,
}

/// The engine's only way to a tool: a bounded sender of batches, one batch a step.
#[derive(Clone)]
pub struct Gate {
    specs: Arc<[ToolSpec]>,
    sender: mpsc::Sender<GateBatch>,
}

/// The calls of one model answer, to be run in their order (or side by side where none of them
/// changes anything).
pub struct GateBatch {
    pub calls: Vec<ToolCall>,
    pub reply: oneshot::Sender<Vec<Arc<Message>>>,
}

impl Gate {
    pub fn new(specs: Arc<[ToolSpec]>, sender: mpsc::Sender<GateBatch>) -> Self {
        Self { specs, sender }
    }

    /// The tools that the model is offered.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// Runs a step's calls. The rows that come back (the assistant's message, the results in the
    /// order of the calls, then messages that arrived meanwhile) are what the next request adds.
    /// `None`: the turn does not go on here (it waits, or was ended); the engine stops quietly.
    pub async fn call(&self, calls: Vec<ToolCall>) -> Option<Vec<Arc<Message>>> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(GateBatch { calls, reply }).await.ok()?;
        answer.await.ok()
    }
}
