//! `?stream=true`: one message as server-sent events, ended by its durable answer.
//!
//! First `ack` (the receipt) or, when an earlier message is followed, `message`. Then `delta`,
//! `tool_start`, `tool_end`, `model_retry` and `turn_waiting` of the turn that answers it, as in
//! the stream of all events; a delta of another token or call voids the text shown before. `resync`
//! says that some were left out and only the end follows. The last is `response` or `error`, or
//! `left` when the hive stops: the message goes on, follow its id.

use std::convert::Infallible;

use axum::response::Response;
use axum::response::sse::Event as Sent;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;
use skep_core::event::EventKind;
use skep_runtime::door::Followed;

use crate::door::calls::Presence;
use crate::stream::follow_stream::{FollowItem, Telling};
use crate::stream::sse::{plain, respond};

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
            if matches!(told, FollowItem::End(..)) {
                presence.iter_mut().for_each(Presence::delivered);
            }
            if let Some(sent) = sent(told) {
                return Some((sent, (telling, presence)));
            }
        }
    });
    respond(first.chain(rest).map(Ok::<_, Infallible>))
}

fn sent(told: FollowItem) -> Option<Sent> {
    match told {
        FollowItem::Event(event) if matches!(event.kind, EventKind::HistoryUpdated { .. }) => None,
        FollowItem::Event(event) => Some(plain(event.kind.name(), &*event)),
        FollowItem::Lost => Some(plain("resync", &json!({}))),
        FollowItem::Left => Some(plain("left", &json!({}))),
        FollowItem::End(followed, usage) => Some(end(&followed, &usage)),
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
