//! What the two OpenAI wires have in common: keys, errors, texts.

use serde_json::{Value, json};

use super::refusal::{Checked, Refusal, require};
use super::reply::Fault;
use super::request::{Entry, ModelRequest, ToolResult};

/// Results have no mark for errors on these wires: the word at the start is the mark.
const ERROR_MARK: &str = "Error: ";

pub(crate) fn key(request: &ModelRequest) -> Option<&str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

pub(crate) fn check_headers(request: &ModelRequest) -> Checked {
    if key(request).is_none_or(str::is_empty) {
        let message = "You didn't provide an API key. You need to provide your API key in an \
                       Authorization header using Bearer auth.";
        return Err(Refusal::authentication(message));
    }
    let json = request.header("content-type").is_some_and(|kind| kind.contains("application/json"));
    require(json, || "Unsupported Content-Type. This API accepts 'application/json'.".to_owned())
}

pub(crate) fn error(fault: &Fault) -> (u16, Value) {
    // Overloaded has a status of its own only at the other vendor.
    let status = if fault.status == 529 { 503 } else { fault.status };
    (status, json!({ "error": error_object(fault.kind, &fault.message) }))
}

/// `{message, type, param, code}` for a fault in the words of the replies.
pub(crate) fn error_object(kind: &str, message: &str) -> Value {
    let (word, code) = match kind {
        "rate_limit_error" => ("requests", Some("rate_limit_exceeded")),
        "overloaded_error" => ("server_error", Some("server_is_overloaded")),
        "api_error" => ("server_error", None),
        "authentication_error" => ("invalid_request_error", Some("invalid_api_key")),
        "not_found_error" if message.starts_with("model") => {
            ("invalid_request_error", Some("model_not_found"))
        }
        "invalid_request_error" if is_too_long(message) => {
            ("invalid_request_error", Some("context_length_exceeded"))
        }
        "not_found_error" | "permission_error" | "request_too_large" => {
            ("invalid_request_error", None)
        }
        other => (other, None),
    };
    let message = if is_too_long(message) {
        "Your input exceeds the context window of this model. Please adjust your input and try \
         again."
    } else {
        message
    };
    json!({ "message": message, "type": word, "param": null, "code": code })
}

fn is_too_long(message: &str) -> bool {
    message.starts_with("prompt is too long")
}

/// A number of output tokens, where there is one.
pub(crate) fn check_limit(body: &Value, name: &str, least: u64) -> Checked {
    let limit = &body[name];
    let good = limit.is_null() || limit.as_u64().is_some_and(|limit| limit >= least);
    require(good, || {
        format!("Invalid '{name}': integer below minimum value. Expected a value >= {least}.")
    })
}

/// What models that reason refuse, and words they do not know.
pub(crate) fn check_effort(effort: &Value, place: &str, body: &Value) -> Checked {
    if effort.is_null() {
        return Ok(());
    }
    let words = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let known = effort.as_str().is_some_and(|effort| words.contains(&effort));
    require(known, || {
        format!("Invalid value: {effort}. Supported values are: {words:?}. {place}")
    })?;
    require(effort == "none" || body["temperature"].is_null(), || {
        "Unsupported parameter: 'temperature' is not supported with this model.".to_owned()
    })
}

/// The schema of a function, and what strict ones must say.
pub(crate) fn check_function(function: &Value) -> Checked {
    let name = function["name"].as_str().unwrap_or_default();
    let parameters = &function["parameters"];
    if parameters.is_null() {
        return Ok(());
    }
    require(parameters["type"] == "object", || {
        format!(
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \
             \"object\"', got 'type: {}'.",
            parameters["type"]
        )
    })?;
    let closed = parameters["additionalProperties"] == false;
    require(function["strict"] != true || closed, || {
        format!(
            "Invalid schema for function '{name}': In context=(), 'additionalProperties' is \
             required to be supplied and to be false."
        )
    })
}

/// A text, or the texts of a list of parts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub(crate) fn tool_result(id: &Value, content: &Value) -> ToolResult {
    let text = text_of(content);
    let error = text.strip_prefix(ERROR_MARK).map(str::to_owned);
    let id = id.as_str().unwrap_or_default().to_owned();
    let is_error = error.is_some();
    ToolResult { id, text: error.unwrap_or(text), is_error }
}

/// Results of one step come as messages of their own; here they are one entry.
pub(crate) fn push_result(entries: &mut Vec<Entry>, result: ToolResult) {
    match entries.last_mut() {
        Some(entry) if !entry.results.is_empty() => entry.results.push(result),
        _ => entries.push(Entry { results: vec![result], ..Entry::default() }),
    }
}
