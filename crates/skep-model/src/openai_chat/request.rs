//! Rows and settings into a request body. Pure, and the same bytes for the same rows, so that
//! request n+1 of a session begins with all of request n and the vendor's cache holds.

use serde_json::{Map, Value, json};
use skep_core::message::{Block, Body};
use skep_core::provider::{ModelRequest, ToolSpec};

use super::VENDOR;
use crate::conversation::{self, CallResult, ContentPart, WireMessage};
use crate::effort;

/// What servers of this wire disagree about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The name of the output limit: OpenAI refuses the old one for models that reason, others
    /// know only the old one.
    pub limit: &'static str,
    /// Takes a key that leads requests which begin alike to the same cache.
    pub cache_key: bool,
    /// Takes the wish for counts at the end of a stream.
    pub counts: bool,
    /// Servers that refuse an assistant message without the thinking it came with; OpenAI refuses
    /// one that has it.
    pub thinking_goes_back: bool,
}

impl Dialect {
    pub fn of(base_url: &str) -> Self {
        let host = base_url.split("://").nth(1).unwrap_or(base_url);
        let host = host.split(['/', ':', '?']).next().unwrap_or_default();
        let at = |domains: &[&str]| {
            domains.iter().any(|domain| {
                host.strip_suffix(domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
            })
        };
        let own = at(&["openai.com", "azure.com"]);
        Self {
            limit: if own { "max_completion_tokens" } else { "max_tokens" },
            cache_key: own,
            counts: true,
            thinking_goes_back: at(&["deepseek.com", "moonshot.ai", "moonshot.cn", "kimi.com"]),
        }
    }
}

/// The request body. Tools and messages stand last and in the order the cache sees them.
pub fn render(request: &ModelRequest, dialect: Dialect) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert(dialect.limit.into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if dialect.counts {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if dialect.cache_key {
        body.insert("prompt_cache_key".into(), json!(request.cache_key));
    }
    if let Some(budget) = request.thinking {
        body.insert("reasoning_effort".into(), json!(effort::of_budget(budget)));
    } else if let Some(temperature) = request.temperature {
        // Models that reason refuse a temperature.
        body.insert("temperature".into(), json!(temperature));
    }
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    body.insert("messages".into(), Value::Array(messages(request, dialect)));
    Value::Object(body)
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
    });
    json!({"type": "function", "function": function})
}

fn messages(request: &ModelRequest, dialect: Dialect) -> Vec<Value> {
    let mut rendered = Vec::with_capacity(request.messages.len() + 1);
    // One message: the templates of some local models take no second one.
    let system = conversation::system_text(request);
    if !system.is_empty() {
        rendered.push(json!({"role": "system", "content": system}));
    }
    for piece in conversation::pieces(request) {
        match piece {
            WireMessage::User(parts) => {
                rendered.push(json!({"role": "user", "content": content(&parts)}));
            }
            WireMessage::Assistant(body) => rendered.extend(assistant(body, dialect)),
            WireMessage::Results(results) => {
                rendered.extend(results.iter().map(|result| {
                    json!({
                        "role": "tool",
                        "tool_call_id": result.id,
                        "content": conversation::marked(result),
                    })
                }));
                rendered.extend(pictures(&results));
            }
        }
    }
    rendered
}

/// One text where there is nothing else: servers that know no parts understand it.
fn content(parts: &[ContentPart<'_>]) -> Value {
    match conversation::has_images(parts) {
        false => json!(conversation::joined_text(parts)),
        true => parts.iter().map(part).collect(),
    }
}

fn part(part: &ContentPart<'_>) -> Value {
    match part {
        ContentPart::Text(text) => json!({"type": "text", "text": text}),
        ContentPart::Image { mime, data } => {
            let url = conversation::data_url(mime, data);
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    }
}

/// A result can carry text alone on this wire: its pictures follow in a message of their own,
/// after the results of all calls.
fn pictures(results: &[CallResult<'_>]) -> Option<Value> {
    let mut parts = Vec::new();
    for result in results.iter().filter(|result| conversation::has_images(&result.parts)) {
        let text = format!("[pictures of the tool call {}]", result.id);
        parts.push(json!({"type": "text", "text": text}));
        parts.extend(conversation::images(&result.parts).map(part));
    }
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

/// Nothing when the message neither says nor calls anything.
fn assistant(body: &Body, dialect: Dialect) -> Option<Value> {
    let calls: Vec<Value> = body
        .tool_calls()
        .map(|(id, name, arguments)| {
            let function =
                json!({"name": name, "arguments": conversation::input(arguments).to_string()});
            json!({"id": conversation::call_id(id), "type": "function", "function": function})
        })
        .collect();
    let text = conversation::joined(conversation::texts(body));
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    message.insert("content".into(), if text.is_empty() { Value::Null } else { json!(text) });
    if dialect.thinking_goes_back {
        // Wanted on every message, also where there was none or it was another vendor's.
        message.insert("reasoning_content".into(), json!(thinking(body)));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Some(Value::Object(message))
}

fn thinking(body: &Body) -> String {
    let own = conversation::is_from(body, VENDOR);
    let thoughts = body.content.iter().filter_map(|block| match block {
        Block::Thinking { thinking, .. } if own => Some(thinking.as_str()),
        _ => None,
    });
    conversation::joined(thoughts)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
