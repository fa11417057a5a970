//! What agents ask the operator, and what the operator answers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_core::ids::ItemId;
use skep_core::question::GivenAnswer;
use skep_runtime::Questions;

use crate::door::state::Doors;
use crate::request::{BadBody, Clash, JsonBody, Missing, NotKept, Permit, Problem, Segments};

/// What agents wait for an operator to answer, and what they have told the operator.
#[utoipa::path(
    get, path = "/api/v1/questions", tag = "inbox",
    responses((status = 200, description = "Those without an answer.", body = Questions))
)]
pub(crate) async fn list(State(doors): State<Doors>) -> Result<Json<Questions>, Problem> {
    Ok(Json(doors.hive.questions().await?))
}

/// Puts a message away that needs no reply.
#[utoipa::path(
    post, path = "/api/v1/questions/{id}/close", tag = "inbox",
    responses((status = 204, description = "It is not listed any more."), Missing, Clash, NotKept)
)]
pub(crate) async fn close(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<StatusCode, Problem> {
    doors.hive.put_message_away(ItemId::new(id), permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Answers one, once: the agent reads it as an event in the conversation that asked.
#[utoipa::path(
    post, path = "/api/v1/questions/{id}/answer", tag = "inbox",
    request_body = GivenAnswer,
    responses((status = 204, description = "The agent is told."), Missing, Clash, BadBody, NotKept)
)]
pub(crate) async fn answer(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
    JsonBody(answer): JsonBody<GivenAnswer>,
) -> Result<StatusCode, Problem> {
    doors.hive.answer_question(ItemId::new(id), answer, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}
