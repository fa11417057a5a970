//! A request that was read goes on to its vendor, and the answer back as it comes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use skep_core::BoxStream;
use skep_core::provider::{ModelError, RawAnswer, RawEndpoint, RawHeaders, RawRequest};
use skep_core::relay::RelayTools;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::account::RequestAccount;
use crate::body::RelayBody;
use crate::bounds::WholeBody;
use crate::check::{self, JudgedRequest};
use crate::launch::{KEY_HEADER, RelayProcess, RelayedTurn};
use crate::refusal::RelayRefusal;
use crate::wire::{self, WireRules};

/// Longer requests are judged where they hold nobody up.
const LONG_BYTES: usize = 256 * 1024;

/// Of a connection and not of what is said on it (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Who asks, whom, and what he can read: of that the provider says its own. An answer that is not
/// compressed can be counted.
const OWN: [&str; 9] = [
    "accept-encoding",
    "api-key",
    "authorization",
    "content-length",
    "cookie",
    "host",
    KEY_HEADER,
    "openai-organization",
    "openai-project",
];

pub(crate) async fn relay(
    launch: &Arc<RelayProcess>,
    turn: &Arc<RelayedTurn>,
    endpoint: RawEndpoint,
    head: &Parts,
    body: WholeBody,
) -> Result<Response<RelayBody>, RelayRefusal> {
    let WholeBody { bytes, room } = body;
    let profile = &turn.turn.profile;
    let judged = judged(&bytes, wire::rules(launch.wire), &launch.tools).await?;
    if judged.model != profile.model {
        return Err(RelayRefusal::model(&judged.model, &profile.model));
    }
    let provider = turn.turn.providers.get(&profile.name);
    let name = &profile.name;
    let none = || RelayRefusal::profile(format!("no model is set up for the profile {name}"));
    let provider = provider.ok_or_else(none)?;
    let account = RequestAccount::open(turn, launch.wire, endpoint, &judged, &bytes).await?;
    let request = RawRequest {
        endpoint,
        query: head.uri.query().map(str::to_owned),
        headers: to_vendor(&head.headers),
        body: bytes,
    };
    let Some(answered) = provider.forward(request) else {
        account.refused();
        let text = format!("the profile {name} speaks another wire than this engine");
        return Err(RelayRefusal::profile(text));
    };
    let answer = match answered.await {
        Ok(answer) => answer,
        Err(error) => {
            account.refused();
            return Err(RelayRefusal::vendor(&error));
        }
    };
    drop(room);
    Ok(respond(answer, endpoint, account, turn))
}

async fn judged(
    body: &Bytes,
    rules: &'static WireRules,
    tools: &RelayTools,
) -> Result<JudgedRequest, RelayRefusal> {
    if body.len() < LONG_BYTES {
        return check::judge(body, rules, tools);
    }
    let (body, tools) = (body.clone(), tools.clone());
    let judged = tokio::task::spawn_blocking(move || check::judge(&body, rules, &tools));
    judged.await.unwrap_or_else(|_| Err(RelayRefusal::closed()))
}

fn respond(
    answer: RawAnswer,
    endpoint: RawEndpoint,
    account: RequestAccount,
    turn: &RelayedTurn,
) -> Response<RelayBody> {
    let RawAnswer { status, headers, body } = answer;
    // An answer that is only on its way to one is none.
    let status = StatusCode::from_u16(status).ok().filter(|status| !status.is_informational());
    let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
    let account = match status.is_success() && endpoint != RawEndpoint::CountTokens {
        true => Some(account),
        // Such a request uses nothing.
        false => {
            account.refused();
            None
        }
    };
    let closed = Box::pin(turn.closed.clone().cancelled_owned());
    let pieces = stream::unfold(Some(Answering { body, account, closed }), Answering::next);
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    *response.status_mut() = status;
    *response.headers_mut() = to_process(headers);
    response
}

/// An answer on its way.
struct Answering {
    body: BoxStream<'static, Result<Bytes, ModelError>>,
    account: Option<RequestAccount>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Answering {
    /// The next piece, once it is counted. After an error the process sees that it was cut.
    async fn next(this: Option<Self>) -> Option<(io::Result<Frame<Bytes>>, Option<Self>)> {
        let Self { mut body, mut account, mut closed } = this?;
        let piece = tokio::select! {
            biased;
            () = &mut closed => Some(Err(io::Error::other("the turn is over"))),
            piece = async {
                match body.next().await {
                    Some(Ok(piece)) => {
                        if let Some(account) = &mut account {
                            account.read(&piece).await;
                        }
                        Some(Ok(piece))
                    }
                    Some(Err(error)) => Some(Err(io::Error::other(error))),
                    None => None,
                }
            } => piece,
        };
        match piece {
            Some(Ok(piece)) => Some((Ok(Frame::data(piece)), Some(Self { body, account, closed }))),
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                if let Some(account) = account {
                    account.finish().await;
                }
                None
            }
        }
    }
}

fn to_vendor(headers: &HeaderMap) -> RawHeaders {
    let named = named_by_connection(headers.get_all(header::CONNECTION).iter());
    let goes = |name: &HeaderName| {
        let name = name.as_str();
        !HOP_BY_HOP.contains(&name)
            && !OWN.contains(&name)
            && !named.iter().any(|other| other == name)
    };
    let going = headers.iter().filter(|(name, _)| goes(name));
    going.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

fn to_process(headers: RawHeaders) -> HeaderMap {
    let read = headers.into_iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(&value).ok()?))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in read {
        headers.append(name, value);
    }
    for name in named_by_connection(headers.get_all(header::CONNECTION).iter()) {
        headers.remove(name);
    }
    // What the vendor wants to be told again belongs to the account of the key.
    for name in HOP_BY_HOP.into_iter().chain(["set-cookie"]) {
        headers.remove(name);
    }
    headers
}

/// A connection's own headers are those that it names.
fn named_by_connection<'v>(values: impl Iterator<Item = &'v HeaderValue>) -> Vec<String> {
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.map(|word| word.trim().to_ascii_lowercase()).collect()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
