//! What is known of a call that did not go through every stage.

use skep_core::engine::ToolCall;
use skep_core::tool::ToolAnswer;
use skep_store::journal::Audit;

use super::chain::{Chain, Stage};
use super::{CallOutcome, End};

/// A call that went in a circle too often: it does not reach the first stage.
pub(crate) fn braked(call: &ToolCall, text: String) -> CallOutcome {
    let mut chain = Chain::default();
    chain.note(Stage::Brake, "refused: the same call, the same answer, again and again");
    let audit = Audit {
        call: call.id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        decision: chain.text(),
        outcome: "refused",
        took_ms: 0,
        bytes: i64::try_from(text.len()).unwrap_or(i64::MAX),
    };
    CallOutcome { answer: ToolAnswer::error(text), audit, end: End::Refused, asked: None }
}

/// The row of a call that had begun when the process ended: what came of it, nobody knows.
pub(crate) fn lost(call: &ToolCall) -> Audit {
    let mut chain = Chain::default();
    chain.note(Stage::Run, "begun, and the process ended");
    Audit {
        call: call.id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        decision: chain.text(),
        outcome: "unknown",
        took_ms: 0,
        bytes: 0,
    }
}

/// The row of a call that never began.
pub(crate) fn never_ran(call: &ToolCall, why: &str) -> Audit {
    let mut chain = Chain::default();
    chain.note(Stage::Run, format!("not begun: {why}"));
    Audit { outcome: "cancelled", decision: chain.text(), ..lost(call) }
}

/// The row of a call of which there were too many in one answer.
pub(crate) fn in_excess(call: &ToolCall) -> Audit {
    let mut chain = Chain::default();
    chain.note(Stage::Brake, "refused: too many calls in one answer");
    Audit { outcome: "refused", decision: chain.text(), ..lost(call) }
}

/// The row of a call that nobody decided on in time.
pub(crate) fn expired(call: &ToolCall) -> Audit {
    let mut chain = Chain::default();
    chain.note(Stage::Policy, "refused: nobody decided in time");
    Audit { outcome: "refused", decision: chain.text(), ..lost(call) }
}

/// The row of a call of the engine's own that nobody permitted.
pub(crate) fn ungated(call: &ToolCall) -> Audit {
    let mut chain = Chain::default();
    chain.note(Stage::Run, "by the engine, without permission");
    Audit { outcome: "ungated", decision: chain.text(), ..lost(call) }
}
