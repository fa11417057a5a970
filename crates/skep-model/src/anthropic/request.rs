//! Rows and settings into a request body. Pure, and the same bytes for the same rows, so that
//! request n+1 of a session begins with all of request n and the vendor's cache holds.
//!
//! Written straight from the rows: a tree of values in between took a tenth of a turn's time.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use skep_core::message::{Block, Body};
use skep_core::provider::{ModelRequest, ToolSpec};

use super::VENDOR;
use crate::catalog;
use crate::conversation::{self, CallResult, ContentPart, WireMessage};
use crate::effort;

/// Tools, system and messages stand last and in the order the cache sees them.
#[derive(Serialize)]
struct Wire<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Content<'a>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive,
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: String },
}

/// Everything up to and including its block may be taken from the vendor's cache next time.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Cache {
    Ephemeral,
}

/// The request body.
pub fn render(request: &ModelRequest) -> String {
    let adaptive = catalog::find(&request.model).is_some_and(|model| model.adaptive);
    let pieces = conversation::pieces(request);
    let (mut thinking, mut output_config, mut temperature) = (None, None, None);
    if adaptive {
        if let Some(budget) = request.thinking {
            thinking = Some(Thinking::Adaptive);
            output_config = Some(OutputConfig { effort: effort::of_budget(budget) });
        }
    } else if let Some(budget) = request.thinking.filter(|_| may_think(&pieces)) {
        thinking = Some(Thinking::Enabled { budget_tokens: budget });
    } else if request.thinking.is_none() {
        // The wire refuses a temperature beside thinking.
        temperature = request.temperature;
    }
    let wire = Wire {
        model: &request.model,
        max_tokens: request.max_output_tokens,
        stream: true,
        thinking,
        output_config,
        temperature,
        tools: tools(&request.tools),
        system: system(request),
        messages: messages(&pieces),
    };
    // Only keys that are no text could fail.
    serde_json::to_string(&wire).unwrap_or_default()
}

/// The wire refuses thinking in a turn that another vendor began with calls: such a turn has no
/// thinking of its own at its start.
fn may_think(pieces: &[WireMessage<'_>]) -> bool {
    let turn = pieces.iter().rev().take_while(|piece| !matches!(piece, WireMessage::User(_)));
    let first = turn.filter_map(|piece| match piece {
        WireMessage::Assistant(body) => Some(assistant(body)),
        WireMessage::User(_) | WireMessage::Results(_) => None,
    });
    first.last().is_none_or(|blocks| {
        let thinks = |block: &Content<'_>| {
            matches!(block, Content::Thinking { .. } | Content::RedactedThinking { .. })
        };
        blocks.first().is_some_and(thinks)
    })
}

fn tools(specs: &[ToolSpec]) -> Vec<Tool<'_>> {
    let mut tools: Vec<Tool<'_>> = specs
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(Cache::Ephemeral);
    }
    tools
}

fn system(request: &ModelRequest) -> Vec<Content<'_>> {
    let parts = [&request.system.shared, &request.system.agent];
    let mut blocks: Vec<_> = parts.into_iter().filter_map(|part| text_block(part)).collect();
    blocks.iter_mut().for_each(mark_for_cache);
    blocks
}

fn messages<'a>(pieces: &'a [WireMessage<'a>]) -> Vec<Said<'a>> {
    let mut rendered = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let (role, content) = match piece {
            WireMessage::User(parts) => ("user", parts.iter().map(part).collect()),
            WireMessage::Assistant(body) => ("assistant", assistant(body)),
            WireMessage::Results(results) => {
                ("user", results.iter().map(result).collect::<Vec<_>>())
            }
        };
        if !content.is_empty() {
            rendered.push(Said { role, content });
        }
    }
    if let Some(block) = rendered.last_mut().and_then(|said| said.content.last_mut()) {
        mark_for_cache(block);
    }
    rendered
}

fn assistant(body: &Body) -> Vec<Content<'_>> {
    let own = conversation::is_from(body, VENDOR);
    let blocks = body.content.iter().filter_map(|block| match block {
        Block::Text { text } => text_block(text),
        Block::Thinking { thinking, signature: Some(signature) } if own => {
            Some(Content::Thinking { thinking, signature })
        }
        Block::RedactedThinking { data } if own => Some(Content::RedactedThinking { data }),
        // The wire refuses thinking it did not sign.
        Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::File(_) => None,
        Block::ToolCall { id, name, arguments } => Some(Content::ToolUse {
            id: conversation::call_id(id),
            name,
            input: conversation::input(arguments),
            cache_control: None,
        }),
    });
    blocks.collect()
}

fn result<'a>(result: &'a CallResult<'a>) -> Content<'a> {
    Content::ToolResult {
        tool_use_id: &result.id,
        content: result.parts.iter().map(part).collect(),
        is_error: result.is_error,
        cache_control: None,
    }
}

fn part<'a>(part: &'a ContentPart<'a>) -> Content<'a> {
    match part {
        ContentPart::Text(text) => Content::Text { text, cache_control: None },
        ContentPart::Image { mime, data } => Content::Image {
            source: Source::Base64 { media_type: mime, data: data.to_base64() },
            cache_control: None,
        },
    }
}

fn text_block(text: &str) -> Option<Content<'_>> {
    conversation::visible(text).map(|text| Content::Text { text, cache_control: None })
}

fn mark_for_cache(block: &mut Content<'_>) {
    match block {
        Content::Text { cache_control, .. }
        | Content::Image { cache_control, .. }
        | Content::ToolUse { cache_control, .. }
        | Content::ToolResult { cache_control, .. } => *cache_control = Some(Cache::Ephemeral),
        Content::Thinking { .. } | Content::RedactedThinking { .. } => {}
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
