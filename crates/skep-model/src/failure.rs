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
use skep_scrub::{Scrubber, Secret};

/// How much of the vendor's own explanation is passed on.
const EXPLANATION_CHARACTERS: usize = 400;

/// Letters of a key that are no word of their own.
const KEY_PIECE: usize = 6;
/// Letters of a key that are written apart, or in hex, base64 or escapes.
const KEY_PART: usize = 12;
/// Of either end of one whose middle is masked.
const KEY_END: usize = 3;
const KEY_MASKS: &[&str] = &["**", "...", "…", "xxx", "••"];

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

/// What a call was made with.
#[derive(Clone, Copy)]
pub(crate) struct CalledModel<'a> {
    pub model: &'a str,
    pub key: &'a str,
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

/// An answer whose status is not 200.
pub(crate) fn from_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    asked: CalledModel<'_>,
) -> ModelError {
    let (number, key) = (status.as_u16(), asked.key);
    let detail = Detail::of_body(body);
    match number {
        // Some vendors repeat a part of the key.
        401 => auth(number, ""),
        403 => auth(number, &reason(&detail, key)),
        402 => no_credit(number),
        400 if has_no_credit(&detail) => no_credit(number),
        408 | 409 | 425 | 429 | 500..=599 => ModelError::Passing {
            code: match number {
                429 => RetryCode::RateLimited,
                529 => RetryCode::Overloaded,
                _ => RetryCode::Unavailable,
            },
            text: {
                let what = match number {
                    429 if detail.word == "insufficient_quota" => NO_QUOTA,
                    429 => LIMITED,
                    529 => OVERLOADED,
                    _ => "the model vendor failed",
                };
                format!("{what} ({number}){}", reason(&detail, key))
            },
            retry_after: retry_after(headers),
        },
        404 | 405 if detail.message.is_empty() => ModelError::NotFound {
            text: format!(
                "there is no model at the address ({number}); check the profile's api_url; the \
                 model asked for is `{}`",
                asked.model
            ),
        },
        413 => context_too_long(),
        404 => not_found(rejected(&detail, key, " (404)"), asked.model),
        300..=399 => ModelError::NotFound {
            text: format!("the model address redirects ({number}); redirects are not followed"),
        },
        _ => rejected(&detail, key, &format!(" ({number})")),
    }
}

/// An error inside a stream that began well. The words of all vendors stand together: none of
/// them means two things.
pub(crate) fn from_event(detail: &Detail, key: &str) -> ModelError {
    let passing = |code, what: &str| passing(code, format!("{what}{}", reason(detail, key)));
    match detail.word.as_str() {
        "authentication_error" | "permission_error" | "invalid_api_key" => auth(401, ""),
        "request_too_large" => context_too_long(),
        "not_found_error" | "model_not_found" => not_found(rejected(detail, key, ""), ""),
        "invalid_request_error" if has_no_credit(detail) => no_credit(402),
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" => {
            rejected(detail, key, "")
        }
        "overloaded_error" | "server_is_overloaded" => passing(RetryCode::Overloaded, OVERLOADED),
        "rate_limit_error" | "rate_limit_exceeded" => passing(RetryCode::RateLimited, LIMITED),
        "insufficient_quota" => passing(RetryCode::RateLimited, NO_QUOTA),
        _ => match detail.number {
            Some(401 | 403) => auth(401, ""),
            Some(404) => not_found(rejected(detail, key, ""), ""),
            Some(400 | 413 | 422) => rejected(detail, key, ""),
            Some(429) => passing(RetryCode::RateLimited, LIMITED),
            _ => passing(
                RetryCode::Unavailable,
                "the model vendor failed in the middle of its answer",
            ),
        },
    }
}

/// An event that is called `error` is one, also where its data is not of the wire's own shape.
pub(crate) fn in_named_event(data: &str, key: &str) -> Result<(), ModelError> {
    let told = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
    match told["error"].is_null() && told["type"] != "error" {
        true => Err(from_event(&Detail::of(&told), key)),
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

fn auth(number: u16, why: &str) -> ModelError {
    ModelError::Auth {
        text: format!("the model vendor refused the key ({number}){why}; check the profile's key"),
    }
}

/// Another account may have what this one lacks.
fn no_credit(number: u16) -> ModelError {
    ModelError::Auth {
        text: format!(
            "the account at the model vendor has no credit ({number}); pay there, or check the \
             profile's key"
        ),
    }
}

/// One vendor says it with the status of a bad request.
fn has_no_credit(detail: &Detail) -> bool {
    detail.message.to_ascii_lowercase().contains("credit balance is too low")
}

fn not_found(refusal: ModelError, model: &str) -> ModelError {
    match refusal {
        ModelError::Rejected { text } if model.is_empty() => ModelError::NotFound { text },
        ModelError::Rejected { text } => {
            ModelError::NotFound { text: format!("{text}; the model asked for is `{model}`") }
        }
        other => other,
    }
}

fn context_too_long() -> ModelError {
    ModelError::ContextTooLong { text: "the conversation is too long for the model".to_owned() }
}

fn rejected(detail: &Detail, key: &str, number: &str) -> ModelError {
    let message = detail.message.to_ascii_lowercase();
    let long = LONG_WORDS.contains(&detail.word.as_str())
        || LONG_TEXTS.iter().any(|words| message.contains(words));
    if long {
        return context_too_long();
    }
    let why = reason(detail, key);
    ModelError::Rejected { text: format!("the model vendor rejected the request{number}{why}") }
}

/// What the vendor says about it, after a colon.
fn reason(detail: &Detail, key: &str) -> String {
    let explanation = explanation(&detail.message, key);
    let explanation = explanation.trim_end_matches('.');
    if explanation.is_empty() { String::new() } else { format!(": {explanation}") }
}

fn explanation(message: &str, key: &str) -> String {
    // The key first: a cut could leave half of it unrecognised.
    let message = if key.is_empty() { message.to_owned() } else { message.replace(key, "[key]") };
    let message = skep_scrub::known().clean_owned(message);
    let words: Vec<&str> = message.split_whitespace().collect();
    let (apart, disguised) = (apart(&words, key), disguised(key));
    let is_key = |(number, word): (usize, &&str)| {
        is_part_of_key(word, key) || apart[number] || !disguised.names(word).is_empty()
    };
    let shown = words.iter().enumerate().map(|word| if is_key(word) { "[key]" } else { word.1 });
    let one_line = shown.collect::<Vec<_>>().join(" ");
    one_line
        .chars()
        .filter(|character| !character.is_control())
        .take(EXPLANATION_CHARACTERS)
        .collect()
}

/// Vendors quote a wrong key in part: its beginning, or its ends with stars between them.
fn is_part_of_key(word: &str, key: &str) -> bool {
    let (word, key) = (word.to_ascii_lowercase(), key.to_ascii_lowercase());
    let mut pieces = (0..key.len()).filter_map(|at| key.get(at..at + KEY_PIECE));
    if pieces.any(|piece| word.contains(piece)) {
        return true;
    }
    let bare = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let last = key.len().checked_sub(KEY_END).and_then(|at| key.get(at..));
    let is_end = key.get(..KEY_END).is_some_and(|first| bare.starts_with(first))
        || last.is_some_and(|last| bare.ends_with(last));
    is_end && KEY_MASKS.iter().any(|mask| word.contains(mask))
}

/// Every part of the key, to be found in all forms in which secrets travel.
fn disguised(key: &str) -> Scrubber {
    let scrubber = Scrubber::default();
    let parts = (0..key.len()).filter_map(|at| key.get(at..at + KEY_PART));
    scrubber.add(parts.map(|part| Secret::new("key", part)));
    scrubber
}

/// By word: whether it holds letters of the key that are written in groups.
fn apart(words: &[&str], key: &str) -> Vec<bool> {
    let letters = |text: &str| {
        let all = text.chars().filter(char::is_ascii_alphanumeric);
        all.map(|letter| letter.to_ascii_lowercase()).collect::<String>()
    };
    let (key, mut text, mut starts) = (letters(key), String::new(), Vec::new());
    for word in words {
        starts.push(text.len());
        text.push_str(&letters(word));
    }
    let mut apart = vec![false; words.len()];
    for part in (0..key.len()).filter_map(|at| key.get(at..at + KEY_PART)) {
        for (at, _) in text.match_indices(part) {
            let first = starts.partition_point(|start| *start <= at) - 1;
            let behind = starts.partition_point(|start| *start < at + KEY_PART);
            apart[first..behind].fill(true);
        }
    }
    apart
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
