//! Writes an answer in the exact shapes of the real service, and thinking as compatible servers
//! show it.

use serde_json::{Value, json};

use super::super::frames::{Frame, Pen, Tokens};
use super::super::openai::error_object;
use super::super::reply::Reply;
use super::super::request::ModelRequest;

/// Any moment will do.
const CREATED: u64 = 1_790_000_000;

pub(crate) struct Writer<'a> {
    reply: &'a Reply,
    request: &'a ModelRequest,
    frames: Vec<Frame>,
    text: String,
    thinking: String,
    calls: Vec<Call>,
    open: Open,
    written: usize,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Clone, Copy)]
enum Open {
    Nothing,
    Text,
    Thinking,
    Call,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(reply: &'a Reply, request: &'a ModelRequest) -> Self {
        Writer {
            reply,
            request,
            frames: Vec::new(),
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            open: Open::Nothing,
            written: 0,
        }
    }

    fn chunk(&mut self, delta: Value, finish_reason: Option<&str>) {
        let choice = json!({
            "index": 0,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason,
        });
        let mut chunk = self.head("chat.completion.chunk");
        chunk["choices"] = json!([choice]);
        if self.counts_asked_for() {
            chunk["usage"] = Value::Null;
        }
        self.data(&chunk.to_string());
    }

    fn data(&mut self, data: &str) {
        self.frames.push(Frame::Bytes(format!("data: {data}\n\n").into()));
    }

    fn head(&self, object: &str) -> Value {
        json!({
            "id": format!("chatcmpl-{:016x}", self.request.nonce),
            "object": object,
            "created": CREATED,
            "model": self.request.body["model"],
            "service_tier": "default",
            "system_fingerprint": null,
        })
    }

    fn counts_asked_for(&self) -> bool {
        self.request.body["stream_options"]["include_usage"] == true
    }

    fn usage(&self) -> Value {
        let tokens = Tokens::of(self.reply, self.request, self.written);
        json!({
            "prompt_tokens": tokens.prompt(),
            "completion_tokens": tokens.output,
            "total_tokens": tokens.prompt() + tokens.output,
            "prompt_tokens_details": {
                "cached_tokens": tokens.cache_read,
                "cache_write_tokens": tokens.cache_write,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        })
    }

    fn finish_reason(&self) -> &str {
        match self.reply.stop_reason.as_deref() {
            None | Some("tool_use") if !self.calls.is_empty() => "tool_calls",
            None | Some("end_turn" | "stop_sequence" | "tool_use") => "stop",
            Some("max_tokens") => "length",
            Some("refusal") => "content_filter",
            Some(other) => other,
        }
    }
}

impl Pen for Writer<'_> {
    fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.frames
    }

    fn begin(&mut self) {
        self.chunk(json!({ "role": "assistant", "content": "", "refusal": null }), None);
    }

    fn open_text(&mut self) {
        self.open = Open::Text;
    }

    fn open_thinking(&mut self) {
        self.open = Open::Thinking;
    }

    fn open_tool(&mut self, id: Option<&str>, name: &str) {
        let index = self.calls.len();
        let fresh = || format!("call_{:012x}{index:04}", self.request.nonce);
        let id = id.map_or_else(fresh, str::to_owned);
        let function = json!({ "name": name, "arguments": "" });
        let call = json!({ "index": index, "id": id, "type": "function", "function": function });
        self.calls.push(Call { id, name: name.to_owned(), arguments: String::new() });
        self.open = Open::Call;
        self.chunk(json!({ "tool_calls": [call] }), None);
    }

    /// This wire has no words for it.
    fn redacted(&mut self, _data: &str) {}

    fn delta(&mut self, piece: &str) {
        self.written += piece.len();
        let delta = match self.open {
            Open::Nothing => return,
            Open::Text => {
                self.text.push_str(piece);
                json!({ "content": piece })
            }
            Open::Thinking => {
                self.thinking.push_str(piece);
                json!({ "reasoning_content": piece })
            }
            Open::Call => {
                let index = self.calls.len().saturating_sub(1);
                if let Some(call) = self.calls.last_mut() {
                    call.arguments.push_str(piece);
                }
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] })
            }
        };
        self.chunk(delta, None);
    }

    fn signature(&mut self, _signature: &str) {}

    fn close(&mut self) {
        self.open = Open::Nothing;
    }

    /// There are no pings; a chunk that says nothing is one.
    fn ping(&mut self) {
        self.chunk(json!({}), None);
    }

    fn error(&mut self, kind: &str, message: &str) {
        self.data(&json!({ "error": error_object(kind, message) }).to_string());
    }

    fn finish(&mut self) {
        let reason = self.finish_reason().to_owned();
        self.chunk(json!({}), Some(&reason));
        if self.counts_asked_for() {
            let mut chunk = self.head("chat.completion.chunk");
            chunk["choices"] = json!([]);
            chunk["usage"] = self.usage();
            self.data(&chunk.to_string());
        }
        self.data("[DONE]");
    }

    fn whole(&mut self) -> Value {
        let calls = self.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        let calls: Vec<Value> = calls.collect();
        let mut message = json!({ "role": "assistant", "content": null, "refusal": null });
        if !self.text.is_empty() {
            message["content"] = json!(self.text);
        }
        if !self.thinking.is_empty() {
            message["reasoning_content"] = json!(self.thinking);
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        let mut answer = self.head("chat.completion");
        answer["choices"] = json!([{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": self.finish_reason(),
        }]);
        answer["usage"] = self.usage();
        answer
    }
}
