//! Items of the inbox: as work, and one by one; how the time of their turns was spent.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use skep_core::event::ItemState;
use skep_core::ids::{ItemId, TurnId};
use skep_core::task::WorkKind;
use skep_runtime::door::{ItemInfo, Receipt, TurnTiming, WorkPage, WorkQuery};
use utoipa::IntoParams;

use crate::door::state::Doors;
use crate::request::{
    Clash, IdempotencyKey, Missing, NotKept, Params, Permit, Problem, Segments, extract, page_size,
};

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

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkParams {
    agent: Option<String>,
    /// States, with commas between them.
    #[param(pattern = r"^((pending|running|waiting|done|failed|cancelled|dead)(,\b|$))*$")]
    state: Option<String>,
    /// Without it everything but commands, events and turns that go on.
    #[param(inline)]
    kind: Option<WorkKind>,
    /// Only what you sent.
    #[param(default = false)]
    mine: Option<bool>,
    /// A text that the message or task holds, in capitals or not.
    #[param(max_length = 200)]
    q: Option<String>,
    /// Also how much there is; what has ended is counted from this time on, in milliseconds.
    since: Option<i64>,
    /// The `next` of the page before.
    after: Option<i64>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Work of all agents, newest first: what people and agents gave them, by state, agent and kind.
#[utoipa::path(
    get, path = "/api/v1/work", tag = "inbox", params(WorkParams),
    responses((status = 200, description = "A page.", body = WorkPage), Missing)
)]
pub(crate) async fn work(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<WorkParams>,
) -> Result<Json<WorkPage>, Problem> {
    let query = WorkQuery {
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        states: states(params.state.as_deref().unwrap_or_default())?,
        kind: params.kind,
        mine: params.mine.unwrap_or(false),
        text: params.q.map(checked_text).transpose()?,
        after: params.after,
        since: params.since,
        limit: page_size(params.limit)?,
    };
    let (credential, sight) = (permit.credential(), permit.sight());
    Ok(Json(doors.hive.work(query, permit.principal(), credential, &sight).await?))
}

fn checked_text(text: String) -> Result<String, Problem> {
    const LONGEST: usize = 200;
    match text.chars().nth(LONGEST) {
        None => Ok(text),
        Some(_) => Err(Problem::bad_request(
            "text_too_long",
            format!("`q` is too long; expected at most {LONGEST} characters"),
        )),
    }
}

fn states(words: &str) -> Result<Vec<ItemState>, Problem> {
    let words = words.split(',').filter(|_| !words.is_empty());
    let state = |word: &str| {
        ItemState::parse(word).ok_or_else(|| {
            let known: Vec<&str> = ItemState::ALL.iter().map(|state| state.as_str()).collect();
            let known = known.join(", ");
            Problem::bad_request(
                "unknown_state",
                format!("`{word}` is no state of an item; there are {known}"),
            )
        })
    };
    words.map(state).collect()
}

/// How the time of a turn was spent: its model calls, its tools, and what it waited for.
#[utoipa::path(
    get, path = "/api/v1/turns/{id}/timing", tag = "inbox",
    responses((status = 200, description = "As it stands.", body = TurnTiming), Missing)
)]
pub(crate) async fn timing(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<Json<TurnTiming>, Problem> {
    let (credential, sight) = (permit.credential(), permit.sight());
    Ok(Json(doors.hive.turn_timing(&TurnId::new(id), credential, &sight).await?))
}
