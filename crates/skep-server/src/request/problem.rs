//! Every refusal as `application/problem+json`: what, why, what to do, and a stable `code`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use skep_runtime::door::{DoorError, ErrorKind, Quota};
use utoipa::openapi::{self, Ref};
use utoipa::{IntoResponses, ToSchema};

/// The form of every refusal, for the OpenAPI document. Some carry further members, such as the
/// id to follow.
#[derive(ToSchema)]
#[schema(as = Problem)]
#[allow(dead_code)]
pub(crate) struct ProblemBody {
    /// Always `about:blank`.
    r#type: String,
    title: String,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What, why and what to do, for people.
    detail: String,
    /// A stable word for programs.
    #[schema(pattern = "^[a-z0-9_]+$", example = "unknown_agent")]
    code: String,
}

/// A refusal in the OpenAPI document.
pub(crate) fn described(description: &str) -> openapi::Response {
    let schema = Ref::from_schema_name("Problem");
    openapi::ResponseBuilder::new()
        .description(description)
        .content(PROBLEM, openapi::ContentBuilder::new().schema(Some(schema)).build())
        .build()
}

/// Groups of refusals that routes name among their responses.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident { $($status:literal: $why:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, openapi::RefOr<openapi::Response>> {
                BTreeMap::from([$(($status.to_owned(), described($why).into())),+])
            }
        }
    )+};
}

refusals! {
    Missing { "404": "There is no such thing, or it is not yours." }
    Clash { "409": "It contradicts what is there: an id used with another body, a disabled agent." }
    /// For routes with a JSON body.
    BadBody {
        "408": "The body did not arrive in time.",
        "413": "The body, or the text in it, is too long.",
        "415": "The body is not plain JSON.",
    }
    /// For routes that write.
    NotKept { "507": "No space left on the disk; nothing was accepted." }
    NotReady { "503": "Starting or stopping, or the store's files are gone; `code` says which." }
    /// For a door whose clients expect an answer or a failure. Not a status that clients try
    /// again by themselves.
    TurnFailed { "422": "The message was taken and its turn failed; `code` says how." }
    /// For routes that wait for an answer.
    NoAnswerYet { "504": "No answer in time; the message goes on. `item_id` is the id to follow." }
}

const PROBLEM: &str = "application/problem+json";

#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Cow<'static, str>,
    /// For people. It never carries internals.
    detail: String,
    /// Members beside the standard ones, such as the id to follow.
    more: Vec<(&'static str, Value)>,
    retry_after: Option<u32>,
    /// The limit that was met.
    quota: Option<Box<Quota>>,
    /// The part of the request it is about.
    param: Option<String>,
}

/// The same in short, left with the answer for a door that says it in other words.
#[derive(Clone)]
pub(crate) struct ProblemSummary {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) param: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            detail: detail.into(),
            more: Vec::new(),
            retry_after: None,
            quota: None,
            param: None,
        }
    }

    /// The message was taken and its turn failed, for a door that has no other word for that.
    pub(crate) fn failed_turn(code: String, detail: String) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "failed", detail);
        Self { code: code.into(), ..problem }
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unknown_agent(name: &str) -> Self {
        let shown = skep_scrub::known().beginning(name, 64);
        let detail = format!("there is no agent {shown:?}");
        Self::new(StatusCode::NOT_FOUND, "unknown_agent", detail)
    }

    pub(crate) fn stopping() -> Self {
        let detail = "the hive is stopping; try again when it is back";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail).retry_after(5)
    }

    pub(crate) fn with(mut self, member: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((member, value.into()));
        self
    }

    /// What a refusal repeats may be a key pasted by mistake.
    pub(crate) fn summary(&self) -> ProblemSummary {
        ProblemSummary {
            status: self.status.as_u16(),
            code: self.code.as_ref().to_owned(),
            detail: skep_scrub::known().clean(&self.detail).into_owned(),
            param: self.param.clone(),
        }
    }

    pub(crate) fn limited(mut self, quota: Quota) -> Self {
        self.quota = Some(Box::new(quota));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<DoorError> for Problem {
    fn from(error: DoorError) -> Self {
        let (status, retry_after) = match error.kind {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, None),
            ErrorKind::Forbidden => (StatusCode::FORBIDDEN, None),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, None),
            ErrorKind::Conflict => (StatusCode::CONFLICT, None),
            ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, None),
            ErrorKind::Busy | ErrorKind::Unsynced => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
            ErrorKind::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, None),
            ErrorKind::Stopping => (StatusCode::SERVICE_UNAVAILABLE, Some(5)),
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        Self { retry_after, quota: error.quota, ..Self::new(status, error.code, error.text) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let said = self.summary();
        let mut body = Map::new();
        body.insert("type".to_owned(), "about:blank".into());
        let title = self.status.canonical_reason().unwrap_or("Error");
        body.insert("title".to_owned(), title.into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("detail".to_owned(), self.detail.into());
        body.insert("code".to_owned(), self.code.as_ref().into());
        body.extend(self.more.into_iter().map(|(member, value)| (member.to_owned(), value)));
        let mut body = Value::Object(body);
        skep_scrub::known().clean_json(&mut body);
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(said);
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static(PROBLEM);
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(quota) = self.quota {
            headers.extend(rate_limit(*quota));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.
fn rate_limit(quota: Quota) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let Quota { name, most, left, unit, seconds } = quota;
    let [window, reset] = ["w", "t"]
        .map(|word| seconds.map_or(String::new(), |seconds| format!(";{word}={seconds}")));
    let policy = format!("\"{name}\";q={most};qu=\"{unit}\"{window}");
    let now = format!("\"{name}\";r={left}{reset}");
    let headers = [("ratelimit-policy", policy), ("ratelimit", now)];
    headers.into_iter().filter_map(|(name, value)| {
        Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))
    })
}
