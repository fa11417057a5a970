//! The HTTP side: takes a request, checks it, plays the answer and notices who ended it.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use futures_util::stream;
use serde_json::json;

use super::render::{self, Frame};
use super::reply::{Answer, Hold, Reply};
use super::request::{Ending, ModelRequest};
use super::{Accepted, Shared, check};

/// The limit of the real service.
const BODY_BYTES: usize = 32 * 1024 * 1024;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .fallback(async || error_response(&Reply::not_found(), 0))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(shared)
}

async fn messages(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    raw: Bytes,
) -> Response<Body> {
    let request = ModelRequest::new(headers, raw);
    let refusal = check::request(&request).err();
    let Accepted { request, reply } = shared.accept(request, refusal);
    // Dropped with this future when the client goes away.
    let watcher = Watcher { shared, number: request.number };
    for hold in &reply.head {
        watcher.hold(hold).await;
    }
    match &reply.answer {
        Answer::Error { .. } => {
            watcher.shared.end(request.number, Ending::Complete);
            error_response(&reply, request.nonce)
        }
        Answer::Fixed { status, headers, body } => {
            watcher.shared.end(request.number, Ending::Complete);
            response(*status, headers, request.nonce, Body::from(body.clone()))
        }
        Answer::Message if request.streams() => {
            let kind = ("content-type", "text/event-stream; charset=utf-8".to_owned());
            let cache = ("cache-control", "no-cache".to_owned());
            let frames = render::stream(&reply, &request);
            response(200, &[kind, cache], request.nonce, body_of(frames, watcher))
        }
        Answer::Message => {
            let (mut frames, message) = render::whole(&reply, &request);
            frames.push(Frame::Bytes(message.to_string().into()));
            let kind = ("content-type", "application/json".to_owned());
            response(200, &[kind], request.nonce, body_of(frames, watcher))
        }
    }
}

/// Sees the end of one answer; dropped early, it knows that the client hung up.
struct Watcher {
    shared: Arc<Shared>,
    number: usize,
}

impl Watcher {
    async fn hold(&self, hold: &Hold) {
        match hold {
            Hold::Gate(name) => self.shared.gates.get(name).pass().await,
            Hold::Delay(delay) => tokio::time::sleep(*delay).await,
            Hold::Forever => std::future::pending().await,
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Does nothing when another ending was noted before.
        self.shared.end(self.number, Ending::HungUp);
    }
}

fn body_of(frames: Vec<Frame>, watcher: Watcher) -> Body {
    let frames = frames.into_iter().peekable();
    Body::from_stream(stream::unfold((frames, watcher), |(mut frames, watcher)| async move {
        loop {
            let Some(frame) = frames.next() else {
                watcher.shared.end(watcher.number, Ending::Complete);
                return None;
            };
            match frame {
                Frame::Bytes(bytes) => {
                    if frames.peek().is_none() {
                        watcher.shared.end(watcher.number, Ending::Complete);
                    }
                    return Some((Ok(bytes), (frames, watcher)));
                }
                Frame::Gate(name) => watcher.shared.gates.get(&name).pass().await,
                Frame::Delay(delay) => tokio::time::sleep(delay).await,
                Frame::Silence => std::future::pending().await,
                Frame::Cut => {
                    // Let what was written leave the machine before the connection ends.
                    tokio::task::yield_now().await;
                    watcher.shared.end(watcher.number, Ending::Cut);
                    let cut = io::Error::from(io::ErrorKind::ConnectionReset);
                    return Some((Err(cut), (frames, watcher)));
                }
            }
        }
    }))
}

fn error_response(reply: &Reply, nonce: u64) -> Response<Body> {
    let Answer::Error { status, kind, message, retry_after } = &reply.answer else {
        return Response::default();
    };
    let error = json!({ "type": kind, "message": message });
    let body = json!({ "type": "error", "error": error, "request_id": request_id(nonce) });
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(retry_after.clone().map(|after| ("retry-after", after)));
    response(*status, &headers, nonce, Body::from(body.to_string()))
}

fn response(
    status: u16,
    headers: &[(&'static str, String)],
    nonce: u64,
    body: Body,
) -> Response<Body> {
    let mut builder = Response::builder().status(status).header("request-id", request_id(nonce));
    for (name, value) in headers {
        builder = builder.header(*name, value);
    }
    builder.body(body).unwrap_or_else(|_| {
        let mut broken = Response::new(Body::from("the script gave a bad status or header"));
        *broken.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        broken
    })
}

fn request_id(nonce: u64) -> String {
    format!("req_{nonce:016x}")
}
