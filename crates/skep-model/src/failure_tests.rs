#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use http::header::HeaderValue;
use serde_json::json;

use super::*;

const KEY: &str = "sk-secret-key";
const MODEL: &str = "large-9";

fn status(number: u16, kind: &str, message: &str) -> ModelError {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}}).to_string();
    let status = StatusCode::from_u16(number).unwrap();
    told(from_status(status, &HeaderMap::new(), body.as_bytes(), MODEL))
}

fn told(failure: VendorFailure) -> ModelError {
    failure.told(KEY, String::new)
}

fn kind(error: &ModelError) -> &'static str {
    match error {
        ModelError::Passing { .. } => "passing",
        ModelError::Auth { .. } => "auth",
        ModelError::NotFound { .. } => "not_found",
        ModelError::Rejected { .. } => "rejected",
        ModelError::ContextTooLong { .. } => "context_too_long",
    }
}

#[test]
fn every_status_has_its_kind() {
    let table = [
        (301, "", "", "not_found"),
        (400, "invalid_request_error", "max_tokens: required", "rejected"),
        (400, "invalid_request_error", "prompt is too long: 9 > 8 maximum", "context_too_long"),
        (
            400,
            "invalid_request_error",
            "This model's maximum context length is 8",
            "context_too_long",
        ),
        (400, "invalid_request_error", "Your credit balance is too low to access", "auth"),
        (400, "exceed_context_size_error", "n_prompt_tokens: 9", "context_too_long"),
        (401, "authentication_error", "invalid x-api-key", "auth"),
        (402, "", "You have run out of credits", "auth"),
        (403, "permission_error", "no", "auth"),
        (404, "not_found_error", "model: x", "not_found"),
        (404, "", "", "not_found"),
        (408, "", "Request timeout", "passing"),
        (409, "", "Conflict", "passing"),
        (413, "request_too_large", "Request too large", "context_too_long"),
        (422, "", "", "rejected"),
        (429, "rate_limit_error", "slow down", "passing"),
        (500, "api_error", "Internal", "passing"),
        (502, "", "", "passing"),
        (529, "overloaded_error", "Overloaded", "passing"),
    ];
    for (number, name, message, expected) in table {
        assert_eq!(kind(&status(number, name, message)), expected, "{number} {message}");
    }
}

#[test]
fn every_error_event_has_its_kind() {
    let table = [
        ("overloaded_error", "", "passing"),
        ("server_is_overloaded", "", "passing"),
        ("rate_limit_error", "", "passing"),
        ("rate_limit_exceeded", "", "passing"),
        ("insufficient_quota", "", "passing"),
        ("api_error", "", "passing"),
        ("server_error", "", "passing"),
        ("something_new", "", "passing"),
        ("authentication_error", "", "auth"),
        ("permission_error", "", "auth"),
        ("invalid_api_key", "", "auth"),
        ("invalid_request_error", "bad", "rejected"),
        ("invalid_prompt", "bad", "rejected"),
        ("model_not_found", "bad", "not_found"),
        ("invalid_request_error", "Your credit balance is too low", "auth"),
        ("invalid_request_error", "prompt is too long", "context_too_long"),
        ("context_length_exceeded", "", "context_too_long"),
        ("request_too_large", "", "context_too_long"),
    ];
    for (word, message, expected) in table {
        let detail =
            Detail { word: word.to_owned(), message: message.to_owned(), ..Detail::default() };
        assert_eq!(kind(&told(from_event(detail))), expected, "{word} {message}");
    }
}

#[test]
fn errors_are_read_in_every_shape_servers_send_them() {
    let table = [
        (json!({"error": {"type": "t", "message": "m"}}), "t", "m"),
        (json!({"error": {"type": "t", "code": "c", "message": "m"}}), "c", "m"),
        (json!({"error": {"type": "t", "code": null, "message": "m", "param": null}}), "t", "m"),
        (json!({"error": {"type": "t", "code": 400, "message": "m"}}), "t", "m"),
        (json!({"error": "m"}), "", "m"),
        (json!({"object": "error", "type": "t", "message": "m", "code": 400}), "t", "m"),
        (json!({"detail": "m"}), "", ""),
        (json!([1]), "", ""),
    ];
    for (body, word, message) in table {
        let detail = Detail::of_body(body.to_string().as_bytes());
        assert_eq!((detail.word.as_str(), detail.message.as_str()), (word, message), "{body}");
    }
    assert_eq!(Detail::of_body(b"<html>"), Detail::default());
}

#[test]
fn a_used_up_quota_is_named() {
    let body = json!({"error": {"type": "insufficient_quota", "code": "insufficient_quota"}});
    let status = StatusCode::TOO_MANY_REQUESTS;
    let error = from_status(status, &HeaderMap::new(), body.to_string().as_bytes(), MODEL);
    assert_eq!(told(error).to_string(), "the account's quota at the model vendor is used up (429)");
}

#[test]
fn an_explanation_is_bounded_and_without_the_key() {
    let message = format!("your key {KEY}\n\u{1b}[31m is odd {}", "x".repeat(5000));
    let text = status(400, "invalid_request_error", &message).to_string();
    assert!(!text.contains(KEY) && text.contains("[key]"), "{text}");
    assert!(text.len() < 600 && !text.chars().any(char::is_control), "{text}");
    let text = status(401, "authentication_error", &message).to_string();
    assert!(!text.contains("odd"), "{text}");
    for number in [403, 404, 429] {
        let text = status(number, "", &message).to_string();
        assert!(text.contains(&format!("({number}): your key [key] [31m is odd")), "{text}");
        assert!(text.len() < 600 && !text.contains(KEY), "{text}");
    }
    for part in ["sk-s****key", "`SK-SECR…`", "sk-secret", "key=sk-s...key.", "(****key)"] {
        let text =
            status(400, "", &format!("Incorrect key provided: {part} in project 7")).to_string();
        assert!(text.ends_with(": Incorrect key provided: [key] in project 7"), "{text}");
    }
    let text = status(400, "", "the model of an account... is sky-high").to_string();
    assert!(text.ends_with(": the model of an account... is sky-high"), "{text}");
    for body in ["model: large-9", ""] {
        let text = status(404, "not_found_error", body).to_string();
        assert!(text.ends_with("; the model asked for is `large-9`"), "{text}");
    }
}

#[test]
fn a_pause_asked_for_is_read_in_seconds_or_as_a_date() {
    let table = [
        ("7", Some(Duration::from_secs(7))),
        ("0.5", Some(Duration::from_millis(500))),
        ("-1", None),
        ("NaN", None),
        ("soon", None),
        ("Wed, 21 Oct 2026 07:28:30 GMT", Some(Duration::from_secs(30))),
        ("Wed, 21 Oct 2026 07:27:00 GMT", Some(Duration::ZERO)),
    ];
    for (value, expected) in table {
        let date = HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT");
        let after = HeaderValue::from_static(value);
        let headers = HeaderMap::from_iter([(RETRY_AFTER, after), (DATE, date)]);
        let error = told(from_status(StatusCode::TOO_MANY_REQUESTS, &headers, b"", MODEL));
        let ModelError::Passing { retry_after, .. } = error else { panic!("{error:?}") };
        assert_eq!(retry_after, expected, "{value}");
    }
}
