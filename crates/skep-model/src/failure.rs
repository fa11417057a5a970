//! What went wrong on the wire, as the kinds the engine branches on. The texts are for people:
//! they carry what helps them, never the key, an address or a library's words.

use std::io::ErrorKind;
use std::time::Duration;

use http::StatusCode;
use http::header::{DATE, HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;
use skep_core::engine::RetryCode;
use skep_core::provider::ModelError;
use skep_guard::clock;
use skep_guard::egress::{EgressCause, EgressError, HttpError};

use crate::explanation;

const NO_QUOTA: &str = "the account's quota at the model vendor is used up";
const LIMITED: &str = "the model vendor limits the rate of requests";
const OVERLOADED: &str = "the model vendor is overloaded";

/// How vendors and compatible servers say that a conversation is too long.
const LONG_WORDS: &[&str] = &["context_length_exceeded", "exceed_context_size_error"];
const LONG_TEXTS: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "context window",
    "maximum context length",
    "available context size",
];

/// A failure with the vendor's words about it as they came. They may hold the key: it becomes an
/// error only by [`Self::told`].
#[derive(Debug)]
pub struct VendorFailure {
    error: ModelError,
    said: String,
    /// What follows the vendor's words.
    behind: String,
}

impl VendorFailure {
    /// The error with the vendor's words in it, without the key that the call was made with.
    /// `request` is what was sent.
    pub(crate) fn told(self, key: &str, request: impl FnOnce() -> String) -> ModelError {
        let Self { mut error, said, behind } = self;
        let said = explanation::shown(&said, key, request);
        let said = said.trim_end_matches('.');
        let text = error.text_mut();
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(said);
        }
        text.push_str(&behind);
        error
    }
}

impl From<ModelError> for VendorFailure {
    fn from(error: ModelError) -> Self {
        Self { error, said: String::new(), behind: String::new() }
    }
}

/// What a vendor says about an error, in whichever of the usual shapes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Detail {
    /// The vendor's word for it: its code where there is one, else its type.
    pub word: String,
    /// The status that could not be sent any more, where the code is a number.
    pub number: Option<u64>,
    pub message: String,
}

impl Detail {
    /// From `{type, code, message}`, or from a bare text.
    pub(crate) fn of(error: &Value) -> Self {
        if let Some(message) = error.as_str() {
            return Self { message: message.to_owned(), ..Self::default() };
        }
        let word = ["code", "type"].into_iter().find_map(|name| error[name].as_str());
        Self {
            word: word.unwrap_or_default().to_owned(),
            number: error["code"].as_u64(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// From the body of an answer. A page of a proxy in between explains nothing.
    fn of_body(body: &[u8]) -> Self {
        let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
        // One server puts its only error into a list.
        let body = body.get(0).unwrap_or(&body);
        match &body["error"] {
            Value::Null => Self::of(body),
            error => Self::of(error),
        }
    }
}

/// Whether the field of an event that holds an error holds one.
pub(crate) fn is_told(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

pub(crate) fn passing(code: RetryCode, text: impl Into<String>) -> ModelError {
    ModelError::Passing { code, text: text.into(), retry_after: None }
}

/// An answer whose status is not 200, of a call of this model.
pub(crate) fn from_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    model: &str,
) -> VendorFailure {
    let number = status.as_u16();
    let detail = Detail::of_body(body);
    match number {
        // Some vendors repeat a part of the key.
        401 => auth(number),
        403 => VendorFailure { said: detail.message, ..auth(number) },
        402 => no_credit(number),
        400 if has_no_credit(&detail) => no_credit(number),
        408 | 409 | 425 | 429 | 500..=599 => {
            let code = match number {
                429 => RetryCode::RateLimited,
                529 => RetryCode::Overloaded,
                _ => RetryCode::Unavailable,
            };
            let what = match number {
                429 if detail.word == "insufficient_quota" => NO_QUOTA,
                429 => LIMITED,
                529 => OVERLOADED,
                _ => "the model vendor failed",
            };
            let (text, retry_after) = (format!("{what} ({number})"), retry_after(headers));
            let error = ModelError::Passing { code, text, retry_after };
            VendorFailure { said: detail.message, ..error.into() }
        }
        404 | 405 if detail.message.is_empty() => not_found(format!(
            "there is no model at the address ({number}); check the profile's api_url; the model \
             asked for is `{model}`"
        )),
        413 => context_too_long().into(),
        404 => {
            let behind = format!("; the model asked for is `{model}`");
            VendorFailure { behind, ..of_profile(rejected(detail, " (404)")) }
        }
        300..=399 => {
            not_found(format!("the model address redirects ({number}); redirects are not followed"))
        }
        _ => rejected(detail, &format!(" ({number})")),
    }
}

/// An error inside a stream that began well. The words of all vendors stand together: none of
/// them means two things.
pub(crate) fn from_event(detail: Detail) -> VendorFailure {
    let passes = |code, what: &str, said| VendorFailure { said, ..passing(code, what).into() };
    match detail.word.as_str() {
        "authentication_error" | "permission_error" | "invalid_api_key" => auth(401),
        "request_too_large" => context_too_long().into(),
        "not_found_error" | "model_not_found" => of_profile(rejected(detail, "")),
        "invalid_request_error" if has_no_credit(&detail) => no_credit(402),
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" => {
            rejected(detail, "")
        }
        "overloaded_error" | "server_is_overloaded" => {
            passes(RetryCode::Overloaded, OVERLOADED, detail.message)
        }
        "rate_limit_error" | "rate_limit_exceeded" => {
            passes(RetryCode::RateLimited, LIMITED, detail.message)
        }
        "insufficient_quota" => passes(RetryCode::RateLimited, NO_QUOTA, detail.message),
        _ => match detail.number {
            Some(401 | 403) => auth(401),
            Some(404) => of_profile(rejected(detail, "")),
            Some(400 | 413 | 422) => rejected(detail, ""),
            Some(429) => passes(RetryCode::RateLimited, LIMITED, detail.message),
            _ => passes(
                RetryCode::Unavailable,
                "the model vendor failed in the middle of its answer",
                detail.message,
            ),
        },
    }
}

/// An event that is called `error` is one, also where its data is not of the wire's own shape.
pub(crate) fn in_named_event(data: &str) -> Result<(), VendorFailure> {
    let told = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
    match told["error"].is_null() && told["type"] != "error" {
        true => Err(from_event(Detail::of(&told))),
        false => Ok(()),
    }
}

/// A page in place of an answer.
pub(crate) fn no_answer() -> ModelError {
    passing(
        RetryCode::Unusable,
        "the model address answers with something else than events; check the profile's api_url",
    )
}

/// The connection could not be made or broke before the answer began.
pub(crate) fn from_transport(error: &HttpError) -> ModelError {
    let text = match error {
        HttpError::Unsendable(_) => {
            return ModelError::Rejected {
                text: "the model address or key is not usable; check the profile".to_owned(),
            };
        }
        HttpError::Egress(error) => match unreached(error) {
            Some(why) => format!("the model vendor cannot be reached: {why}"),
            None => "the model vendor cannot be reached".to_owned(),
        },
        HttpError::Local { .. } | HttpError::Timeout(_) | HttpError::Broken(_) => {
            "the connection to the model vendor broke".to_owned()
        }
    };
    passing(RetryCode::Unreachable, text)
}

/// What people can do something about. The library's own words hold addresses, so they are only
/// looked at.
fn unreached(error: &EgressError) -> Option<String> {
    let host = &error.host;
    Some(match &error.cause {
        EgressCause::Timeout { .. } => format!("nothing answers at {host} in time"),
        EgressCause::NameUnknown { why } => {
            format!("the host {host} is not known ({why}); check api_url and the network")
        }
        EgressCause::Unreachable { kind: ErrorKind::ConnectionRefused, .. } => format!(
            "the connection is refused by {host}; does the server run, and is api_url right?"
        ),
        EgressCause::Tls { why } if why.contains("certificate") => {
            format!("the certificate of {host} is not trusted here")
        }
        EgressCause::Tls { why }
            if why.contains("InvalidContentType") || why.contains("corrupt message") =>
        {
            format!("{host} does not speak TLS; is api_url to begin with http://?")
        }
        _ => return None,
    })
}

fn auth(number: u16) -> VendorFailure {
    let text = format!("the model vendor refused the key ({number})");
    VendorFailure {
        behind: "; check the profile's key".to_owned(),
        ..ModelError::Auth { text }.into()
    }
}

/// Another account may have what this one lacks.
fn no_credit(number: u16) -> VendorFailure {
    let text = format!(
        "the account at the model vendor has no credit ({number}); pay there, or check the \
         profile's key"
    );
    ModelError::Auth { text }.into()
}

/// One vendor says it with the status of a bad request.
fn has_no_credit(detail: &Detail) -> bool {
    detail.message.to_ascii_lowercase().contains("credit balance is too low")
}

fn not_found(text: String) -> VendorFailure {
    ModelError::NotFound { text }.into()
}

/// A refusal whose reason is the profile.
fn of_profile(refusal: VendorFailure) -> VendorFailure {
    match refusal.error {
        ModelError::Rejected { text } => {
            VendorFailure { error: ModelError::NotFound { text }, ..refusal }
        }
        _ => refusal,
    }
}

fn context_too_long() -> ModelError {
    ModelError::ContextTooLong { text: "the conversation is too long for the model".to_owned() }
}

fn rejected(detail: Detail, number: &str) -> VendorFailure {
    let message = detail.message.to_ascii_lowercase();
    let long = LONG_WORDS.contains(&detail.word.as_str())
        || LONG_TEXTS.iter().any(|words| message.contains(words));
    if long {
        return context_too_long().into();
    }
    let text = format!("the model vendor rejected the request{number}");
    VendorFailure { said: detail.message, ..ModelError::Rejected { text }.into() }
}

/// Seconds, whole or broken, or the moment as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let moment = |text| DateTimeParser::new().parse_timestamp(text).ok();
    let until = moment(text)?;
    // By the vendor's own clock, where it says what that is.
    let vendor = headers.get(DATE).and_then(|date| moment(date.to_str().ok()?));
    let now = vendor.or_else(|| Timestamp::from_millisecond(clock::now_ms()).ok())?;
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
