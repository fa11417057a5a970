//! What agents that have none above them ask the operator for, and what the operator answers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use skep_core::ids::ItemId;
use skep_runtime::EscalationInfo;
use utoipa::ToSchema;

use crate::door::state::Doors;
use crate::request::{BadBody, Clash, JsonBody, Missing, NotKept, Permit, Problem, Segments};

#[derive(Serialize, ToSchema)]
pub(crate) struct Escalations {
    /// Oldest first; at most 200.
    escalations: Vec<EscalationInfo>,
}

/// What agents wait for an operator to answer.
#[utoipa::path(
    get, path = "/api/v1/escalations", tag = "inbox",
    responses((status = 200, description = "Those without an answer.", body = Escalations))
)]
pub(crate) async fn list(State(doors): State<Doors>) -> Result<Json<Escalations>, Problem> {
    Ok(Json(Escalations { escalations: doors.hive.escalations().await? }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EscalationAnswer {
    #[schema(min_length = 1, max_length = 10_000)]
    answer: String,
}

/// Answers one, once: the agent reads it as an event in the conversation that asked.
#[utoipa::path(
    post, path = "/api/v1/escalations/{id}/answer", tag = "inbox",
    request_body = EscalationAnswer,
    responses((status = 204, description = "The agent is told."), Missing, Clash, BadBody, NotKept)
)]
pub(crate) async fn answer(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
    JsonBody(EscalationAnswer { answer }): JsonBody<EscalationAnswer>,
) -> Result<StatusCode, Problem> {
    doors.hive.answer_escalation(ItemId::new(id), answer, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}
