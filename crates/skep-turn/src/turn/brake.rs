//! The loop brake of a turn: what it does at each step and call. The rules are
//! `skep_core::brake`'s.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use skep_core::brake::{Brake, BrakeDecision};
use skep_core::engine::ToolCall;
use skep_core::ids::CallId;
use skep_core::message::{Message, Role};
use skep_core::tool::{Manner, ToolAnswer};

use super::state::{Turn, TurnState};
use super::step::PlannedCall;
use crate::gate::{self, CallOutcome};

/// The brake of a turn that goes on: it has seen what its rows tell.
pub(crate) fn of_rows(rows: &[Arc<Message>], turn: &Turn) -> Brake {
    let mut brake = Brake::default();
    let mut calls: HashMap<CallId, (String, Value)> = HashMap::new();
    for row in rows.iter().filter(|row| row.turn == turn.lease.turn) {
        if row.body.role == Role::User {
            brake = Brake::default();
        }
        if row.body.role == Role::Assistant {
            brake.begin_step();
            let asked = row.body.tool_calls();
            let asked = asked.map(|(id, tool, args)| (id.clone(), (tool.to_owned(), args.clone())));
            calls.extend(asked);
        }
        let answered = row.body.tool_call_id.as_ref().and_then(|id| calls.remove(id));
        if let Some((tool, arguments)) = answered {
            let manner = turn.manner(&tool, &arguments);
            brake.answered(&tool, &arguments, &row.body.plain_text(), manner);
        }
    }
    brake
}

impl TurnState {
    /// A step begins; true where one of its calls was refused as a loop and nothing changed since.
    pub fn is_looping(&mut self, calls: &[PlannedCall]) -> bool {
        self.brake.begin_step();
        let ends =
            |call: &ToolCall| self.brake.decide(&call.name, &call.arguments) == BrakeDecision::End;
        calls.iter().any(|planned| ends(&planned.call))
    }

    /// The refusal of a call that went in a circle too often. Calls of one step do not change what
    /// is decided about each other.
    pub fn braked(&mut self, call: &ToolCall) -> Option<CallOutcome> {
        match self.brake.decide(&call.name, &call.arguments) {
            BrakeDecision::Run => None,
            BrakeDecision::Refuse | BrakeDecision::End => {
                let text = self.brake.refuse(&call.name, &call.arguments);
                Some(gate::braked(call, text))
            }
        }
    }

    /// Takes note of an answer, and tells the model where it has had it before.
    pub fn watched(
        &mut self,
        call: &ToolCall,
        manner: Manner,
        mut ran: CallOutcome,
    ) -> CallOutcome {
        if let ToolAnswer::Done { text, .. } = &mut ran.answer
            && let Some(more) = self.brake.answered(&call.name, &call.arguments, text, manner)
        {
            text.push_str(&more);
        }
        ran
    }
}
