//! The hive as a whole: its state, its inbox, whether it lives, and ending it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::event::ItemState;
use skep_guard::clock;
use skep_runtime::door::InboxQuery;

use crate::admission::Peer;
use crate::doors::Doors;
use crate::extract::{self, Params};
use crate::problem::Problem;
use crate::rest::agents::{Nothing, page_size};

pub(crate) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub(crate) async fn ready(State(doors): State<Doors>) -> Response {
    let ready = doors.hive.is_ready() && !doors.closing.is_cancelled();
    match ready {
        true => Json(json!({ "status": "ready" })).into_response(),
        false => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "not ready")
            .retry_after(1)
            .into_response(),
    }
}

pub(crate) async fn state(
    State(doors): State<Doors>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Json<Value>, Problem> {
    let snapshot = doors.hive.snapshot().await?;
    let uptime = clock::now_ms().saturating_sub(snapshot.hive.started_at).max(0);
    let mut state = json!(snapshot);
    if let Some(hive) = state.get_mut("hive").and_then(Value::as_object_mut) {
        hive.insert("uptime_ms".to_owned(), uptime.into());
        hive.insert("home".to_owned(), doors.home.display().to_string().into());
    }
    Ok(Json(state))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxParams {
    agent: Option<String>,
    state: Option<ItemState>,
    after: Option<i64>,
    limit: Option<u32>,
}

pub(crate) async fn inbox(
    State(doors): State<Doors>,
    Params(params): Params<InboxParams>,
) -> Result<Json<Value>, Problem> {
    let limit = page_size(params.limit)?;
    let query = InboxQuery {
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        state: params.state,
        after: params.after,
        limit,
    };
    let items = doors.hive.inbox(query).await?;
    // A page that is not full is the last.
    let full = u32::try_from(items.len()).is_ok_and(|count| count >= limit);
    let after = items.last().filter(|_| full).map(|item| item.ord);
    Ok(Json(json!({ "items": items, "after": after })))
}

/// Ending the hive is for whoever owns its home, not for whoever holds a token.
pub(crate) async fn shutdown(
    State(doors): State<Doors>,
    Extension(peer): Extension<Peer>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Response, Problem> {
    if !matches!(peer, Peer::Owner) {
        let detail = "only the local socket can end the hive: run `skep down` on its machine";
        return Err(Problem::new(StatusCode::FORBIDDEN, "local_only", detail));
    }
    tracing::info!("asked to stop through the local socket");
    doors.hive.request_shutdown();
    Ok((StatusCode::ACCEPTED, Json(json!({ "state": "stopping" }))).into_response())
}
