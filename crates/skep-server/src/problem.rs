//! Every refusal as `application/problem+json`: what, why, what to do, and a stable `code`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use skep_runtime::door::{DoorError, ErrorKind};

#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    /// For people. It never carries internals.
    detail: String,
    /// Members beside the standard ones, such as the id to follow.
    more: Vec<(&'static str, Value)>,
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Vec::new(), retry_after: None }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unknown_agent(name: &str) -> Self {
        let shown: String = name.chars().take(64).collect();
        let detail = format!("there is no agent {shown:?}; GET /api/v1/agents lists them");
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
        Self { retry_after, ..Self::new(status, error.code, error.text) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("type".to_owned(), "about:blank".into());
        let title = self.status.canonical_reason().unwrap_or("Error");
        body.insert("title".to_owned(), title.into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("detail".to_owned(), self.detail.into());
        body.insert("code".to_owned(), self.code.into());
        body.extend(self.more.into_iter().map(|(member, value)| (member.to_owned(), value)));
        let mut response = (self.status, Json(Value::Object(body))).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
