//! Why a request is refused, in neutral words; each wire gives it its own shape.

use serde_json::{Map, Value};

#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
}

pub(crate) type Checked = Result<(), Refusal>;

impl Refusal {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Refusal { status: 400, kind: "invalid_request_error", message: message.into() }
    }

    pub(crate) fn authentication(message: &str) -> Self {
        Refusal { status: 401, kind: "authentication_error", message: message.to_owned() }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Refusal { status: 404, kind: "not_found_error", message: message.into() }
    }
}

pub(crate) fn require(holds: bool, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Refusal::invalid(message())) }
}

/// The first field that is not known.
pub(crate) fn stranger<'a>(object: &'a Map<String, Value>, known: &[&str]) -> Option<&'a str> {
    object.keys().map(String::as_str).find(|key| !known.contains(key))
}

/// Names of tools and ids of calls.
pub(crate) fn is_name(name: &str, longest: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=longest).contains(&name.len()) && name.bytes().all(allowed)
}
