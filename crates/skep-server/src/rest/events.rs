//! Live events as a stream that a client can leave and take up again (`Last-Event-ID`).
//!
//! Durable events carry their `seq` as `id`. `resync` says that events were left out, or that the
//! hive stops: read `/api/v1/state` again and go on from its `seq`. `active` comes first when one
//! conversation was asked for: what its model call under way has said so far.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use axum::response::sse::Event as Sent;
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use skep_core::BoxStream;
use skep_runtime::{Hive, Live};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use crate::admission::only;
use crate::doors::Doors;
use crate::extract::{self, Params};
use crate::filter::EventFilter;
use crate::permit::Permit;
use crate::problem::{Missing, Problem};
use crate::rest::message_stream::{Sse, plain, respond};
use crate::standing::Stay;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

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
    get, path = "/api/v1/events", tag = "events", params(EventParams),
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
    let mut filter = EventFilter::new(agent, params.session, permit.sight());
    // Subscribed before anything is read: what happens in between is in the stream.
    let live = doors.hive.events(since);
    let active = filter.resolve(&doors.hive).await?;
    let first = active.map(|active| plain("active", &active));
    let watch = Watch {
        hive: doors.hive.clone(),
        live,
        filter,
        closing: doors.closing.clone(),
        stay: doors.standing.stay(&doors.hive, permit.credential()),
        ended: false,
    };
    let events = stream::iter(first).chain(watch.into_stream()).map(Ok::<_, Infallible>);
    Ok(respond(events))
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
    hive: Hive,
    live: BoxStream<'static, Live>,
    filter: EventFilter,
    closing: CancellationToken,
    stay: Stay,
    ended: bool,
}

impl Watch {
    fn into_stream(self) -> impl Stream<Item = Sent> + Send {
        stream::unfold(self, |mut watch| async move {
            let event = watch.next().await?;
            Some((event, watch))
        })
    }

    async fn next(&mut self) -> Option<Sent> {
        while !self.ended {
            let live = tokio::select! {
                live = self.live.next() => live,
                () = self.closing.cancelled() => None,
                () = self.stay.over() => None,
            };
            match live {
                Some(Live::Event(event)) => {
                    if self.filter.admits(&self.hive, &event).await {
                        let sent = plain(event.kind.name(), &*event);
                        return Some(match event.seq {
                            Some(seq) => sent.id(seq.to_string()),
                            None => sent,
                        });
                    }
                }
                Some(Live::Resync) | None => {
                    self.ended = true;
                    return Some(resync());
                }
            }
        }
        None
    }
}

fn resync() -> Sent {
    Sent::default().event("resync").data("{}")
}
