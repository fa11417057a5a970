//! One recorded request and questions tests and scripts ask about it.

use std::time::Instant;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::Value;

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

impl ModelRequest {
    pub(crate) fn new(headers: HeaderMap, raw: Bytes) -> Self {
        let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        let at = Instant::now();
        ModelRequest { number: 0, nonce: 0, at, headers, raw, body, refusal: None, ending: None }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn streams(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or(false)
    }

    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    pub fn system_text(&self) -> String {
        text_of(&self.body["system"])
    }

    /// The text of the newest user message that has any, tool results left out.
    pub fn last_user_text(&self) -> String {
        self.messages().iter().rev().find_map(user_text).unwrap_or_default()
    }

    /// Assistant messages since the newest user text: how far the turn has come.
    pub fn steps_done(&self) -> usize {
        let messages = self.messages().iter().rev();
        let since = messages.take_while(|message| user_text(message).is_none());
        since.filter(|message| message["role"] == "assistant").count()
    }

    /// The tool results of the last message, in order.
    pub fn last_tool_results(&self) -> Vec<ToolResult> {
        self.messages().last().map(tool_results).unwrap_or_default()
    }

    /// Every tool result in the request, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.messages().iter().flat_map(tool_results).collect()
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

fn user_text(message: &Value) -> Option<String> {
    if message["role"] != "user" {
        return None;
    }
    let text = text_of(&message["content"]);
    (!text.is_empty()).then_some(text)
}

fn tool_results(message: &Value) -> Vec<ToolResult> {
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| ToolResult {
            id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
            text: text_of(&block["content"]),
            is_error: block["is_error"].as_bool().unwrap_or(false),
        })
        .collect()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
