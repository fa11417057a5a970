//! Rows and settings into a request body. Pure, and the same bytes for the same rows, so that
//! request n+1 of a session begins with all of request n and the vendor's cache holds.

use serde_json::{Map, Value, json};
use skep_core::message::{Block, Body};
use skep_core::provider::{ModelRequest, ToolSpec};

use super::VENDOR;
use crate::conversation::{self, CallResult, ContentPart, WireMessage};
use crate::effort;

/// The wire refuses a lower limit.
const LEAST_OUTPUT_TOKENS: u32 = 16;

/// The request body. Tools, system and input stand last and in the order the cache sees them.
pub fn render(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    let limit = request.max_output_tokens.max(LEAST_OUTPUT_TOKENS);
    body.insert("model".into(), json!(request.model));
    body.insert("max_output_tokens".into(), json!(limit));
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    body.insert("prompt_cache_key".into(), json!(request.cache_key));
    if let Some(budget) = request.thinking {
        let effort = effort::of_budget(budget);
        body.insert("reasoning".into(), json!({"effort": effort, "summary": "auto"}));
        // Only here: models that do not reason refuse a request that asks for it.
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    } else if let Some(temperature) = request.temperature {
        // Models that reason refuse a temperature.
        body.insert("temperature".into(), json!(temperature));
    }
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    let system = conversation::system_text(request);
    if !system.is_empty() {
        body.insert("instructions".into(), json!(system));
    }
    body.insert("input".into(), Value::Array(input(request)));
    Value::Object(body)
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        // Else the vendor rewrites the schema: every argument would become required.
        "strict": false,
    })
}

/// The messages as items of this wire: every call with its result behind it.
pub fn input(request: &ModelRequest) -> Vec<Value> {
    let mut items = Vec::with_capacity(request.messages.len());
    for piece in conversation::pieces(request) {
        match piece {
            WireMessage::User(parts) => {
                let content: Vec<Value> = parts.iter().map(part).collect();
                items.push(json!({"type": "message", "role": "user", "content": content}));
            }
            WireMessage::Assistant(body) => items.extend(assistant(body)),
            WireMessage::Results(results) => items.extend(results.iter().map(|result| {
                json!({
                    "type": "function_call_output",
                    "call_id": result.id,
                    "output": output(result),
                })
            })),
        }
    }
    items
}

fn part(part: &ContentPart<'_>) -> Value {
    match part {
        ContentPart::Text(text) => json!({"type": "input_text", "text": text}),
        ContentPart::Image { mime, data } => {
            let url = conversation::data_url(mime, data);
            json!({"type": "input_image", "detail": "auto", "image_url": url})
        }
    }
}

/// One text, or with pictures a list that begins with it.
fn output(result: &CallResult<'_>) -> Value {
    let text = conversation::marked(result);
    if !conversation::has_images(&result.parts) {
        return json!(text);
    }
    let text = json!({"type": "input_text", "text": text});
    [text].into_iter().chain(conversation::images(&result.parts).map(part)).collect()
}

fn assistant(body: &Body) -> Vec<Value> {
    let own = conversation::is_from(body, VENDOR);
    let items = body.content.iter().filter_map(|block| match block {
        Block::Text { text } => conversation::visible(text).map(|text| {
            let part = json!({"type": "output_text", "text": text});
            json!({"type": "message", "role": "assistant", "content": [part]})
        }),
        Block::Thinking { signature: Some(item), .. } | Block::RedactedThinking { data: item }
            if own =>
        {
            reasoning(item)
        }
        Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::File(_) => None,
        Block::ToolCall { id, name, arguments } => Some(json!({
            "type": "function_call",
            "call_id": conversation::call_id(id),
            "name": name,
            "arguments": conversation::input(arguments).to_string(),
        })),
    });
    let mut items: Vec<Value> = items.collect();
    // The wire refuses thinking that nothing followed, as when the output limit cut the answer.
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    items
}

/// The item as it came: its JSON is what the message keeps as signature.
fn reasoning(item: &str) -> Option<Value> {
    let item: Value = serde_json::from_str(item).ok()?;
    (item["type"] == "reasoning").then_some(item)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
