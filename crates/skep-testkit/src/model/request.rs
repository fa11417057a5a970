//! One recorded request and questions tests and scripts ask about it.

use std::time::Instant;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::Value;

use super::image::{self, Image};
use super::wire::Wire;

/// How the answer to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything the script had to say was handed over.
    Complete,
    /// The script cut the connection.
    Cut,
    /// The client closed the connection before the end.
    HungUp,
}

#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// 1 for the first request of this server.
    pub number: usize,
    /// Never the same twice, also across test processes.
    pub nonce: u64,
    pub at: Instant,
    pub wire: Wire,
    pub headers: HeaderMap,
    pub raw: Bytes,
    /// Key order as sent; null when the body is no JSON.
    pub body: Value,
    /// Why the request was refused like the real service would.
    pub refusal: Option<String>,
    /// None while it is being answered.
    pub ending: Option<Ending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub id: String,
    pub text: String,
    pub is_error: bool,
}

/// One step of the conversation, the same for every wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub assistant: bool,
    pub user_text: Option<String>,
    pub results: Vec<ToolResult>,
}

impl ModelRequest {
    pub(crate) fn new(wire: Wire, headers: HeaderMap, raw: Bytes) -> Self {
        let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        ModelRequest {
            number: 0,
            nonce: 0,
            at: Instant::now(),
            wire,
            headers,
            raw,
            body,
            refusal: None,
            ending: None,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The key as this wire carries it.
    pub fn key(&self) -> Option<&str> {
        self.wire.key(self)
    }

    pub fn streams(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or(false)
    }

    /// The conversation as sent: messages, or the items of a Responses input.
    pub fn messages(&self) -> &[Value] {
        self.body[self.wire.conversation()].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let described = tools.iter().map(|tool| match self.wire {
            Wire::OpenAiChat => &tool["function"],
            Wire::Anthropic | Wire::OpenAiResponses => tool,
        });
        described.filter_map(|tool| tool["name"].as_str()).collect()
    }

    pub fn system_text(&self) -> String {
        self.wire.system_text(self)
    }

    /// The text of the newest user message that has any, tool results left out.
    pub fn last_user_text(&self) -> String {
        let entries = self.wire.entries(self);
        entries.into_iter().rev().find_map(|entry| entry.user_text).unwrap_or_default()
    }

    /// Assistant messages since the newest user text: how far the turn has come.
    pub fn steps_done(&self) -> usize {
        let entries = self.wire.entries(self);
        let since = entries.iter().rev().take_while(|entry| entry.user_text.is_none());
        since.filter(|entry| entry.assistant).count()
    }

    /// The tool results of the last step, in order; none when something came after them.
    pub fn last_tool_results(&self) -> Vec<ToolResult> {
        self.wire.entries(self).pop().map(|entry| entry.results).unwrap_or_default()
    }

    /// Every tool result in the request, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.wire.entries(self).into_iter().flat_map(|entry| entry.results).collect()
    }

    /// Every picture the model is shown, in order.
    pub fn images(&self) -> Vec<Image> {
        self.messages().iter().flat_map(image::all).collect()
    }

    pub fn hung_up(&self) -> bool {
        self.ending == Some(Ending::HungUp)
    }
}

/// The signature this server gives to a thinking text, and the only one it takes back for it.
pub fn signature_of(thinking: &str) -> String {
    // FNV-1a: only has to tell texts apart.
    let hash = thinking.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("EqQBCkYI{hash:016x}==")
}

pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
