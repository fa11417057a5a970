//! Refuses what the real service refuses: headers, unknown fields, limits, tools.

use serde_json::Value;

use super::super::openai;
use super::super::refusal::{Checked, Refusal, is_name, require, stranger};
use super::super::request::ModelRequest;
use super::history;

const FIELDS: &[&str] = &[
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
const TOOL_FIELDS: &[&str] = &[
    "type",
    "name",
    "description",
    "parameters",
    "strict",
    "allowed_callers",
    "async",
    "defer_loading",
    "output_schema",
];
/// Of a tool whose input is a text instead of an object.
const CUSTOM_FIELDS: &[&str] = &["type", "name", "description", "format"];
const REASONING_FIELDS: &[&str] = &["context", "effort", "generate_summary", "mode", "summary"];
const INCLUDABLE: &[&str] = &[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

pub(crate) fn request(request: &ModelRequest) -> Checked {
    openai::check_headers(request)?;
    let Value::Object(fields) = &request.body else {
        return Err(Refusal::invalid("We could not parse the JSON body of your request."));
    };
    only_fields("", fields, FIELDS)?;
    let body = &request.body;
    let model = body["model"].as_str().unwrap_or_default();
    require(!model.is_empty(), || "Missing required parameter: 'model'.".to_owned())?;
    openai::check_limit(body, "max_output_tokens", 16)?;
    for name in ["stream", "store"] {
        require(body[name].is_null() || body[name].is_boolean(), || {
            format!("Invalid type for '{name}': expected a boolean.")
        })?;
    }
    require(body["instructions"].is_null() || body["instructions"].is_string(), || {
        "Invalid type for 'instructions': expected a string.".to_owned()
    })?;
    for name in body["include"].as_array().into_iter().flatten() {
        let known = name.as_str().is_some_and(|name| INCLUDABLE.contains(&name));
        require(known, || format!("Invalid value: {name}. 'include' does not know it."))?;
    }
    if let Value::Object(fields) = &body["reasoning"] {
        only_fields("reasoning.", fields, REASONING_FIELDS)?;
        openai::check_effort(&body["reasoning"]["effort"], "reasoning.effort", body)?;
    }
    check_tools(&body["tools"])?;
    history::input(&body["input"], body["store"] == false)
}

/// `place` ends with a dot when it is not empty.
pub(crate) fn only_fields(
    place: &str,
    object: &serde_json::Map<String, Value>,
    known: &[&str],
) -> Checked {
    match stranger(object, known) {
        Some(name) => Err(Refusal::invalid(format!("Unknown parameter: '{place}{name}'."))),
        None => Ok(()),
    }
}

fn check_tools(tools: &Value) -> Checked {
    let tools = match tools {
        Value::Null => return Ok(()),
        Value::Array(tools) => tools,
        _ => return Err(Refusal::invalid("Invalid type for 'tools': expected an array.")),
    };
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}].");
        let Value::Object(fields) = tool else {
            return Err(Refusal::invalid(format!("Invalid type for 'tools[{at}]'.")));
        };
        let custom = tool["type"] == "custom";
        require(custom || tool["type"] == "function", || {
            format!("Invalid value for '{place}type'.")
        })?;
        only_fields(&place, fields, if custom { CUSTOM_FIELDS } else { TOOL_FIELDS })?;
        let name = tool["name"].as_str().unwrap_or_default();
        require(is_name(name, 128), || {
            format!(
                "Invalid '{place}name': string does not match pattern. Expected a string that \
                 matches the pattern '^[a-zA-Z0-9_-]+$'."
            )
        })?;
        if !custom {
            openai::check_function(tool)?;
        }
    }
    Ok(())
}
