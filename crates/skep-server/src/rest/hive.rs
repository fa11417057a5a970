//! The hive as a whole: its state, its inbox, whether it lives, and ending it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use skep_core::event::ItemState;
use skep_runtime::door::{HiveState, InboxItem, InboxQuery, Sight};
use utoipa::{IntoParams, ToSchema};

use crate::door::{Doors, Peer};
use crate::request::{Missing, NotReady, Params, Permit, Problem, extract, page_size};

#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the program lives.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "hive",
    responses((status = 200, description = "It does.", body = Status))
)]
pub(crate) async fn health() -> Json<Status> {
    Json(Status { status: "ok" })
}

/// The same, where probes look by habit.
#[utoipa::path(
    get, path = "/health", tag = "hive",
    responses((status = 200, description = "It does.", body = Status))
)]
pub(crate) async fn health_short() -> Json<Status> {
    health().await
}

/// The same, where probes look by habit.
#[utoipa::path(
    get, path = "/ready", tag = "hive",
    responses((status = 200, description = "It does.", body = Status), NotReady)
)]
pub(crate) async fn ready_short(state: State<Doors>) -> Response {
    ready(state).await
}

/// Whether the hive takes messages.
#[utoipa::path(
    get, path = "/api/v1/ready", tag = "hive",
    responses((status = 200, description = "It does.", body = Status), NotReady)
)]
pub(crate) async fn ready(State(doors): State<Doors>) -> Response {
    let not_ready = |code: &'static str, text: String| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, text).retry_after(1).into_response()
    };
    match doors.hive.is_ready() && !doors.closing.is_cancelled() {
        true => match doors.hive.store_moved() {
            None => Json(Status { status: "ready" }).into_response(),
            Some(why) => not_ready("store_moved", why),
        },
        false => not_ready("not_ready", "not ready".to_owned()),
    }
}

/// The hive at one moment, with the `seq` from which events go on.
#[utoipa::path(
    get, path = "/api/v1/state", tag = "hive",
    responses((status = 200, description = "What you may see of it.", body = HiveState))
)]
pub(crate) async fn state(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Json<HiveState>, Problem> {
    let sight = permit.sight();
    let mut snapshot = doors.hive.snapshot(permit.identity(), &sight).await?;
    if sight == Sight::All {
        snapshot.hive.home = Some(doors.home.display().to_string());
    }
    Ok(Json(snapshot))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxParams {
    agent: Option<String>,
    state: Option<ItemState>,
    /// The `after` of the page before.
    after: Option<i64>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Inbox {
    items: Vec<InboxItem>,
    /// Give it as `after` for the next page; absent on the last.
    after: Option<i64>,
}

/// Inbox items, newest first.
#[utoipa::path(
    get, path = "/api/v1/inbox", tag = "inbox", params(InboxParams),
    responses((status = 200, description = "A page.", body = Inbox), Missing)
)]
pub(crate) async fn inbox(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<InboxParams>,
) -> Result<Json<Inbox>, Problem> {
    let limit = page_size(params.limit)?;
    let query = InboxQuery {
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        state: params.state,
        after: params.after,
        limit,
    };
    let items = doors.hive.inbox(query, permit.credential(), &permit.sight()).await?;
    // A page that is not full is the last.
    let full = u32::try_from(items.len()).is_ok_and(|count| count >= limit);
    let after = items.last().filter(|_| full).map(|item| item.ord);
    Ok(Json(Inbox { items, after }))
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Stopping {
    #[schema(example = "stopping")]
    state: &'static str,
}

/// Stops the hive as SIGTERM would; through the local socket only.
///
/// Ending the hive is for whoever owns its home, not for whoever holds a token.
#[utoipa::path(
    post, path = "/api/v1/shutdown", tag = "hive",
    responses((status = 202, description = "It stops.", body = Stopping))
)]
pub(crate) async fn shutdown(
    State(doors): State<Doors>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Problem> {
    if !matches!(peer, Peer::Owner) {
        let detail = "only the local socket can end the hive: run `skep down` on its machine";
        return Err(Problem::new(StatusCode::FORBIDDEN, "local_only", detail));
    }
    tracing::info!("asked to stop through the local socket");
    doors.hive.request_shutdown();
    Ok((StatusCode::ACCEPTED, Json(Stopping { state: "stopping" })).into_response())
}
