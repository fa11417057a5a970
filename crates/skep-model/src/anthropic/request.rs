//! Rows and settings into a request body. Pure, and the same bytes for the same rows, so that
//! request n+1 of a session begins with all of request n and the vendor's cache holds.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message, Role};
use skep_core::provider::ModelRequest;

/// The wire takes no empty text, so a user message without any gets this instead.
const NO_TEXT: &str = "(empty message)";
/// The wire takes no call without a result. The journal closes every call; this is for rows that
/// were damaged.
const NO_RESULT: &str = "no result was recorded for this call";

/// The request body. Tools, system and messages stand last and in the order the cache sees them.
pub fn render(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if let Some(budget) = request.thinking {
        body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
    } else if let Some(temperature) = request.temperature {
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
    body.insert("messages".into(), Value::Array(messages(&request.messages)));
    Value::Object(body)
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

fn messages(rows: &[Arc<Message>]) -> Vec<Value> {
    let mut rendered = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        match row.body.role {
            Role::User => rendered.push(message("user", user(&row.body))),
            Role::Assistant => {
                let content = assistant(&row.body);
                if !content.is_empty() {
                    rendered.push(message("assistant", content));
                }
                let results = results(&row.body, &rows[index + 1..]);
                if !results.is_empty() {
                    rendered.push(message("user", results));
                }
            }
            // Results were placed with their calls; notes for people are not for the model.
            Role::ToolResult | Role::System => {}
        }
    }
    let last_block =
        rendered.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut());
    mark_for_cache(last_block);
    rendered
}

fn message(role: &str, content: Vec<Value>) -> Value {
    json!({"role": role, "content": content})
}

fn user(body: &Body) -> Vec<Value> {
    let shown = body.shown.as_deref().and_then(text_block);
    let content: Vec<Value> = shown.into_iter().chain(texts(body)).collect();
    if content.is_empty() {
        return vec![json!({"type": "text", "text": NO_TEXT})];
    }
    content
}

fn assistant(body: &Body) -> Vec<Value> {
    body.content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => text_block(text),
            Block::Thinking { thinking, signature: Some(signature) } => Some(json!({
                "type": "thinking",
                "thinking": thinking,
                "signature": signature,
            })),
            // The wire refuses thinking it did not sign.
            Block::Thinking { signature: None, .. } => None,
            Block::RedactedThinking { data } => {
                Some(json!({"type": "redacted_thinking", "data": data}))
            }
            Block::ToolCall { id, name, arguments } => Some(json!({
                "type": "tool_use",
                "id": id,
                "name": name,
                "input": arguments,
            })),
        })
        .collect()
}

/// The results of one assistant message in the order of its calls, whatever order they came in.
/// They stand before the next assistant message; ids may repeat in later ones.
fn results(body: &Body, following: &[Arc<Message>]) -> Vec<Value> {
    let mut recorded: HashMap<&CallId, &Body> = HashMap::new();
    let step = following.iter().take_while(|row| row.body.role != Role::Assistant);
    for row in step.filter(|row| row.body.role == Role::ToolResult) {
        if let Some(id) = &row.body.tool_call_id {
            recorded.entry(id).or_insert(&row.body);
        }
    }
    body.tool_calls().map(|(id, _, _)| result(id, recorded.get(id).copied())).collect()
}

fn result(id: &CallId, body: Option<&Body>) -> Value {
    let mut block = Map::new();
    block.insert("type".into(), json!("tool_result"));
    block.insert("tool_use_id".into(), json!(id));
    let content = match body {
        Some(body) => texts(body).collect(),
        None => vec![json!({"type": "text", "text": NO_RESULT})],
    };
    if !content.is_empty() {
        block.insert("content".into(), Value::Array(content));
    }
    if body.is_none_or(|body| body.is_error == Some(true)) {
        block.insert("is_error".into(), json!(true));
    }
    Value::Object(block)
}

fn texts(body: &Body) -> impl Iterator<Item = Value> {
    body.content.iter().filter_map(|block| match block {
        Block::Text { text } => text_block(text),
        _ => None,
    })
}

fn text_block(text: &str) -> Option<Value> {
    // The wire refuses text without a visible character.
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
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
