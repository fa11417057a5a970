//! The HTTP side: takes a request, checks it, plays the answer and notices who ended it.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde_json::json;

use super::frames::{self, Frame};
use super::reply::{Answer, Fault, Hold};
use super::request::{Ending, ModelRequest};
use super::wire::Wire;
use super::{Accepted, Shared};

/// The limit of the real service.
const BODY_BYTES: usize = 32 * 1024 * 1024;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new().fallback(async || {
        let fault = Fault { status: 404, kind: "not_found_error", message: "no such path".into() };
        error_response(Wire::Anthropic, &fault, None, 0)
    });
    for wire in Wire::ALL {
        let handler = async move |shared, headers, raw| answer(wire, shared, headers, raw).await;
        router = router.route(wire.path(), post(handler));
    }
    router = router.route("/v1/models", get(async || Json(models())));
    router.layer(DefaultBodyLimit::max(BODY_BYTES)).with_state(shared)
}

/// As Ollama lists what it has: the newest first, whatever it is for.
fn models() -> serde_json::Value {
    let model = |id| json!({"id": id, "object": "model", "created": 1, "owned_by": "library"});
    json!({"object": "list", "data": [model("nomic-embed-text"), model("scripted-local")]})
}

async fn answer(
    wire: Wire,
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    raw: Bytes,
) -> Response<Body> {
    let request = ModelRequest::new(wire, headers, raw);
    let refusal = if shared.state().keyless {
        let mut keyed = request.clone();
        keyed.headers.insert("authorization", HeaderValue::from_static("Bearer any"));
        wire.check(&keyed).err()
    } else {
        wire.check(&request).err()
    };
    let Accepted { request, reply } = shared.accept(request, refusal);
    // Dropped with this future when the client goes away.
    let watcher = Watcher { shared, number: request.number };
    for hold in &reply.head {
        watcher.hold(hold).await;
    }
    match &reply.answer {
        Answer::Error { fault, retry_after } => {
            watcher.shared.end(request.number, Ending::Complete);
            error_response(wire, fault, retry_after.clone(), request.nonce)
        }
        Answer::Fixed { status, headers, body } => {
            watcher.shared.end(request.number, Ending::Complete);
            response(*status, headers, request.nonce, Body::from(body.clone()))
        }
        Answer::Bare(kind) => {
            let headers = [("content-type", kind.clone())];
            response(200, &headers, request.nonce, body_of(frames::bare(&reply), watcher))
        }
        Answer::Message => {
            let kind = if request.streams() {
                "text/event-stream; charset=utf-8"
            } else {
                "application/json"
            };
            let headers =
                [("content-type", kind.to_owned()), ("cache-control", "no-cache".to_owned())];
            let frames = wire.render(&reply, &request);
            response(200, &headers, request.nonce, body_of(frames, watcher))
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

fn error_response(
    wire: Wire,
    fault: &Fault,
    retry_after: Option<String>,
    nonce: u64,
) -> Response<Body> {
    let (status, body) = wire.error(fault, &request_id(nonce));
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(retry_after.map(|after| ("retry-after", after)));
    response(status, &headers, nonce, Body::from(body.to_string()))
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
