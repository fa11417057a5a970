//! Turns the steps of a reply into bytes on the wire, in the exact shapes of the real service.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::reply::{Reply, Step};
use super::request::ModelRequest;

/// What is played, in order.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Bytes(Bytes),
    Gate(String),
    Delay(Duration),
    Silence,
    Cut,
}

/// The event stream of a reply, for playing.
pub(crate) fn stream(reply: &Reply, request: &ModelRequest) -> Vec<Frame> {
    let mut writer = Writer::new(reply, request);
    let ended = reply.steps.iter().any(|step| !writer.step(step));
    if !ended {
        writer.finish();
    }
    reshape(writer.frames, reply)
}

/// The same answer as one message; pauses and faults come before it.
pub(crate) fn whole(reply: &Reply, request: &ModelRequest) -> (Vec<Frame>, Value) {
    let mut writer = Writer::new(reply, request);
    let mut holds = Vec::new();
    for step in &reply.steps {
        match step {
            Step::Gate(name) => holds.push(Frame::Gate(name.clone())),
            Step::Delay(delay) => holds.push(Frame::Delay(*delay)),
            Step::Silence => holds.push(Frame::Silence),
            Step::Cut => holds.push(Frame::Cut),
            _ => {
                writer.step(step);
            }
        }
    }
    let mut message = writer.message(Value::Array(writer.blocks.clone()));
    message["stop_reason"] = json!(writer.stop_reason());
    message["usage"]["output_tokens"] = json!(writer.output_tokens());
    (holds, message)
}

struct Writer<'a> {
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
    fn new(reply: &'a Reply, request: &'a ModelRequest) -> Self {
        let mut writer = Writer {
            reply,
            request,
            frames: Vec::new(),
            blocks: Vec::new(),
            open: None,
            arguments: String::new(),
            pinged: false,
            written: 0,
        };
        let message = writer.message(json!([]));
        writer.event("message_start", json!({ "type": "message_start", "message": message }));
        writer
    }

    /// False when the stream ends with this step.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::OpenText => self.open(json!({ "type": "text", "text": "" })),
            Step::OpenThinking => {
                self.open(json!({ "type": "thinking", "thinking": "", "signature": "" }));
            }
            Step::OpenTool { id, name } => self.open_tool(id.as_deref(), name),
            Step::Redacted(data) => {
                self.open(json!({ "type": "redacted_thinking", "data": data }));
                self.close();
            }
            Step::Delta(piece) => self.delta(piece),
            Step::Signature(signature) => {
                self.block_delta(json!({ "type": "signature_delta", "signature": signature }));
                if let Some(block) = &mut self.open {
                    block["signature"] = json!(signature);
                }
            }
            Step::Close => self.close(),
            Step::Ping => self.event("ping", json!({ "type": "ping" })),
            Step::Gate(name) => self.frames.push(Frame::Gate(name.clone())),
            Step::Delay(delay) => self.frames.push(Frame::Delay(*delay)),
            Step::Raw(bytes) => self.frames.push(Frame::Bytes(bytes.clone())),
            Step::Silence => return self.end_with(Frame::Silence),
            Step::Cut => return self.end_with(Frame::Cut),
            Step::Error { kind, message } => {
                let error = json!({ "type": kind, "message": message });
                self.event("error", json!({ "type": "error", "error": error }));
                return false;
            }
        }
        true
    }

    fn finish(&mut self) {
        self.close();
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

    fn end_with(&mut self, frame: Frame) -> bool {
        self.frames.push(frame);
        false
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

    fn block_delta(&mut self, delta: Value) {
        let index = self.blocks.len();
        let kind = "content_block_delta";
        self.event(kind, json!({ "type": kind, "index": index, "delta": delta }));
    }

    fn close(&mut self) {
        let Some(mut block) = self.open.take() else {
            return;
        };
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&self.arguments).unwrap_or(json!({}));
        }
        let index = self.blocks.len();
        let kind = "content_block_stop";
        self.event(kind, json!({ "type": kind, "index": index }));
        self.blocks.push(block);
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
        let usage = &self.reply.usage;
        // About four bytes a token.
        let input = usage.input_tokens.unwrap_or(self.request.raw.len() as u64 / 4);
        json!({
            "input_tokens": input,
            "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            "cache_read_input_tokens": usage.cache_read_input_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": usage.cache_creation_input_tokens,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": output_tokens,
            "service_tier": "standard",
        })
    }

    fn output_tokens(&self) -> u64 {
        self.reply.usage.output_tokens.unwrap_or(self.written as u64 / 4 + 1)
    }

    fn stop_reason(&self) -> &str {
        let calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        let natural = if calls { "tool_use" } else { "end_turn" };
        self.reply.stop_reason.as_deref().unwrap_or(natural)
    }
}

/// Cuts, splits and slows the stream as the reply asks.
fn reshape(frames: Vec<Frame>, reply: &Reply) -> Vec<Frame> {
    let frames = match reply.cut_after {
        Some(bytes) => cut(frames, bytes),
        None => frames,
    };
    let (size, pause) = match (reply.trickle, reply.chunk) {
        (Some(interval), _) => (1, Some(interval)),
        (None, Some(size)) => (size, None),
        (None, None) => return frames,
    };
    let mut shaped = Vec::new();
    for frame in frames {
        let Frame::Bytes(bytes) = frame else {
            shaped.push(frame);
            continue;
        };
        for piece in bytes.chunks(size) {
            shaped.push(Frame::Bytes(Bytes::copy_from_slice(piece)));
            shaped.extend(pause.map(Frame::Delay));
        }
    }
    shaped
}

fn cut(frames: Vec<Frame>, mut left: usize) -> Vec<Frame> {
    let mut kept = Vec::new();
    for frame in frames {
        match frame {
            Frame::Bytes(bytes) if bytes.len() > left => {
                kept.push(Frame::Bytes(bytes.slice(..left)));
                kept.push(Frame::Cut);
                return kept;
            }
            Frame::Bytes(bytes) => {
                left -= bytes.len();
                kept.push(Frame::Bytes(bytes));
            }
            other => kept.push(other),
        }
    }
    kept.push(Frame::Cut);
    kept
}
