//! Calls of an engine that runs its own loop, from the first word about each to its result. The
//! engine may speak of one call several times: as part of a message, before it asks, when it asks,
//! when it starts, when it is done. All of these are joined here, by the engine's own id.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use skep_core::decision::Decision;
use skep_core::engine::{CallPermit, OwnTool, ToolCall};
use skep_core::ids::CallId;
use skep_core::message::Message;

use super::step::WaitingCall;
use crate::gate::ClearedCall;

/// How far a call has come.
pub(crate) enum CallStage {
    /// It is on record, and nobody has asked for it.
    Announced,
    /// One of ours that may run: the engine is to ask for its result.
    Cleared(Box<ClearedCall>),
    /// One of the engine's that we permitted: it may have its effect from here on.
    Started {
        cleared: Box<ClearedCall>,
        arguments: Value,
    },
    Waits(Box<WaitingCall>),
    Denied(String),
    Done,
}

pub(crate) struct EngineCall {
    /// As it is on record.
    pub call: ToolCall,
    /// The engine's own word for it; empty where it has none.
    engine_id: CallId,
    pub own: Option<OwnTool>,
    /// What was decided about it while it waited.
    pub decision: Option<Decision>,
    /// The engine says that it started it.
    pub said_started: bool,
    permit_asked: bool,
    run_asked: bool,
    pub stage: CallStage,
    /// Whoever waits for a person's word on it.
    pub waiters: Vec<oneshot::Sender<CallPermit>>,
    pub result: Option<Arc<Message>>,
}

/// What the engine wants of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Permit,
    Run,
}

/// In the order in which they were announced.
#[derive(Default)]
pub(crate) struct EngineCalls(Vec<EngineCall>);

impl EngineCalls {
    /// `call` is as it is on record.
    pub fn announce(&mut self, engine_id: CallId, call: ToolCall) -> usize {
        self.0.push(EngineCall {
            call,
            engine_id,
            own: None,
            decision: None,
            said_started: false,
            permit_asked: false,
            run_asked: false,
            stage: CallStage::Announced,
            waiters: Vec::new(),
            result: None,
        });
        self.0.len() - 1
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut EngineCall> {
        self.0.get_mut(at)
    }

    /// The newest call of this id that has no result.
    pub fn open(&self, id: &CallId) -> Option<usize> {
        let open =
            |call: &EngineCall| call.engine_id == *id && !id.as_str().is_empty() && !call.is_done();
        self.0.iter().rposition(open)
    }

    /// The oldest call that the engine runs.
    pub fn oldest_started(&self) -> Option<usize> {
        self.0.iter().position(|call| matches!(call.stage, CallStage::Started { .. }))
    }

    /// The call the engine asks for: by its id, else the oldest of the same tool and arguments that
    /// was not asked for in this way.
    pub fn asked(&mut self, asked: &ToolCall, want: Want) -> Option<usize> {
        let at = match asked.id.as_str().is_empty() {
            false => self.open(&asked.id),
            true => self.0.iter().position(|known| {
                let was_asked = match want {
                    Want::Permit => known.permit_asked,
                    Want::Run => known.run_asked,
                };
                !was_asked && !known.is_done() && known.is_of(asked)
            }),
        }?;
        let known = &mut self.0[at];
        match want {
            Want::Permit => known.permit_asked = true,
            Want::Run => known.run_asked = true,
        }
        Some(at)
    }

    /// Keeps the row of a call's result.
    pub fn note_result(&mut self, row: &Arc<Message>) {
        let Some(id) = &row.body.tool_call_id else { return };
        if let Some(known) = self.0.iter_mut().rev().find(|known| known.call.id == *id) {
            known.result = Some(Arc::clone(row));
        }
    }

    pub fn has_started(&self) -> bool {
        self.0.iter().any(|call| matches!(call.stage, CallStage::Started { .. }))
    }

    /// Nothing can go on before a person has decided.
    pub fn only_waits(&self) -> bool {
        let busy = |call: &EngineCall| {
            matches!(call.stage, CallStage::Started { .. } | CallStage::Cleared(_))
        };
        let waits = |call: &EngineCall| matches!(call.stage, CallStage::Waits(_));
        self.0.iter().any(waits) && !self.0.iter().any(busy)
    }

    /// What its calls wait for. A question is handed out once.
    pub fn waiting(&mut self) -> Vec<WaitingCall> {
        let waiting = self.0.iter_mut().filter_map(|call| match &mut call.stage {
            CallStage::Waits(waits) => Some(WaitingCall {
                call: waits.call.clone(),
                reason: waits.reason.clone(),
                approval: waits.approval.take(),
                until: waits.until,
            }),
            _ => None,
        });
        waiting.collect()
    }

    /// The call of this id that waits; the id is that on record.
    pub fn waits(&self, id: &CallId) -> Option<usize> {
        let waits = |call: &EngineCall| matches!(call.stage, CallStage::Waits(_));
        self.0.iter().position(|call| call.call.id == *id && waits(call))
    }

    /// Tells those who waited what was decided.
    pub fn tell_waiters(&mut self) {
        for call in &mut self.0 {
            if matches!(call.stage, CallStage::Waits(_)) {
                continue;
            }
            for waiter in std::mem::take(&mut call.waiters) {
                if let Some(permit) = call.permit() {
                    let _ = waiter.send(permit);
                }
            }
        }
    }

    /// A call that the engine says it started, and that nobody permitted.
    pub fn ungated(&self) -> Option<usize> {
        let unpermitted =
            |call: &EngineCall| matches!(call.stage, CallStage::Announced | CallStage::Waits(_));
        self.0.iter().position(|call| call.said_started && unpermitted(call))
    }

    /// Takes out what is open.
    pub fn take_open(&mut self) -> impl Iterator<Item = EngineCall> + use<> {
        std::mem::take(&mut self.0).into_iter().filter(|call| !call.is_done())
    }
}

impl EngineCall {
    /// What the engine may do about it, once that is known.
    pub fn permit(&self) -> Option<CallPermit> {
        match &self.stage {
            CallStage::Started { arguments, .. } => {
                Some(CallPermit::Allow { arguments: arguments.clone() })
            }
            CallStage::Cleared(_) => {
                Some(CallPermit::Allow { arguments: self.call.arguments.clone() })
            }
            CallStage::Denied(reason) => Some(CallPermit::Deny { reason: reason.clone() }),
            CallStage::Announced | CallStage::Waits(_) | CallStage::Done => None,
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, CallStage::Done)
    }

    fn is_of(&self, asked: &ToolCall) -> bool {
        self.call.name == asked.name && self.call.arguments == asked.arguments
    }
}
