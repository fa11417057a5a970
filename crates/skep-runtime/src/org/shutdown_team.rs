//! `shutdown_team`: a team below is not needed any more.

use skep_core::tool::ToolAnswer;

use super::arguments::ShutdownArguments;
use super::removing::{self, ShutdownFailure, ShutdownOrder};
use super::tool::{OrgCall, answered, refused};

pub(super) async fn run(call: &OrgCall, arguments: ShutdownArguments) -> ToolAnswer {
    let order = ShutdownOrder {
        op: format!("{}/{}", call.context.turn, call.context.call),
        name: arguments.name,
        cascade: arguments.cascade.unwrap_or(false),
        turn: Some(call.context.turn.clone()),
        by: format!("agent:{}", call.context.agent),
    };
    match removing::shut_down(&call.shared, order).await {
        Ok(result) => answered(&result),
        Err(ShutdownFailure { code, why }) => refused(code, &why),
    }
}
