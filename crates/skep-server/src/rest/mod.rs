//! `/api/v1`: one file per noun, each handler a call of the hive and its answer as JSON.

mod agents;
mod events;
mod hive;
mod messages;
mod page;
mod tokens;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use axum::routing::{delete, get, post};

use crate::admission;
use crate::doors::Doors;
use crate::problem::Problem;
use crate::ws;

pub(crate) fn router(doors: Doors) -> Router {
    let api = Router::new()
        .route("/agents", get(agents::list))
        .route("/agents/{agent}/history", get(agents::history))
        .route("/agents/{agent}/stop", post(agents::stop))
        .route("/agents/{agent}/messages", post(messages::send))
        .route("/agents/{agent}/messages/{id}", get(messages::follow))
        .route("/state", get(hive::state))
        .route("/inbox", get(hive::inbox))
        .route("/events", get(events::stream))
        .route("/health", get(hive::health))
        .route("/ready", get(hive::ready))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{id}", delete(tokens::revoke))
        .route("/shutdown", post(hive::shutdown));
    Router::new()
        .route("/", get(page::show))
        .route("/health", get(hive::health))
        .route("/ready", get(hive::ready))
        .route("/ws", get(ws::upgrade))
        .nest("/api/v1", api)
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(doors.clone(), admission::admit))
        .with_state(doors)
}

async fn unknown_route(uri: Uri) -> Problem {
    let shown: String = uri.path().chars().take(200).collect();
    let detail = format!("there is nothing at {shown}");
    Problem::new(StatusCode::NOT_FOUND, "unknown_route", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let shown: String = uri.path().chars().take(200).collect();
    let detail = format!("{shown} does not answer to {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
}
