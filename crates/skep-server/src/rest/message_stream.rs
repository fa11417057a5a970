//! `?stream=true`: one message as server-sent events, ended by its durable answer.
//!
//! First `ack` (the receipt) or, when an earlier message is followed, `message`. Then `delta`,
//! `tool_start`, `tool_end` and `turn_waiting` of the turn that answers it, as in the stream of all
//! events; a delta of another token or call voids the text shown before. `resync` says that some
//! were left out and only the end follows. The last is `response` or `error`, or `left` when the
//! hive stops: the message goes on, follow its id.

use std::convert::Infallible;

use axum::http::{HeaderName, header};
use axum::response::sse::{self, Event as Sent, KeepAlive};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;
use skep_core::event::EventKind;
use skep_guard::scrub;
use skep_runtime::door::Followed;
use utoipa::ToSchema;

use crate::calls::Presence;
use crate::rest::events::KEEP_ALIVE;
use crate::telling::{Telling, Told};

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

/// `first` is told before everything else.
pub(crate) fn answer(
    name: &str,
    first: &impl Serialize,
    telling: Telling,
    presence: Option<Presence>,
) -> Response {
    let first = stream::iter([plain(name, first)]);
    let rest = stream::unfold((telling, presence), |(mut telling, mut presence)| async move {
        loop {
            let told = telling.next().await?;
            if matches!(told, Told::End(..)) {
                presence.iter_mut().for_each(Presence::delivered);
            }
            if let Some(sent) = sent(told) {
                return Some((sent, (telling, presence)));
            }
        }
    });
    respond(first.chain(rest).map(Ok::<_, Infallible>))
}

/// A stream that proxies pass on as it comes.
pub(crate) fn respond(
    events: impl futures_util::Stream<Item = Result<Sent, Infallible>> + Send + 'static,
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

fn sent(told: Told) -> Option<Sent> {
    match told {
        Told::Event(event) if matches!(event.kind, EventKind::HistoryUpdated { .. }) => None,
        Told::Event(event) => Some(plain(event.kind.name(), &*event)),
        Told::Lost => Some(plain("resync", &json!({}))),
        Told::Left => Some(plain("left", &json!({}))),
        Told::End(followed, usage) => Some(end(&followed, &usage)),
    }
}

fn end(followed: &Followed, usage: &Option<skep_core::message::Usage>) -> Sent {
    let name = if followed.response.is_some() { "response" } else { "error" };
    #[derive(Serialize)]
    struct End<'a> {
        #[serde(flatten)]
        followed: &'a Followed,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: &'a Option<skep_core::message::Usage>,
    }
    plain(name, &End { followed, usage })
}

pub(crate) fn plain(name: &str, value: &impl Serialize) -> Sent {
    Sent::default().event(name).data(json(value))
}

pub(crate) fn json(value: &impl Serialize) -> String {
    // Events and messages have text keys only, which always serialise.
    let data = serde_json::to_string(value).unwrap_or_default();
    // What is told again from rows may be older than what is known as a secret.
    scrub::known().clean_owned(data)
}
