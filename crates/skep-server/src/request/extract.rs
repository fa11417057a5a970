//! Reading requests strictly: what is not understood is refused with the reason, never guessed.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use skep_core::ids::{AgentName, is_agent_name};
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::request::attachment::LARGE_BYTES;
use crate::request::header::only;
use crate::request::intake::{Full, HeldRoom, Intake};
use crate::request::problem::Problem;
use crate::request::unread;

/// The largest request body, but for messages with files.
pub(crate) const BODY_BYTES: usize = 1024 * 1024;
/// The type of JSON lines.
pub(crate) const LINES: &str = "application/x-ndjson";
/// The largest body of them: a session that is imported is one commit.
pub(crate) const LINES_BYTES: usize = 64 * 1024 * 1024;
/// A body that has not arrived after this long is not going to.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);
/// Files over a slow line.
pub(crate) const LARGE_BODY_TIME: Duration = Duration::from_secs(180);
/// Values in a JSON text: each takes many times the memory of its two bytes.
pub(crate) const VALUES: usize = 100_000;
/// A longer text is parsed where nobody waits for the thread, and one at a time.
const LONG: usize = 256 * 1024;
static PARSING: Semaphore = Semaphore::const_new(1);
const USUAL_PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;

/// A JSON body of exactly this shape, of `MOST` bytes at most.
pub(crate) struct JsonBody<T, const MOST: usize = BODY_BYTES>(pub(crate) T);

impl<T: FromBody, S: Send + Sync, const MOST: usize> FromRequest<S> for JsonBody<T, MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        parse(json_bytes(request, MOST).await?).await.map(Self)
    }
}

/// A JSON body that may carry files, and the room it takes until it is dropped.
pub(crate) struct LargeJsonBody<T>(pub(crate) T, pub(crate) Option<HeldRoom>);

impl<T: FromBody, S: Send + Sync> FromRequest<S> for LargeJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let intake = request.extensions().get::<Intake>().cloned();
        let value = parse(json_bytes(request, LARGE_BYTES).await?).await?;
        Ok(Self(value, intake.map(|intake| intake.hand_over())))
    }
}

/// The same, with the hash of its bytes.
pub(crate) struct HashedJsonBody<T>(pub(crate) T, pub(crate) [u8; 32], pub(crate) Option<HeldRoom>);

impl<T: FromBody, S: Send + Sync> FromRequest<S> for HashedJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let intake = request.extensions().get::<Intake>().cloned();
        let bytes = json_bytes(request, LARGE_BYTES).await?;
        let length = bytes.len();
        let read = move || (parse_now(&bytes), Sha256::digest(&bytes).into());
        let (value, hash) = in_turn(length, read).await;
        Ok(Self(value?, hash, intake.map(|intake| intake.hand_over())))
    }
}

async fn json_bytes(request: Request, most: usize) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    require_json(&parts.headers)?;
    read(&parts.headers, body, most).await
}

/// The same, where a request may come without a body.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: FromBody + Default, S: Send + Sync> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body, BODY_BYTES).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        require_json(&parts.headers)?;
        let given: Option<T> = parse(bytes).await?;
        Ok(Self(given.unwrap_or_default()))
    }
}

/// Query parameters of exactly this shape.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri)
    }
}

impl<T: DeserializeOwned> Params<T> {
    pub(crate) fn of(address: &Uri) -> Result<Self, Problem> {
        let Query(value) = Query::try_from_uri(address).map_err(|error| {
            let text = error.body_text();
            let why = text.rsplit_once("string: ").map_or(text.as_str(), |(_, why)| why);
            let detail = format!("the parameters of the address cannot be used: {why}");
            Problem::bad_request("invalid_query", detail)
        })?;
        Ok(Self(value))
    }
}

/// No parameters, and none accepted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

pub(crate) fn page_size(given: Option<u32>) -> Result<u32, Problem> {
    match given.unwrap_or(USUAL_PAGE) {
        size @ 1..=LARGEST_PAGE => Ok(size),
        _ => {
            let detail = format!("limit must be between 1 and {LARGEST_PAGE}");
            Err(Problem::bad_request("invalid_query", detail))
        }
    }
}

/// The variable parts of a path.
pub(crate) struct Segments<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(Problem::bad_request("invalid_path", error.body_text())),
        }
    }
}

/// An agent by its name, or by its id where its rows are read.
pub(crate) fn agent(text: &str) -> Result<AgentName, Problem> {
    let agent = AgentName::new(text);
    match is_agent_name(text) || agent.as_id().is_some() {
        true => Ok(agent),
        false => Err(Problem::unknown_agent(text)),
    }
}

/// Another type is what a form of a foreign page could send without asking first.
fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = only(headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "the body must be JSON and say so: Content-Type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail))
}

pub(crate) async fn read(headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, Problem> {
    let is = |name, plain| {
        let told = only(headers, &name)?.unwrap_or(plain);
        Ok::<_, Problem>(told.eq_ignore_ascii_case(plain))
    };
    if !is(header::CONTENT_ENCODING, "identity")? || !is(header::TRANSFER_ENCODING, "chunked")? {
        let detail = "compressed bodies are not accepted; send it plain";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed", detail));
    }
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let announced = only(headers, &header::CONTENT_LENGTH)?.and_then(|text| text.parse().ok());
    if announced.is_some_and(|length: u64| length > most as u64) {
        return Err(too_large());
    }
    let time = if most > BODY_BYTES { LARGE_BODY_TIME } else { BODY_TIME };
    match tokio::time::timeout(time, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
        Ok(Err(error)) if Full::is_in(&error) => Err(no_room()),
        Ok(Err(_)) => Err(Problem::bad_request("cut_body", "the body ended before its end")),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", time.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_body", detail))
        }
    }
}

fn no_room() -> Problem {
    let detail = "too much is being sent to this hive at the same time; send it again in a moment";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no_room", detail);
    problem.retry_after(1).limited(Full::quota())
}

pub(crate) fn is_length_limit(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.to_string().contains("length limit"))
}

/// Without this a list would do for a struct: its values in the order of the fields.
pub(crate) fn is_list(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// Whether a JSON text has more values than anybody needs. Looks at long ones only: in others there
/// is no space for so many.
pub(crate) fn has_too_many_values(text: &[u8]) -> bool {
    if text.len() < 2 * VALUES {
        return false;
    }
    let (mut count, mut in_string, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' | b':' if !in_string => count += 1,
            _ => {}
        }
    }
    count > VALUES
}

/// What a body can become.
pub(crate) trait FromBody: DeserializeOwned + Send + 'static {}
impl<T: DeserializeOwned + Send + 'static> FromBody for T {}

/// Works on a text; a long one does not keep anybody else from being served.
pub(crate) async fn in_turn<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length < LONG {
        return work();
    }
    let _turn = PARSING.acquire().await;
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends.
        Err(Err(_)) => std::future::pending().await,
    }
}

async fn parse<T: FromBody>(bytes: Bytes) -> Result<T, Problem> {
    in_turn(bytes.len(), move || parse_now(&bytes)).await
}

fn parse_now<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if has_too_many_values(bytes) {
        let detail = format!("the body has more than {VALUES} values");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_values", detail));
    }
    if is_list(bytes) {
        let detail = "the body must be a JSON object, not a list";
        return Err(Problem::bad_request("invalid_body", detail));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { "invalid_body" } else { "bad_json" };
        Problem::bad_request(code, format!("the body cannot be used: {}", unread::why(&error)))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::response::IntoResponse;

    async fn status_of(request: Request) -> u16 {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Shape {
            #[allow(dead_code)]
            message: String,
        }
        match JsonBody::<Shape>::from_request(request, &()).await {
            Ok(_) => 200,
            Err(problem) => problem.into_response().status().as_u16(),
        }
    }

    fn request(kind: Option<&str>, encoding: Option<&str>, body: impl Into<Body>) -> Request {
        let mut builder = Request::builder().method("POST").uri("/");
        if let Some(kind) = kind {
            builder = builder.header("content-type", kind);
        }
        if let Some(encoding) = encoding {
            builder = builder.header("content-encoding", encoding);
        }
        builder.body(body.into()).unwrap()
    }

    /// A byte each second.
    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_given_up() {
        for (most, time) in [(BODY_BYTES, BODY_TIME), (LARGE_BYTES, LARGE_BODY_TIME)] {
            let bytes = futures_util::stream::unfold((), async |()| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
            });
            let (parts, body) = request(None, None, Body::from_stream(bytes)).into_parts();
            let begun = tokio::time::Instant::now();
            let refused = read(&parts.headers, body, most).await.unwrap_err();
            assert_eq!((refused.code(), begun.elapsed()), ("slow_body", time));
        }
    }

    #[tokio::test]
    async fn bodies() {
        let json = Some("application/json");
        let good = r#"{"message":"hi"}"#;
        let deep = format!(r#"{{"message":{}"#, "[".repeat(100_000));
        let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(BODY_BYTES));
        let many = format!(r#"{{"message":[{}0]}}"#, "0,".repeat(VALUES));
        let commas = format!(r#"{{"message":"\"{}"}}"#, ",[{".repeat(VALUES));
        let cases = [
            (request(json, None, good), 200),
            (request(Some("Application/JSON; charset=utf-8"), None, good), 200),
            (request(json, Some("identity"), good), 200),
            (request(json, Some("gzip"), good), 415),
            (request(Some("text/plain"), None, good), 415),
            (request(Some("application/jsonx"), None, good), 415),
            (request(None, None, good), 415),
            (request(json, None, ""), 400),
            (request(json, None, "{"), 400),
            (request(json, None, r#" ["hi"]"#), 400),
            (request(json, None, r#"{"message":1}"#), 400),
            (request(json, None, r#"{"message":"a","role":"operator"}"#), 400),
            (request(json, None, r#"{"message":"a","message":"b"}"#), 400),
            (request(json, None, deep), 400),
            (request(json, None, large), 413),
            (request(json, None, many), 413),
            (request(json, None, commas), 200),
        ];
        for (number, (request, expected)) in cases.into_iter().enumerate() {
            assert_eq!(status_of(request).await, expected, "case {number}");
        }
        for (transfer, expected) in
            [("chunked", 200), ("Chunked", 200), ("gzip, chunked", 415), ("gzip", 415), ("x", 415)]
        {
            let mut request = request(json, None, good);
            request.headers_mut().insert(header::TRANSFER_ENCODING, transfer.parse().unwrap());
            assert_eq!(status_of(request).await, expected, "{transfer}");
        }
    }
}
