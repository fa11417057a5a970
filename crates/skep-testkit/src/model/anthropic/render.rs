//! Writes an answer in the exact shapes of the real service.

use serde_json::{Value, json};

use super::super::frames::{Frame, Pen, Tokens};
use super::super::reply::Reply;
use super::super::request::ModelRequest;

pub(crate) struct Writer<'a> {
    reply: &'a Reply,
    request: &'a ModelRequest,
    frames: Vec<Frame>,
    /// Closed blocks as they stand in a whole message.
    blocks: Vec<Value>,
    open: Option<Value>,
    /// Argument JSON of the open tool call.
    arguments: String,
    pinged: bool,
    written: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(reply: &'a Reply, request: &'a ModelRequest) -> Self {
        Writer {
            reply,
            request,
            frames: Vec::new(),
            blocks: Vec::new(),
            open: None,
            arguments: String::new(),
            pinged: false,
            written: 0,
        }
    }

    fn open(&mut self, block: Value) {
        self.close();
        let index = self.blocks.len();
        let kind = "content_block_start";
        self.event(kind, json!({ "type": kind, "index": index, "content_block": block }));
        self.open = Some(block);
        if !self.pinged {
            self.pinged = true;
            self.event("ping", json!({ "type": "ping" }));
        }
    }

    fn block_delta(&mut self, delta: Value) {
        let index = self.blocks.len();
        let kind = "content_block_delta";
        self.event(kind, json!({ "type": kind, "index": index, "delta": delta }));
    }

    fn event(&mut self, name: &str, data: Value) {
        let text = format!("event: {name}\ndata: {data}\n\n");
        self.frames.push(Frame::Bytes(text.into()));
    }

    fn message(&self, content: Value) -> Value {
        json!({
            "model": self.request.body["model"],
            "id": format!("msg_{:016x}", self.request.nonce),
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
            "usage": self.usage(1),
        })
    }

    fn usage(&self, output_tokens: u64) -> Value {
        let tokens = self.tokens();
        json!({
            "input_tokens": tokens.input,
            "cache_creation_input_tokens": tokens.cache_write,
            "cache_read_input_tokens": tokens.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": tokens.cache_write,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": output_tokens,
            "service_tier": "standard",
        })
    }

    fn output_tokens(&self) -> u64 {
        self.tokens().output
    }

    fn tokens(&self) -> Tokens {
        Tokens::of(self.reply, self.request, self.written)
    }

    fn stop_reason(&self) -> &str {
        let calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        let natural = if calls { "tool_use" } else { "end_turn" };
        self.reply.stop_reason.as_deref().unwrap_or(natural)
    }
}

impl Pen for Writer<'_> {
    fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.frames
    }

    fn begin(&mut self) {
        let message = self.message(json!([]));
        self.event("message_start", json!({ "type": "message_start", "message": message }));
    }

    fn open_text(&mut self) {
        self.open(json!({ "type": "text", "text": "" }));
    }

    fn open_thinking(&mut self) {
        self.open(json!({ "type": "thinking", "thinking": "", "signature": "" }));
    }

    fn open_tool(&mut self, id: Option<&str>, name: &str) {
        let index = self.blocks.len();
        let fresh = || format!("toolu_{:012x}{index:04}", self.request.nonce);
        let id = id.map_or_else(fresh, str::to_owned);
        self.arguments.clear();
        self.open(json!({ "type": "tool_use", "id": id, "name": name, "input": {} }));
        // The real service begins every call with an empty piece.
        self.block_delta(json!({ "type": "input_json_delta", "partial_json": "" }));
    }

    fn redacted(&mut self, data: &str) {
        self.open(json!({ "type": "redacted_thinking", "data": data }));
        self.close();
    }

    fn delta(&mut self, piece: &str) {
        self.written += piece.len();
        let Some(block) = &mut self.open else { return };
        let (kind, field) = match block["type"].as_str() {
            Some("thinking") => ("thinking_delta", "thinking"),
            Some("tool_use") => ("input_json_delta", "partial_json"),
            _ => ("text_delta", "text"),
        };
        if field == "partial_json" {
            self.arguments.push_str(piece);
        } else {
            let so_far = block[field].as_str().unwrap_or_default();
            block[field] = json!(format!("{so_far}{piece}"));
        }
        let mut delta = json!({ "type": kind });
        delta[field] = json!(piece);
        self.block_delta(delta);
    }

    fn signature(&mut self, signature: &str) {
        self.block_delta(json!({ "type": "signature_delta", "signature": signature }));
        if let Some(block) = &mut self.open {
            block["signature"] = json!(signature);
        }
    }

    fn close(&mut self) {
        let Some(mut block) = self.open.take() else { return };
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&self.arguments).unwrap_or(json!({}));
        }
        let index = self.blocks.len();
        let kind = "content_block_stop";
        self.event(kind, json!({ "type": kind, "index": index }));
        self.blocks.push(block);
    }

    fn ping(&mut self) {
        self.event("ping", json!({ "type": "ping" }));
    }

    fn error(&mut self, kind: &str, message: &str) {
        let error = json!({ "type": kind, "message": message });
        self.event("error", json!({ "type": "error", "error": error }));
    }

    fn finish(&mut self) {
        let mut usage = self.usage(self.output_tokens());
        if let Some(fields) = usage.as_object_mut() {
            // The closing event reports the counts alone.
            fields.retain(|name, _| name.ends_with("_tokens"));
        }
        let delta = json!({ "stop_reason": self.stop_reason(), "stop_sequence": null });
        let data = json!({ "type": "message_delta", "delta": delta, "usage": usage });
        self.event("message_delta", data);
        self.event("message_stop", json!({ "type": "message_stop" }));
    }

    fn whole(&mut self) -> Value {
        let mut message = self.message(Value::Array(self.blocks.clone()));
        message["stop_reason"] = json!(self.stop_reason());
        message["usage"]["output_tokens"] = json!(self.output_tokens());
        message
    }
}
