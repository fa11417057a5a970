//! Server-sent events as every stream of ours writes them.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, header};
use axum::response::sse::{self, Event as Sent, KeepAlive};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One server-sent event, for the OpenAPI document.
#[derive(ToSchema)]
#[schema(as = ServerSentEvent)]
#[allow(dead_code)]
pub(crate) struct Sse {
    event: Option<String>,
    /// The `seq` of a durable event.
    id: Option<String>,
    /// JSON; of the OpenAI interface also `[DONE]`.
    data: String,
}

/// A stream that proxies pass on as it comes.
pub(crate) fn respond(
    events: impl Stream<Item = Result<Sent, Infallible>> + Send + 'static,
) -> Response {
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    streamed(sse::Sse::new(events).keep_alive(keep_alive))
}

pub(crate) fn streamed(body: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

pub(crate) fn plain(name: &str, value: &impl Serialize) -> Sent {
    Sent::default().event(name).data(json(value))
}

pub(crate) fn json(value: &impl Serialize) -> String {
    // Events and messages have text keys only, which always serialise.
    let data = serde_json::to_string(value).unwrap_or_default();
    // What is told again from rows may be older than what is known as a secret.
    skep_scrub::known().clean_json_text(data)
}
