//! Headers with a meaning of ours, read strictly.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::header::IF_NONE_MATCH;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::request::problem::Problem;

pub(crate) const ID_BYTES: usize = 200;

/// The value of a header that may stand there once.
pub(crate) fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (values.next(), first.to_str()) {
        (None, Ok(text)) => Ok(Some(text)),
        _ => {
            let detail = format!("the header {name} must be given once and in plain ASCII");
            Err(Problem::bad_request("invalid_header", detail))
        }
    }
}

/// The header that makes a write safe to send again.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}

impl IdempotencyKey {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match only(headers, &IDEMPOTENCY_KEY)? {
            Some(key) if !is_id(key) => {
                let detail =
                    format!("Idempotency-Key has 1 to {ID_BYTES} visible ASCII characters");
                Err(Problem::bad_request("bad_id", detail))
            }
            // It is kept, and nothing in it could be replaced.
            Some(key) if matches!(skep_scrub::known().clean(key), Cow::Owned(_)) => {
                let detail = "Idempotency-Key holds a secret, or what looks like one; use another";
                Err(Problem::bad_request("secret", detail))
            }
            key => Ok(Self(key.map(str::to_owned))),
        }
    }

    pub(crate) fn parameter() -> Parameter {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(ID_BYTES))
            .pattern(Some("^[!-~]+$"));
        let parameter = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("The same key and body give the same answer as before."))
            .schema(Some(text));
        parameter.build()
    }
}

impl IntoParams for IdempotencyKey {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![Self::parameter()]
    }
}

/// What a closed connection means for the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnClose {
    Stop,
    Keep,
}

/// The header that says what becomes of the turn when the connection closes before the answer.
pub(crate) struct OnCloseHeader(pub(crate) Option<OnClose>);

const ON_CLOSE: HeaderName = HeaderName::from_static("x-skep-on-close");

impl<S: Send + Sync> FromRequestParts<S> for OnCloseHeader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match only(&parts.headers, &ON_CLOSE)? {
            None => Ok(Self(None)),
            Some("stop") => Ok(Self(Some(OnClose::Stop))),
            Some("keep") => Ok(Self(Some(OnClose::Keep))),
            Some(_) => {
                let detail = "X-Skep-On-Close is stop or keep";
                Err(Problem::bad_request("invalid_header", detail))
            }
        }
    }
}

impl IntoParams for OnCloseHeader {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let word =
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["stop", "keep"]));
        let parameter = ParameterBuilder::new()
            .name("X-Skep-On-Close")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "What becomes of the turn when the connection closes before the answer.",
            ))
            .schema(Some(word));
        vec![parameter.build()]
    }
}

/// The header that keeps a write from replacing what is there: `If-None-Match: *`.
pub(crate) struct OnlyNew(pub(crate) bool);

impl<S: Send + Sync> FromRequestParts<S> for OnlyNew {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match only(&parts.headers, &IF_NONE_MATCH)? {
            None => Ok(Self(false)),
            Some("*") => Ok(Self(true)),
            Some(_) => Err(Problem::bad_request("invalid_header", "If-None-Match is `*` here")),
        }
    }
}

impl IntoParams for OnlyNew {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let star = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["*"]));
        let parameter = ParameterBuilder::new()
            .name("If-None-Match")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("`*`: only where there is none yet; nothing is replaced."))
            .schema(Some(star));
        vec![parameter.build()]
    }
}

/// An id in a header or an address.
pub(crate) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::http::{HeaderValue, header};

    #[test]
    fn a_header_given_twice_is_refused() {
        let mut headers = HeaderMap::new();
        assert_eq!(only(&headers, &header::HOST).unwrap(), None);
        headers.append(header::HOST, HeaderValue::from_static("a"));
        assert_eq!(only(&headers, &header::HOST).unwrap(), Some("a"));
        headers.append(header::HOST, HeaderValue::from_static("b"));
        assert!(only(&headers, &header::HOST).is_err());
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(only(&headers, &header::HOST).is_err());
    }

    #[test]
    fn ids() {
        for good in ["a", "A-1_~!", &"x".repeat(200)] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["", "a b", "é", "a\n", &"x".repeat(201)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
