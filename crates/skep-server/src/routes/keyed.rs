//! `Idempotency-Key` on every write whose handler does not look at it itself: the same request
//! twice is carried out once and answered twice. The key is a row before the write begins, so that
//! no crash lets a second one through.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use skep_core::ids::{AgentId, Principal};
use skep_runtime::door::EarlierRequest;

use crate::door::{Doors, ShowsSecret, redact_response};
use crate::request::{Problem, extract};

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptAnswer {
    status: u16,
    kind: Option<String>,
    /// Nothing where it showed a secret: such an answer is given once.
    body: Option<String>,
}

/// Answers a request with this key.
pub(crate) async fn answer(
    doors: &Doors,
    principal: &Principal,
    key: String,
    most: usize,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let agent = agent_in(doors, &mut parts).await;
    let body = extract::read(&parts.headers, body, most).await?;
    let address = parts.uri.path_and_query().map_or("", |address| address.as_str());
    let mut hash = Sha256::new();
    hash.update(format!("{} {address}\n{agent:?}\n", parts.method));
    hash.update(&body);
    match doors.hive.begin_request(principal, &key, hash.finalize().into()).await? {
        EarlierRequest::None => {}
        EarlierRequest::Open => return Err(open(&key)),
        EarlierRequest::Answered(answer) => return again(&key, &answer),
    }
    let request = Request::from_parts(parts, Body::from(body));
    let (doors, principal, tasks) = (Doors::clone(doors), principal.clone(), doors.tasks.clone());
    // Of its own: whoever sends it again often does so because the first connection broke.
    let done = tasks.spawn(async move {
        let response = redact_response::clean(next.run(request).await).await;
        let (response, answer) = keep(response).await;
        doors.hive.end_request(&principal, &key, answer).await?;
        Ok(response)
    });
    done.await.unwrap_or_else(|_| {
        let detail = "something went wrong inside; the log of the hive has the details";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
    })
}

/// The agent that the path names: the same path means another one after it was removed.
async fn agent_in(doors: &Doors, parts: &mut Parts) -> Option<AgentId> {
    let named = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let (_, name) = named.iter().find(|(parameter, _)| *parameter == "agent")?;
    doors.hive.agent_id(&extract::agent(name).ok()?).ok()
}

/// What is kept of an answer: nothing of a refusal, which did nothing.
async fn keep(response: Response) -> (Response, Option<String>) {
    if !response.status().is_success() {
        return (response, None);
    }
    let secret = response.extensions().get::<ShowsSecret>().is_some();
    let (parts, body) = response.into_parts();
    // All of it is in memory already: no route that is kept here answers with a stream.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let body = (!secret).then(|| String::from_utf8_lossy(&bytes).into_owned());
    let answer = KeptAnswer { status: parts.status.as_u16(), kind: kind.map(str::to_owned), body };
    let answer = serde_json::to_string(&answer).ok();
    (Response::from_parts(parts, Body::from(bytes)), answer)
}

fn again(key: &str, answer: &str) -> Result<Response, Problem> {
    let unreadable = |_| {
        tracing::error!(key, "the answer kept for this key cannot be read");
        open(key)
    };
    let KeptAnswer { status, kind, body } = serde_json::from_str(answer).map_err(unreadable)?;
    let Some(body) = body else {
        let detail = format!(
            "the request {key} was carried out, and its answer is shown once; make another with \
             a new Idempotency-Key"
        );
        return Err(Problem::new(StatusCode::CONFLICT, "id_reused", detail));
    };
    let mut response = Body::from(body).into_response();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(kind) = kind.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(response)
}

fn open(key: &str) -> Problem {
    let detail = format!(
        "the request {key} came before and its answer is not known: it is being carried out, or \
         the hive stopped while it was. Ask again in a moment; if that does not help, look \
         whether it was done, then send it with a new Idempotency-Key"
    );
    Problem::new(StatusCode::CONFLICT, "request_open", detail).retry_after(1)
}
