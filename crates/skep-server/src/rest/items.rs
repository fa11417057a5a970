//! Single items of the inbox.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use skep_core::ids::{ItemId, TurnId};
use skep_runtime::door::{ItemInfo, Receipt};

use crate::door::state::Doors;
use crate::request::{Clash, IdempotencyKey, Missing, NotKept, Permit, Problem, Segments};

/// An item with its state, attempts, turn, times, and its answer or error.
#[utoipa::path(
    get, path = "/api/v1/inbox/{id}", tag = "inbox",
    responses((status = 200, description = "The item as it stands.", body = ItemInfo), Missing)
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<Json<ItemInfo>, Problem> {
    Ok(Json(doors.hive.item(&ItemId::new(id), &permit.sight()).await?))
}

/// Ends an item: one that waits ends at once as `cancelled`, one that runs with its whole turn.
#[utoipa::path(
    post, path = "/api/v1/inbox/{id}/cancel", tag = "inbox",
    responses(
        (status = 200, description = "The item as it stands now.", body = ItemInfo),
        Missing, Clash, NotKept
    )
)]
pub(crate) async fn cancel(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<Json<ItemInfo>, Problem> {
    Ok(Json(doors.hive.cancel_item(&ItemId::new(id), &permit.sight()).await?))
}

/// Sends the message of a failed, dead or cancelled item again, as a new item linked to it.
#[utoipa::path(
    post, path = "/api/v1/inbox/{id}/retry", tag = "inbox",
    params(IdempotencyKey),
    responses(
        (status = 202, description = "Accepted: follow the new item.", body = Receipt),
        Missing, Clash, NotKept
    )
)]
pub(crate) async fn retry(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
    key: IdempotencyKey,
) -> Result<Response, Problem> {
    let (key, sight) = (key.0, permit.sight());
    let receipt = doors.hive.retry_item(&ItemId::new(id), key, permit.principal(), &sight).await?;
    Ok((StatusCode::ACCEPTED, Json(receipt)).into_response())
}

/// Ends the pause before a turn is tried again: its next try begins at once.
#[utoipa::path(
    post, path = "/api/v1/turns/{id}/retry-now", tag = "inbox",
    responses((status = 204, description = "It begins."), Missing, Clash, NotKept)
)]
pub(crate) async fn retry_now(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<StatusCode, Problem> {
    doors.hive.retry_now(&TurnId::new(id), &permit.sight()).await?;
    Ok(StatusCode::NO_CONTENT)
}
