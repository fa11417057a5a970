//! `shutdown_team`: a team below is not needed any more.

use skep_core::tool::ToolAnswer;

use super::arguments::ShutdownArguments;
use super::removing::{self, ShutdownFailure, ShutdownOrder};
use super::tool::{OrgCall, answered, refused};

pub(super) async fn run(call: OrgCall, arguments: ShutdownArguments) -> ToolAnswer {
    match removing::shut_down(&call.shared, order(&call, arguments)).await {
        Ok(result) => answered(&result),
        Err(ShutdownFailure { code, why }) => refused(code, &why),
    }
}

/// Why nobody has to be asked whether the team may go.
pub(super) async fn refusal(call: OrgCall, arguments: ShutdownArguments) -> Option<ToolAnswer> {
    let order = order(&call, arguments);
    let no = removing::check(&call.shared, &order).await.err()?;
    Some(refused(no.code, &no.why))
}

fn order(call: &OrgCall, arguments: ShutdownArguments) -> ShutdownOrder {
    ShutdownOrder {
        op: format!("{}/{}", call.context.turn, call.context.call),
        name: arguments.name,
        cascade: arguments.cascade.unwrap_or(false),
        call: Some(call.context.reference()),
        by: format!("agent:{}", call.context.agent),
    }
}
