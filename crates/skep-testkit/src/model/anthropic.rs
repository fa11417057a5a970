//! The Anthropic Messages wire: `POST /v1/messages`.

mod check;
mod history;
mod render;

use serde_json::{Value, json};

use super::reply::Fault;
use super::request::{Entry, ModelRequest, ToolResult, text_of};

pub(crate) use check::request as check;
pub(crate) use render::Writer;

/// The status and the body of an error.
pub(crate) fn error(fault: &Fault, request_id: &str) -> (u16, Value) {
    let error = json!({ "type": fault.kind, "message": fault.message });
    (fault.status, json!({ "type": "error", "error": error, "request_id": request_id }))
}

/// Newer client libraries carry the key as a bearer token.
pub(crate) fn key(request: &ModelRequest) -> Option<&str> {
    let bearer = || request.header("authorization")?.strip_prefix("Bearer ");
    request.header("x-api-key").or_else(bearer)
}

pub(crate) fn system_text(request: &ModelRequest) -> String {
    text_of(&request.body["system"])
}

pub(crate) fn entries(request: &ModelRequest) -> Vec<Entry> {
    let entry = |message: &Value| {
        let text = text_of(&message["content"]);
        let user = message["role"] == "user";
        Entry {
            assistant: message["role"] == "assistant",
            user_text: (user && !text.is_empty()).then_some(text),
            results: tool_results(message),
        }
    };
    request.messages().iter().map(entry).collect()
}

fn tool_results(message: &Value) -> Vec<ToolResult> {
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| ToolResult {
            id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
            text: text_of(&block["content"]),
            is_error: block["is_error"].as_bool().unwrap_or(false),
        })
        .collect()
}
