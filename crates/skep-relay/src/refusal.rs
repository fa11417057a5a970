//! What the relay says itself, in the form in which the vendor tells errors: the program shows it
//! as it would show the vendor's words. A code in brackets at its end tells it apart from those.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;
use skep_core::budget::Over;
use skep_core::engine::RetryCode;
use skep_core::provider::ModelError;
use skep_core::relay::RelayWire;

use crate::body::{self, RelayBody};

/// How much of what a program sent is shown to it again.
const SHOWN_CHARACTERS: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayRefusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub text: String,
    /// What was sent is not read to its end: the connection cannot be used again.
    pub closes: bool,
}

impl RelayRefusal {
    fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into(), closes: false }
    }

    pub fn bearer() -> Self {
        let text = "the bearer is missing or not that of this process";
        Self::new(StatusCode::UNAUTHORIZED, "relay_bearer", text)
    }

    pub fn path() -> Self {
        let text = "the model relay does not serve this address";
        Self::new(StatusCode::NOT_FOUND, "relay_path", text)
    }

    pub fn closed() -> Self {
        let text = "no turn of this agent is running, so no model is asked";
        Self::new(StatusCode::FORBIDDEN, "relay_closed", text)
    }

    /// It is not, or does not hold, what is understood.
    pub fn body(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "relay_body", text)
    }

    /// The rest of it is not read.
    pub fn unread(status: StatusCode, text: impl Into<String>) -> Self {
        Self { closes: true, ..Self::new(status, "relay_body", text) }
    }

    pub fn field(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "relay_field", text)
    }

    pub fn tool(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "relay_tool", text)
    }

    pub fn model(asked: &str, own: &str) -> Self {
        let text = format!("the model is {own} here, and {} is not asked", shown(asked));
        Self::new(StatusCode::BAD_REQUEST, "relay_model", text)
    }

    /// Asked again, the answer would be the same: no status after which programs try again.
    pub fn over(over: Over) -> Self {
        Self::new(StatusCode::BAD_REQUEST, over.code.as_str(), over.text)
    }

    pub fn profile(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "relay_profile", text)
    }

    /// The vendor was asked and did not begin to answer.
    pub fn vendor(error: &ModelError) -> Self {
        let status = match error {
            ModelError::Passing { code: RetryCode::Timeout, .. } => StatusCode::GATEWAY_TIMEOUT,
            ModelError::Passing { .. } => StatusCode::BAD_GATEWAY,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, "relay_unreachable", error.to_string())
    }

    pub fn response(self, wire: RelayWire) -> Response<RelayBody> {
        let message = format!("Skep: {} [{}]", self.text, self.code);
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        let body = match wire {
            RelayWire::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            RelayWire::Responses => json!({ "error": {
                "message": message, "type": kind, "param": null, "code": self.code,
            } }),
        };
        let mut response = Response::new(body::whole(body.to_string()));
        *response.status_mut() = self.status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if self.closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }
}

/// A word of the program's, short and on one line.
pub(crate) fn shown(word: &str) -> String {
    let cut: String = word.chars().take(SHOWN_CHARACTERS).collect();
    format!("`{}`", cut.escape_debug())
}
