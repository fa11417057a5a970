//! Refuses what the real service refuses: headers, unknown fields, tools, cache marks.

use serde_json::{Map, Value};

use super::super::refusal::{self, Checked, Refusal, require, stranger};
use super::super::request::ModelRequest;
use super::history;

/// The versions the service knows; the newer one refuses more.
const OLD_VERSION: &str = "2023-06-01";
const NEW_VERSION: &str = "2026-10-21";
/// Gone in the new version, refused there even at their default values.
const SAMPLING: &[&str] = &["temperature", "top_p", "top_k"];
const CACHE_MARKS: usize = 4;
const THINKING_BUDGET: u64 = 1024;

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "tools",
    "tool_choice",
    "thinking",
    "service_tier",
    "output_config",
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "speed",
    "user_profile_id",
    "workspace_id",
];
/// Known to the service only with a word in `anthropic-beta`.
const CONTEXT_MANAGEMENT: &str = "context_management";
const CONTEXT_BETA: &str = "context-management-";
/// With it, `system` is a role as well.
const SYSTEM_ROLE_BETA: &str = "mid-conversation-";
const TOOL_FIELDS: &[&str] = &[
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "allowed_callers",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
];

pub(crate) fn request(request: &ModelRequest) -> Checked {
    if request.key().is_none_or(str::is_empty) {
        return Err(Refusal::authentication("x-api-key header is required"));
    }
    match request.header("anthropic-version") {
        Some(OLD_VERSION | NEW_VERSION) => {}
        Some(other) => {
            let message = format!("anthropic-version: \"{other}\" is not a valid version");
            return Err(Refusal::invalid(message));
        }
        None => return Err(Refusal::invalid("anthropic-version: header is required")),
    }
    let json = request.header("content-type").is_some_and(|kind| kind.contains("application/json"));
    require(json, || "content-type: must be application/json".to_owned())?;
    let Value::Object(body) = &request.body else {
        return Err(Refusal::invalid("The request body is not valid JSON."));
    };
    let betas = request.header("anthropic-beta").unwrap_or_default();
    let mut fields = FIELDS.to_vec();
    fields.extend(betas.contains(CONTEXT_BETA).then_some(CONTEXT_MANAGEMENT));
    only_fields("", body, &fields)?;
    if request.header("anthropic-version") == Some(NEW_VERSION) {
        check_new_version(body)?;
    }
    let model = body.get("model").and_then(Value::as_str);
    require(model.is_some_and(|model| !model.is_empty()), || "model: Field required".to_owned())?;
    let Some(limit) = body.get("max_tokens").and_then(Value::as_u64).filter(|limit| *limit > 0)
    else {
        return Err(Refusal::invalid("max_tokens: must be an integer greater than 0"));
    };
    let stream = body.get("stream");
    require(stream.is_none_or(Value::is_boolean), || "stream: must be a boolean".to_owned())?;
    check_thinking(body, limit)?;
    check_system(body.get("system"))?;
    check_tools(body)?;
    let thinks = body.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled");
    let messages = match body.get("messages") {
        Some(Value::Array(messages)) if betas.contains(SYSTEM_ROLE_BETA) => {
            Some(Value::Array(history::without_system(messages)?))
        }
        messages => messages.cloned(),
    };
    history::messages(messages.as_ref(), thinks)?;
    let marks = cache_marks(&request.body);
    require(marks <= CACHE_MARKS, || {
        format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    })
}

/// `place` ends with a dot when it is not empty.
pub(crate) fn only_fields(place: &str, object: &Map<String, Value>, known: &[&str]) -> Checked {
    match stranger(object, known) {
        Some(key) => Err(Refusal::invalid(format!("{place}{key}: Extra inputs are not permitted"))),
        None => Ok(()),
    }
}

pub(crate) fn check_cache_mark(place: &str, block: &Map<String, Value>) -> Checked {
    let mark = match block.get("cache_control") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(mark)) => mark,
        Some(_) => {
            return Err(Refusal::invalid(format!("{place}cache_control: must be an object")));
        }
    };
    only_fields(&format!("{place}cache_control."), mark, &["type", "ttl"])?;
    let kind = mark.get("type").and_then(Value::as_str) == Some("ephemeral");
    require(kind, || format!("{place}cache_control.type: must be 'ephemeral'"))?;
    let ttl = mark.get("ttl").map(|ttl| ttl.as_str().unwrap_or_default());
    require(matches!(ttl, None | Some("5m" | "1h")), || {
        format!("{place}cache_control.ttl: must be '5m' or '1h'")
    })
}

fn check_new_version(body: &Map<String, Value>) -> Checked {
    if let Some(gone) = SAMPLING.iter().find(|name| body.contains_key(**name)) {
        return Err(Refusal::invalid(format!("{gone}: Extra inputs are not permitted")));
    }
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let blocks = messages
        .filter(|message| message["role"] == "user")
        .flat_map(|message| message["content"].as_array().into_iter().flatten());
    let cited = |block: &Value| block["citations"].as_array().is_some_and(|list| !list.is_empty());
    require(!blocks.into_iter().any(cited), || {
        "messages: citations are not permitted on text blocks in user messages".to_owned()
    })
}

fn check_thinking(body: &Map<String, Value>, limit: u64) -> Checked {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    match thinking["type"].as_str() {
        Some("disabled") => return Ok(()),
        Some("adaptive") => {}
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            require(budget >= THINKING_BUDGET, || {
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
                    .to_owned()
            })?;
            require(budget < limit, || {
                "`max_tokens` must be greater than `thinking.budget_tokens`".to_owned()
            })?;
        }
        _ => return Err(Refusal::invalid("thinking.type: unknown type")),
    }
    let temperature = body.get("temperature").and_then(Value::as_f64);
    require(temperature.is_none_or(|value| value == 1.0), || {
        "`temperature` may only be set to 1 when thinking is enabled".to_owned()
    })
}

fn check_system(system: Option<&Value>) -> Checked {
    match system {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => blocks.iter().enumerate().try_for_each(|(at, block)| {
            let place = format!("system.{at}.");
            require(block["type"] == "text", || format!("{place}type: must be 'text'"))?;
            history::block(&place, "system", block)
        }),
        Some(_) => Err(Refusal::invalid("system: Input should be a string or a list of blocks")),
    }
}

fn check_tools(body: &Map<String, Value>) -> Checked {
    let tools = match body.get("tools") {
        None => &[][..],
        Some(Value::Array(tools)) => tools.as_slice(),
        Some(_) => return Err(Refusal::invalid("tools: Input should be a list")),
    };
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools.{at}.");
        let Value::Object(fields) = tool else {
            return Err(Refusal::invalid(format!("tools.{at}: Input should be an object")));
        };
        only_fields(&format!("{place}custom."), fields, TOOL_FIELDS)?;
        check_cache_mark(&place, fields)?;
        let name = tool["name"].as_str().unwrap_or_default();
        require(is_name(name), || {
            format!("{place}custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        })?;
        require(!names.contains(&name), || "tools: Tool names must be unique.".to_owned())?;
        names.push(name);
        let object = tool["input_schema"]["type"] == "object";
        require(object, || format!("{place}custom.input_schema.type: Input should be 'object'"))?;
    }
    let choice = body.get("tool_choice");
    require(choice.is_none() || !tools.is_empty(), || {
        "tool_choice: may only be specified while providing `tools`.".to_owned()
    })
}

pub(crate) fn is_name(name: &str) -> bool {
    refusal::is_name(name, 128)
}

/// Marks on tools, system, messages and their blocks; the schema of a tool is not looked into.
fn cache_marks(body: &Value) -> usize {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut places = list(&body["tools"]);
    places.extend(list(&body["system"]));
    for message in list(&body["messages"]) {
        for block in list(&message["content"]) {
            places.extend(list(&block["content"]));
            places.push(block);
        }
    }
    places.push(body.clone());
    places.iter().filter(|place| place["cache_control"].is_object()).count()
}
