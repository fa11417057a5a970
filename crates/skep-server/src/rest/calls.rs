//! Calls whose outcome a crash left unknown: listed, and resolved by an operator.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use skep_core::event::Resolution;
use skep_core::ids::{CallId, TurnId};
use skep_runtime::outcomes::{ResolvedInfo, UnknownCallInfo};
use utoipa::ToSchema;

use crate::door::state::Doors;
use crate::request::{BadBody, Clash, JsonBody, Missing, NotKept, Permit, Problem, Segments};

#[derive(Serialize, ToSchema)]
pub(crate) struct UnknownCalls {
    /// Newest first; at most 200.
    calls: Vec<UnknownCallInfo>,
}

/// Calls that had begun when a process ended, and of which nobody has said what became of them.
#[utoipa::path(
    get, path = "/api/v1/calls/unknown", tag = "audit",
    responses((status = 200, description = "The calls.", body = UnknownCalls))
)]
pub(crate) async fn list_unknown(
    State(doors): State<Doors>,
) -> Result<Json<UnknownCalls>, Problem> {
    Ok(Json(UnknownCalls { calls: doors.hive.unknown_calls().await? }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallFinding {
    /// `happened`, `did_not`, or `run_again`: then that very call runs once more, through the
    /// whole gate, and its result reaches its session.
    outcome: Resolution,
    /// For the audit trail.
    #[schema(max_length = 2000)]
    note: Option<String>,
}

/// Says what became of a call, once.
#[utoipa::path(
    post, path = "/api/v1/calls/unknown/{turn}/{call}", tag = "audit", request_body = CallFinding,
    params(
        ("turn" = String, Path, description = "The id of its turn."),
        ("call" = String, Path, description = "The id of the call.")
    ),
    responses(
        (status = 200, description = "It is on record.", body = ResolvedInfo),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn resolve(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((turn, call)): Segments<(String, String)>,
    JsonBody(finding): JsonBody<CallFinding>,
) -> Result<Json<ResolvedInfo>, Problem> {
    let (turn, call) = (TurnId::new(turn), CallId::new(call));
    let CallFinding { outcome, note } = finding;
    Ok(Json(doors.hive.resolve_call(turn, call, outcome, note, permit.principal()).await?))
}
