//! Live events as a stream that a client can leave and take up again (`Last-Event-ID`).
//!
//! Durable events carry their `seq` as `id`. `resync` says that events were left out, or that the
//! hive stops: read `/api/v1/state` again and go on from its `seq`. `active` comes first when one
//! conversation was asked for: what its model call under way has said so far.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::Utf8Bytes;
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use skep_core::event::Event;
use utoipa::IntoParams;

use crate::channel::event_texts::told;
use crate::door::{Doors, Stay};
use crate::request::{Missing, Params, Permit, Problem, extract, only};
use crate::stream::event_filter::EventFilter;
use crate::stream::event_watch::{Seen, Watching};
use crate::stream::sse::{KEEP_ALIVE, Sse, json, streamed};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// Durable events after this `seq` first; without it, from now.
    #[param(minimum = 0)]
    since: Option<i64>,
    agent: Option<String>,
    /// A session's id or key.
    session: Option<String>,
}

/// Live events as server-sent events.
///
/// Durable ones carry their `seq` as `id`; `Last-Event-ID` takes the stream up again.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events",
    params(
        EventParams,
        ("Last-Event-ID" = Option<i64>, Header, description = "In place of `since`.")
    ),
    responses(
        (status = 200, description = "Events, until one side ends it.", body = Sse,
         content_type = "text/event-stream"),
        Missing
    )
)]
pub(crate) async fn stream(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let since = since(&headers, params.since)?;
    let agent = params.agent.as_deref().map(extract::agent).transpose()?;
    let filter = EventFilter::new(agent, params.session, permit.sight());
    let (active, watching) = Watching::begin(&doors, &permit, since, filter, page).await?;
    let watch = Watch {
        first: active.map(|active| block("active", &active, None)),
        watching,
        stay: doors.standing.stay(&doors.hive, permit.credential()),
        doors,
        ended: false,
    };
    Ok(streamed(Body::from_stream(watch.into_stream())))
}

/// A browser that comes back repeats the old address, but knows better by the header.
fn since(headers: &HeaderMap, param: Option<i64>) -> Result<Option<i64>, Problem> {
    let wanted = match only(headers, &LAST_EVENT_ID)? {
        None => param,
        Some(text) => Some(text.trim().parse().unwrap_or(-1)),
    };
    match wanted {
        Some(seq) if seq < 0 => {
            let detail = "since and Last-Event-ID are the seq of an event: a number from 0";
            Err(Problem::bad_request("invalid_query", detail))
        }
        wanted => Ok(wanted),
    }
}

struct Watch {
    first: Option<String>,
    watching: Watching<String>,
    doors: Doors,
    stay: Stay,
    ended: bool,
}

impl Watch {
    fn into_stream(self) -> impl Stream<Item = Result<String, Infallible>> + Send {
        stream::unfold(self, |mut watch| async move {
            let blocks = watch.next().await?;
            Some((Ok(blocks), watch))
        })
    }

    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.ended {
            let seen = tokio::select! {
                seen = self.watching.next() => seen,
                () = self.doors.closing.cancelled() => Seen::Resync,
                () = self.stay.over() => Seen::Resync,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(":\n\n".to_owned()),
            };
            match seen {
                Seen::Past(blocks) if blocks.is_empty() => {}
                Seen::Past(blocks) => return Some(blocks),
                Seen::Now(events) => {
                    let texts = events.iter().map(|event| self.doors.stream_texts.of(event));
                    return Some(texts.map(|text| text.to_string()).collect());
                }
                Seen::Resync => {
                    self.ended = true;
                    return Some("event: resync\ndata: {}\n\n".to_owned());
                }
            }
        }
        None
    }
}

fn page(events: Vec<Event>) -> String {
    events.iter().map(written).collect()
}

/// An event as it stands in the stream.
pub(crate) fn text(event: &Event) -> Utf8Bytes {
    written(event).into()
}

fn written(event: &Event) -> String {
    block(event.kind.name(), &told(event), event.seq)
}

/// JSON has no line ends, so it is one line of data.
fn block(name: &str, value: &impl Serialize, id: Option<i64>) -> String {
    let data = json(value);
    match id {
        Some(id) => format!("event: {name}\ndata: {data}\nid: {id}\n\n"),
        None => format!("event: {name}\ndata: {data}\n\n"),
    }
}
