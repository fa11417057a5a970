//! Rows and settings into a request body. Pure, and the same bytes for the same rows, so that
//! request n+1 of a session begins with all of request n and the vendor's cache holds.

use serde_json::{Map, Value, json};
use skep_core::message::{Block, Body};
use skep_core::provider::ModelRequest;

use super::VENDOR;
use crate::catalog;
use crate::conversation::{self, CallResult, Part, Piece};
use crate::effort;

/// The request body. Tools, system and messages stand last and in the order the cache sees them.
pub fn render(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if catalog::find(&request.model).is_some_and(|model| model.adaptive) {
        if let Some(budget) = request.thinking {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
            body.insert("output_config".into(), json!({"effort": effort::of_budget(budget)}));
        }
    } else if let Some(budget) = request.thinking.filter(|_| may_think(request)) {
        body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
    } else if let Some(temperature) = request.temperature.filter(|_| request.thinking.is_none()) {
        // The wire refuses a temperature beside thinking.
        body.insert("temperature".into(), json!(temperature));
    }
    let tools = tools(request);
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    let system = system(request);
    if !system.is_empty() {
        body.insert("system".into(), Value::Array(system));
    }
    body.insert("messages".into(), Value::Array(messages(request)));
    Value::Object(body)
}

/// The wire refuses thinking in a turn that another vendor began with calls: such a turn has no
/// thinking of its own at its start.
fn may_think(request: &ModelRequest) -> bool {
    let pieces = conversation::pieces(request);
    let turn = pieces.iter().rev().take_while(|piece| !matches!(piece, Piece::User(_)));
    let first = turn.filter_map(|piece| match piece {
        Piece::Assistant(body) => Some(assistant(body)),
        Piece::User(_) | Piece::Results(_) => None,
    });
    first.last().is_none_or(|blocks| {
        let thinks = |block: &Value| block["type"] != "text" && block["type"] != "tool_use";
        blocks.first().is_some_and(thinks)
    })
}

fn tools(request: &ModelRequest) -> Vec<Value> {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    mark_for_cache(tools.last_mut());
    tools
}

fn system(request: &ModelRequest) -> Vec<Value> {
    let parts = [&request.system.shared, &request.system.agent];
    let mut blocks: Vec<Value> = parts.into_iter().filter_map(|part| text_block(part)).collect();
    blocks.iter_mut().for_each(|block| mark_for_cache(Some(block)));
    blocks
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let mut rendered = Vec::with_capacity(request.messages.len());
    for piece in conversation::pieces(request) {
        let (role, content) = match piece {
            Piece::User(parts) => ("user", parts.iter().map(part).collect()),
            Piece::Assistant(body) => ("assistant", assistant(body)),
            Piece::Results(results) => ("user", results.iter().map(result).collect()),
        };
        if !content.is_empty() {
            rendered.push(json!({"role": role, "content": content}));
        }
    }
    let last_block =
        rendered.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut());
    mark_for_cache(last_block);
    rendered
}

fn assistant(body: &Body) -> Vec<Value> {
    let own = conversation::is_from(body, VENDOR);
    let blocks = body.content.iter().filter_map(|block| match block {
        Block::Text { text } => text_block(text),
        Block::Thinking { thinking, signature: Some(signature) } if own => Some(json!({
            "type": "thinking",
            "thinking": thinking,
            "signature": signature,
        })),
        Block::RedactedThinking { data } if own => {
            Some(json!({"type": "redacted_thinking", "data": data}))
        }
        // The wire refuses thinking it did not sign.
        Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::File(_) => None,
        Block::ToolCall { id, name, arguments } => Some(json!({
            "type": "tool_use",
            "id": conversation::call_id(id),
            "name": name,
            "input": arguments,
        })),
    });
    blocks.collect()
}

fn result(result: &CallResult<'_>) -> Value {
    let mut block = Map::new();
    block.insert("type".into(), json!("tool_result"));
    block.insert("tool_use_id".into(), json!(result.id));
    let content: Vec<Value> = result.parts.iter().map(part).collect();
    if !content.is_empty() {
        block.insert("content".into(), Value::Array(content));
    }
    if result.is_error {
        block.insert("is_error".into(), json!(true));
    }
    Value::Object(block)
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { mime, data } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": mime, "data": data.to_base64()},
        }),
    }
}

fn text_block(text: &str) -> Option<Value> {
    conversation::visible(text).map(|text| json!({"type": "text", "text": text}))
}

/// Everything up to and including this block may be taken from the vendor's cache next time.
fn mark_for_cache(block: Option<&mut Value>) {
    if let Some(Value::Object(block)) = block {
        let kind = block.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("thinking" | "redacted_thinking")) {
            block.insert("cache_control".into(), json!({"type": "ephemeral"}));
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
