//! `escalate`, `enqueue_parent_task`: what goes to the agent above.

use serde_json::json;
use skep_core::ids::AgentName;
use skep_core::task::TaskKind;
use skep_core::tool::ToolAnswer;
use skep_store::assign::{Assign, Assigned};

use super::arguments::{EscalateArguments, HandUpArguments, Priority};
use super::delegate;
use super::tool::{OrgCall, answered, failed, refused};

pub(super) async fn escalate(call: OrgCall, arguments: EscalateArguments) -> ToolAnswer {
    let EscalateArguments { message, reason } = arguments;
    let body = match reason {
        Some(reason) => format!("{message}\n\nReason: {reason}"),
        None => message,
    };
    match delegate::new(&call, TaskKind::Escalate, above(), body) {
        Ok(assign) => give(&call, Assign { priority: Priority::High.rank(), ..assign }).await,
        Err(refused) => *refused,
    }
}

pub(super) async fn hand_up(call: OrgCall, arguments: HandUpArguments) -> ToolAnswer {
    let HandUpArguments { task, priority, correlation_id } = arguments;
    let priority = priority.unwrap_or(Priority::Normal).rank();
    match delegate::new(&call, TaskKind::HandUp, above(), task) {
        Ok(assign) => give(&call, Assign { priority, correlation: correlation_id, ..assign }).await,
        Err(refused) => *refused,
    }
}

/// Who is above is looked up where it is given.
fn above() -> Vec<AgentName> {
    vec![AgentName::new("")]
}

async fn give(call: &OrgCall, assign: Assign) -> ToolAnswer {
    match call.organisation.assign(&call.shared, assign).await {
        Ok(Assigned::Given { tasks, new, .. }) => match tasks.first() {
            Some(task) => answered(&json!({
                "success": true, "task_id": task.id, "to": task.agent_name, "status": "queued",
                "repeated": !new,
            })),
            None => refused("store", "nothing was given"),
        },
        Ok(Assigned::Busy { .. }) => refused("busy", "the agent above has other work"),
        Ok(Assigned::Refused { code: "no_parent", why }) => {
            refused("no_parent", &format!("{why}; say it in your answer instead"))
        }
        Ok(Assigned::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }
}
