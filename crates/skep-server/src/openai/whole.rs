//! An answer in one piece. One that takes long begins with its headers and is kept alive by white
//! space: clients and proxies give up on a silent connection, and JSON may begin with blanks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use skep_core::BoxFuture;
use skep_core::message::Usage;
use skep_guard::clock;
use skep_runtime::door::Receipt;

use super::reply::{Answer, Choice, Completion, TokenCounts, id_of};
use super::{Answered, answer_of};
use crate::door::{Doors, Presence};
use crate::request::problem::Problem;
use crate::stream::follow_stream::{FollowItem, Telling};

enum Ended {
    Answered(Box<Completion>),
    Failed(Problem),
    /// The hive stops, or the credential is over.
    Left,
}

pub(super) async fn answer(
    doors: &Doors,
    receipt: &Receipt,
    telling: Telling,
    mut presence: Presence,
) -> Result<Response, Problem> {
    let mut ending = ending(Arc::clone(doors), receipt.clone(), telling);
    let times = doors.calls.times;
    let ended = tokio::select! {
        ended = &mut ending => ended,
        () = tokio::time::sleep(times.headers) => {
            return Ok(later(ending, presence, times.space));
        }
    };
    if !matches!(ended, Ended::Left) {
        presence.delivered();
    }
    match ended {
        Ended::Answered(completion) => Ok(Json(completion).into_response()),
        Ended::Failed(problem) => Err(problem),
        Ended::Left => Err(Problem::stopping()),
    }
}

fn ending(doors: Doors, receipt: Receipt, mut telling: Telling) -> BoxFuture<'static, Ended> {
    Box::pin(async move {
        let (followed, usage) = loop {
            match telling.next().await {
                Some(FollowItem::End(followed, usage)) => break (followed, usage),
                Some(FollowItem::Left) | None => return Ended::Left,
                Some(FollowItem::Event(_) | FollowItem::Lost) => {}
            }
        };
        match answer_of(&doors, &followed).await {
            Ok(answered) => Ended::Answered(Box::new(completion(&receipt, answered, usage))),
            Err(failure) => Ended::Failed(Problem::failed_turn(failure.code, failure.error)),
        }
    })
}

/// The status is sent. A turn that fails after that breaks the body off: a client that asks again
/// is told how it failed.
fn later(ending: BoxFuture<'static, Ended>, presence: Presence, space: Duration) -> Response {
    let waiting = Some((ending, presence, Duration::ZERO));
    let pieces = stream::unfold(waiting, move |waiting| async move {
        let (mut ending, mut presence, pause) = waiting?;
        let ended = tokio::select! {
            biased;
            ended = &mut ending => ended,
            () = tokio::time::sleep(pause) => {
                return Some((Ok(Bytes::from_static(b" ")), Some((ending, presence, space))));
            }
        };
        let piece = match ended {
            Ended::Answered(completion) => serde_json::to_string(&completion).map(|text| {
                presence.delivered();
                skep_scrub::known().clean_json_text(text).into()
            }),
            Ended::Failed(_) | Ended::Left => {
                return Some((Err(io::Error::other("the turn has no answer")), None));
            }
        };
        Some((piece.map_err(io::Error::other), None))
    });
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, Body::from_stream(pieces)).into_response()
}

fn completion(receipt: &Receipt, answered: Answered, usage: Option<Usage>) -> Completion {
    let message = Answer { role: "assistant", content: answered.text };
    Completion {
        id: id_of(&receipt.item_id),
        object: "chat.completion",
        created: clock::now_ms() / 1000,
        model: receipt.agent.clone(),
        choices: vec![Choice { index: 0, message, finish_reason: answered.finish }],
        usage: usage.map(TokenCounts::from),
    }
}
