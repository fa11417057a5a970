//! Refuses conversations the real service refuses: bad blocks, calls without results, results
//! without calls, thinking with a forged signature.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::image;
use super::super::refusal::{Checked, Refusal, require};
use super::super::request::signature_of;
use super::check::{check_cache_mark, is_name, only_fields};

pub(crate) fn messages(messages: Option<&Value>, thinks: bool) -> Checked {
    let Some(Value::Array(messages)) = messages else {
        return Err(Refusal::invalid("messages: Field required"));
    };
    require(!messages.is_empty(), || "messages: at least one message is required".to_owned())?;
    for (at, message) in messages.iter().enumerate() {
        check_message(at, message)?;
    }
    require(messages[0]["role"] == "user", || {
        "messages: first message must use the \"user\" role".to_owned()
    })?;
    require(messages.last().is_some_and(|last| last["role"] == "user"), || {
        "This model does not support assistant message prefill. The conversation must end with a \
         user message."
            .to_owned()
    })?;
    let turns = merged(messages);
    pair_calls(&turns)?;
    if thinks { starts_with_thinking(&turns) } else { Ok(()) }
}

/// The conversation between user and assistant, where the system may speak in the middle of it.
pub(crate) fn without_system(messages: &[Value]) -> Result<Vec<Value>, Refusal> {
    for (at, message) in messages.iter().enumerate().filter(|(_, it)| it["role"] == "system") {
        let blocks = message["content"].as_array().into_iter().flatten();
        for (index, part) in blocks.enumerate() {
            block(&format!("messages.{at}.content.{index}."), "system", part)?;
        }
    }
    Ok(messages.iter().filter(|message| message["role"] != "system").cloned().collect())
}

/// The turn under way: what the assistant did since a user said something.
fn starts_with_thinking(turns: &[Turn<'_>]) -> Checked {
    let said = |turn: &Turn<'_>| turn.blocks.iter().any(|block| block["type"] != "tool_result");
    let last = turns.iter().rposition(|turn| turn.role == "user" && said(turn)).unwrap_or(0);
    let Some(first) = turns[last..].iter().find(|turn| turn.role == "assistant") else {
        return Ok(());
    };
    let kind = first.blocks.first().and_then(|block| block["type"].as_str()).unwrap_or("text");
    require(matches!(kind, "thinking" | "redacted_thinking"), || {
        format!(
            "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
            first.first
        )
    })
}

fn check_message(at: usize, message: &Value) -> Checked {
    let place = format!("messages.{at}.");
    let Value::Object(fields) = message else {
        return Err(Refusal::invalid(format!("messages.{at}: Input should be an object")));
    };
    only_fields(&place, fields, &["role", "content"])?;
    let role = message["role"].as_str().unwrap_or_default();
    require(matches!(role, "user" | "assistant"), || {
        format!("{place}role: Input should be 'user' or 'assistant'")
    })?;
    let empty = || format!("messages.{at}: all messages must have non-empty content");
    match &message["content"] {
        Value::String(text) => require(!text.trim().is_empty(), empty),
        Value::Array(blocks) => {
            require(!blocks.is_empty(), empty)?;
            blocks.iter().enumerate().try_for_each(|(index, part)| {
                block(&format!("{place}content.{index}."), role, part)
            })
        }
        _ => Err(Refusal::invalid(format!("{place}content: Field required"))),
    }
}

/// One content block of a message of this role (or of the system prompt).
pub(crate) fn block(place: &str, role: &str, block: &Value) -> Checked {
    let Value::Object(fields) = block else {
        return Err(Refusal::invalid(format!("{place}type: Field required")));
    };
    let kind = block["type"].as_str().unwrap_or_default();
    let place = format!("{place}{kind}.");
    let known: &[&str] = match (kind, role) {
        ("text", _) => &["type", "text", "cache_control", "citations"],
        ("image", "user" | "result") => &["type", "source", "cache_control"],
        ("document", "user" | "result") => {
            &["type", "source", "title", "context", "citations", "cache_control"]
        }
        ("tool_use", "assistant") => {
            &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"]
        }
        ("tool_result", "user") => {
            &["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"]
        }
        ("thinking", "assistant") => &["type", "thinking", "signature"],
        ("redacted_thinking", "assistant") => &["type", "data"],
        _ => {
            let message = format!("{place}type: '{kind}' is not permitted in {role} content");
            return Err(Refusal::invalid(message));
        }
    };
    only_fields(&place, fields, known)?;
    check_cache_mark(&place, fields)?;
    match kind {
        "text" => check_text(&place, fields),
        "tool_use" => check_call(&place, block),
        "tool_result" => check_result(&place, block),
        "thinking" => check_thinking(&place, fields),
        "redacted_thinking" => {
            let data = block["data"].as_str().unwrap_or_default();
            require(!data.is_empty(), || format!("{place}data: Field required"))
        }
        "image" => image::check_source(&place, &block["source"]),
        _ => require(block["source"].is_object(), || format!("{place}source: Field required")),
    }
}

fn check_text(place: &str, fields: &Map<String, Value>) -> Checked {
    let Some(text) = fields.get("text").and_then(Value::as_str) else {
        return Err(Refusal::invalid(format!("{place}text: Field required")));
    };
    require(!text.is_empty(), || "messages: text content blocks must be non-empty".to_owned())?;
    require(!text.trim().is_empty(), || {
        "messages: text content blocks must contain non-whitespace text".to_owned()
    })
}

fn check_call(place: &str, block: &Value) -> Checked {
    let id = block["id"].as_str().unwrap_or_default();
    require(is_name(id), || format!("{place}id: String should match pattern '^[a-zA-Z0-9_-]+$'"))?;
    let name = block["name"].as_str().unwrap_or_default();
    require(is_name(name), || format!("{place}name: String should match the pattern of names"))?;
    require(block["input"].is_object(), || {
        format!("{place}input: Input should be a valid dictionary")
    })
}

fn check_result(place: &str, block: &Value) -> Checked {
    require(block["tool_use_id"].is_string(), || format!("{place}tool_use_id: Field required"))?;
    let flag = &block["is_error"];
    require(flag.is_null() || flag.is_boolean(), || {
        format!("{place}is_error: Input should be a valid boolean")
    })?;
    match &block["content"] {
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(parts) => parts.iter().enumerate().try_for_each(|(at, part)| {
            self::block(&format!("{place}content.{at}."), "result", part)
        }),
        _ => Err(Refusal::invalid(format!("{place}content: must be a string or a list"))),
    }
}

fn check_thinking(place: &str, fields: &Map<String, Value>) -> Checked {
    let text = fields.get("thinking").and_then(Value::as_str);
    let signature = fields.get("signature").and_then(Value::as_str);
    let (Some(text), Some(signature)) = (text, signature) else {
        let missing = if text.is_none() { "thinking" } else { "signature" };
        return Err(Refusal::invalid(format!("{place}{missing}: Field required")));
    };
    // Signatures given by a test start otherwise and pass: this server cannot know them.
    let ours = signature.starts_with("EqQBCkYI");
    require(!signature.is_empty() && (!ours || signature == signature_of(text)), || {
        format!("{place}signature: Invalid `signature` in `thinking` block")
    })
}

/// Consecutive messages of one role count as one.
struct Turn<'a> {
    first: usize,
    role: &'a str,
    blocks: Vec<&'a Value>,
}

fn merged(messages: &[Value]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let blocks = message["content"].as_array().into_iter().flatten();
        // A plain string is a text block; null stands for it here.
        let text = message["content"].is_string().then_some(&Value::Null);
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.blocks.extend(blocks.chain(text)),
            _ => turns.push(Turn { first: at, role, blocks: blocks.chain(text).collect() }),
        }
    }
    turns
}

fn pair_calls(turns: &[Turn<'_>]) -> Checked {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).map_or(0, |at| turns[at].first);
        let results = leading_results(turn);
        check_results(turn, &results, &open)?;
        let missing: Vec<&str> = open.iter().filter(|id| !results.contains(*id)).copied().collect();
        require(missing.is_empty(), || {
            format!(
                "messages.{before}: `tool_use` ids were found without `tool_result` blocks \
                 immediately after: {}. Each `tool_use` block must have a corresponding \
                 `tool_result` block in the next message.",
                missing.join(", ")
            )
        })?;
        open = ids(turn, "tool_use", "id");
        for id in &open {
            require(seen.insert(*id), || {
                format!("messages.{}: `tool_use` ids must be unique: {id}", turn.first)
            })?;
        }
    }
    Ok(())
}

/// Results count only when nothing stands before them.
fn leading_results<'a>(turn: &Turn<'a>) -> Vec<&'a str> {
    let leading = turn.blocks.iter().take_while(|block| block["type"] == "tool_result");
    leading.filter_map(|block| block["tool_use_id"].as_str()).collect()
}

fn check_results(turn: &Turn<'_>, leading: &[&str], open: &[&str]) -> Checked {
    let mut once = HashSet::new();
    for id in ids(turn, "tool_result", "tool_use_id") {
        require(open.contains(&id), || {
            format!(
                "messages.{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous \
                 message.",
                turn.first
            )
        })?;
        require(once.insert(id), || {
            format!(
                "messages.{}: each tool_use must have a single result. Found multiple \
                 `tool_result` blocks with id: {id}",
                turn.first
            )
        })?;
        require(leading.contains(&id), || {
            format!(
                "messages.{}: `tool_result` blocks must come first in the content: {id}",
                turn.first
            )
        })?;
    }
    Ok(())
}

fn ids<'a>(turn: &Turn<'a>, kind: &str, field: &str) -> Vec<&'a str> {
    let blocks = turn.blocks.iter().filter(|block| block["type"] == kind);
    blocks.filter_map(|block| block[field].as_str()).collect()
}
