//! Refuses what the real service refuses: headers, unknown fields, limits, tools.

use serde_json::Value;

use super::super::openai;
use super::super::refusal::{Checked, Refusal, is_name, require, stranger};
use super::super::request::ModelRequest;
use super::history;

const FIELDS: &[&str] = &[
    "messages",
    "model",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];
const FUNCTION_FIELDS: &[&str] = &["name", "description", "parameters", "strict"];

pub(crate) fn request(request: &ModelRequest) -> Checked {
    openai::check_headers(request)?;
    let Value::Object(fields) = &request.body else {
        return Err(Refusal::invalid("We could not parse the JSON body of your request."));
    };
    if let Some(name) = stranger(fields, FIELDS) {
        let message = format!("Unrecognized request argument supplied: {name}");
        return Err(Refusal::invalid(message));
    }
    let body = &request.body;
    let model = body["model"].as_str().unwrap_or_default();
    require(!model.is_empty(), || "you must provide a model parameter".to_owned())?;
    check_limits(body)?;
    check_stream(body)?;
    openai::check_effort(&body["reasoning_effort"], "reasoning_effort", body)?;
    check_tools(body)?;
    history::messages(&body["messages"])
}

fn check_limits(body: &Value) -> Checked {
    let both = !body["max_tokens"].is_null() && !body["max_completion_tokens"].is_null();
    require(!both, || {
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
            .to_owned()
    })?;
    openai::check_limit(body, "max_tokens", 1)?;
    openai::check_limit(body, "max_completion_tokens", 1)?;
    let temperature = &body["temperature"];
    let range = temperature.as_f64().is_some_and(|value| (0.0..=2.0).contains(&value));
    require(temperature.is_null() || range, || {
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2.".to_owned()
    })
}

fn check_stream(body: &Value) -> Checked {
    let stream = &body["stream"];
    require(stream.is_null() || stream.is_boolean(), || {
        "Invalid type for 'stream': expected a boolean.".to_owned()
    })?;
    let Value::Object(options) = &body["stream_options"] else {
        return require(body["stream_options"].is_null(), || {
            "Invalid type for 'stream_options': expected an object.".to_owned()
        });
    };
    require(stream == true, || {
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned()
    })?;
    match stranger(options, &["include_usage", "include_obfuscation"]) {
        Some(name) => Err(Refusal::invalid(format!("Unknown parameter: 'stream_options.{name}'."))),
        None => Ok(()),
    }
}

fn check_tools(body: &Value) -> Checked {
    let tools = match &body["tools"] {
        Value::Null => &[][..],
        Value::Array(tools) => tools.as_slice(),
        _ => return Err(Refusal::invalid("Invalid type for 'tools': expected an array.")),
    };
    require(body["tools"].is_null() || !tools.is_empty(), || {
        "Invalid 'tools': empty array. Expected an array with minimum length 1.".to_owned()
    })?;
    for name in ["tool_choice", "parallel_tool_calls"] {
        require(body[name].is_null() || !tools.is_empty(), || {
            format!(
                "Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            )
        })?;
    }
    tools.iter().enumerate().try_for_each(|(at, tool)| check_tool(at, tool))
}

fn check_tool(at: usize, tool: &Value) -> Checked {
    let place = format!("tools[{at}]");
    let known =
        tool.as_object().is_some_and(|fields| stranger(fields, &["type", "function"]).is_none());
    require(known, || format!("Unknown parameter in '{place}'."))?;
    require(tool["type"] == "function", || format!("Invalid value for '{place}.type'."))?;
    let Value::Object(fields) = &tool["function"] else {
        return Err(Refusal::invalid(format!("Missing required parameter: '{place}.function'.")));
    };
    if let Some(name) = stranger(fields, FUNCTION_FIELDS) {
        let message = format!("Unknown parameter: '{place}.function.{name}'.");
        return Err(Refusal::invalid(message));
    }
    let name = tool["function"]["name"].as_str().unwrap_or_default();
    require(is_name(name, 64), || {
        format!(
            "Invalid '{place}.function.name': string does not match pattern. Expected a string \
             that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
    })?;
    openai::check_function(&tool["function"])
}
