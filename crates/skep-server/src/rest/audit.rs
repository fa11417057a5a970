//! The audit trail: read, verified, carried away.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use skep_core::audit::{AuditKind, AuditVerdict};
use skep_core::ids::AgentName;
use skep_runtime::audit::{AuditPage, AuditQuery};
use utoipa::IntoParams;

use crate::door::state::Doors;
use crate::request::{Params, Permit, Problem};
use crate::rest::{LINES_FILE, saved_file};

const USUAL_ROWS: usize = 50;
const MOST_ROWS: usize = 500;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    agent: Option<String>,
    tool: Option<String>,
    /// For instance `ok`, `error`, `refused`, `unknown`.
    outcome: Option<String>,
    turn: Option<String>,
    #[param(inline)]
    kind: Option<AuditKind>,
    /// `next` of the page before.
    cursor: Option<i64>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// Rows of the audit trail, newest first.
///
/// Who asked, what was called, what each stage of the gate said, and what came of it. A page may
/// be short and still have a `next`: only so many rows are looked at for one.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "audit", params(AuditParams),
    responses((status = 200, description = "Rows, newest first.", body = AuditPage))
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    permit: Permit,
    Params(asked): Params<AuditParams>,
) -> Result<Json<AuditPage>, Problem> {
    let limit = asked.limit.unwrap_or(USUAL_ROWS);
    if !(1..=MOST_ROWS).contains(&limit) {
        let detail = format!("limit is 1 to {MOST_ROWS}");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let query = AuditQuery {
        agent: asked.agent.map(AgentName),
        tool: asked.tool,
        outcome: asked.outcome,
        turn: asked.turn,
        kind: asked.kind,
        cursor: asked.cursor,
        limit,
    };
    Ok(Json(doors.hive.audit(query, permit.credential()).await?))
}

/// Reads the whole audit trail and names every row that was changed, removed, moved or cut off.
#[utoipa::path(
    get, path = "/api/v1/audit/verify", tag = "audit",
    responses((status = 200, description = "What was found.", body = AuditVerdict))
)]
pub(crate) async fn verify(State(doors): State<Doors>) -> Result<Json<AuditVerdict>, Problem> {
    Ok(Json(doors.hive.verify_audit().await?))
}

/// Every row of the audit trail as JSON lines, oldest first.
///
/// `arguments` and `decision` are texts here, as they are sealed: with them the hashes can be
/// computed elsewhere.
#[utoipa::path(
    get, path = "/api/v1/audit/export", tag = "audit",
    responses((status = 200, description = "Rows, oldest first.", body = String,
               content_type = "application/x-ndjson"))
)]
pub(crate) async fn export(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Response, Problem> {
    Ok(saved_file("audit", LINES_FILE, doors.hive.export_audit(permit.credential())))
}
