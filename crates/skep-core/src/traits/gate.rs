//! The engine's way to tools: the gate runs those of the hive and permits those of the engine.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::policy::Class;
use crate::traits::provider::ToolSpec;
use crate::vocab::ids::CallId;
use crate::vocab::message::Message;

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    pub name: String,
    pub arguments: Value,
}

/// A bounded sender of requests; the turn answers them one after the other.
#[derive(Clone)]
pub struct Gate {
    specs: Arc<[ToolSpec]>,
    sender: mpsc::Sender<GateRequest>,
}

pub enum GateRequest {
    /// Calls of our tools, to be run in their order (or side by side where none of them changes
    /// anything).
    Run { calls: Vec<ToolCall>, reply: oneshot::Sender<Vec<Arc<Message>>> },
    /// A call that the engine is about to make. Without `own` the tool is one of ours, and `Run`
    /// will follow.
    Permit { call: ToolCall, own: Option<OwnTool>, reply: oneshot::Sender<CallPermit> },
}

/// What the rules know a tool of the engine by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTool {
    /// The name in allow-lists and policies, such as `bash`.
    pub key: String,
    pub class: Class,
}

/// Whether a call may be made.
#[derive(Debug)]
pub enum CallPermit {
    /// With these arguments.
    Allow {
        arguments: Value,
    },
    Deny {
        reason: String,
    },
    /// A person is asked.
    Waits(Waiting),
}

/// A call that waits for a person.
#[derive(Debug)]
pub struct Waiting(pub oneshot::Receiver<CallPermit>);

impl Waiting {
    /// What was decided. `None`: the run does not go on here; the engine is to end.
    pub async fn decided(self) -> Option<CallPermit> {
        self.0.await.ok()
    }
}

impl Gate {
    pub fn new(specs: Arc<[ToolSpec]>, sender: mpsc::Sender<GateRequest>) -> Self {
        Self { specs, sender }
    }

    /// The tools that the model is offered.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// Runs calls of our tools, whoever asks. The rows that come back (the assistant's message, the
    /// results in the order of the calls, then messages that arrived meanwhile) are what the next
    /// request adds. `None`: the turn does not go on here (it waits, or was ended); the engine
    /// stops quietly.
    pub async fn run(&self, calls: Vec<ToolCall>) -> Option<Vec<Arc<Message>>> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(GateRequest::Run { calls, reply }).await.ok()?;
        answer.await.ok()
    }

    /// Asks for a call the engine is about to make. A call is examined once: whoever asks again
    /// with the same id hears the same. A call without an id is the oldest of the same tool and
    /// arguments that nobody has asked for. `None` as for `run`.
    pub async fn permit(&self, call: ToolCall, own: Option<OwnTool>) -> Option<CallPermit> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(GateRequest::Permit { call, own, reply }).await.ok()?;
        answer.await.ok()
    }
}
