//! Writes an answer in the exact shapes of the real service.

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
    /// Items that are done.
    output: Vec<Value>,
    open: Option<Value>,
    /// Text, thinking or arguments of the open item.
    text: String,
    sequence: u64,
    written: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(reply: &'a Reply, request: &'a ModelRequest) -> Self {
        Writer {
            reply,
            request,
            frames: Vec::new(),
            output: Vec::new(),
            open: None,
            text: String::new(),
            sequence: 0,
            written: 0,
        }
    }

    fn event(&mut self, kind: &str, fields: Value) {
        let mut data = json!({ "type": kind, "sequence_number": self.sequence });
        if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
            data.extend(fields);
        }
        self.sequence += 1;
        self.frames.push(Frame::Bytes(format!("event: {kind}\ndata: {data}\n\n").into()));
    }

    /// An event about the open item; `fields` come after its place.
    fn item_event(&mut self, kind: &str, fields: Value) {
        let id = self.open.as_ref().map_or(Value::Null, |item| item["id"].clone());
        let mut data = json!({ "item_id": id, "output_index": self.output.len() });
        if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
            data.extend(fields);
        }
        self.event(kind, data);
    }

    fn open(&mut self, item: Value) {
        self.close();
        self.text.clear();
        let fields = json!({ "output_index": self.output.len(), "item": item });
        self.event("response.output_item.added", fields);
        self.open = Some(item);
    }

    fn done(&mut self, item: Value) {
        let fields = json!({ "output_index": self.output.len(), "item": item });
        self.event("response.output_item.done", fields);
        self.output.push(item);
        self.open = None;
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:012x}{:04}", self.request.nonce, self.output.len())
    }

    /// Thinking is given out for keeping only when asked for.
    fn sealed(&self, content: &str) -> Value {
        let wanted = self.request.body["include"]
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name == "reasoning.encrypted_content"));
        if wanted && !content.is_empty() { json!(content) } else { Value::Null }
    }

    fn limit_reached(&self) -> bool {
        self.reply.stop_reason.as_deref() == Some("max_tokens")
    }

    fn status(&self) -> (&'static str, Value) {
        match self.reply.stop_reason.as_deref() {
            Some("max_tokens") => ("incomplete", json!({ "reason": "max_output_tokens" })),
            Some("refusal") => ("incomplete", json!({ "reason": "content_filter" })),
            _ => ("completed", Value::Null),
        }
    }

    fn response(&self, status: &str) -> Value {
        let body = &self.request.body;
        json!({
            "id": format!("resp_{:016x}", self.request.nonce),
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": body["instructions"],
            "max_output_tokens": body["max_output_tokens"],
            "metadata": {},
            "model": body["model"],
            "output": self.output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "store": body["store"].as_bool().unwrap_or(true),
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": body["tools"].as_array().cloned().unwrap_or_default(),
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": null,
        })
    }

    fn ended(&self) -> Value {
        let (status, details) = self.status();
        let mut response = self.response(status);
        response["incomplete_details"] = details;
        response["usage"] = self.usage();
        response
    }

    fn usage(&self) -> Value {
        let tokens = Tokens::of(self.reply, self.request, self.written);
        json!({
            "input_tokens": tokens.prompt(),
            "input_tokens_details": {
                "cached_tokens": tokens.cache_read,
                "cache_write_tokens": tokens.cache_write,
            },
            "output_tokens": tokens.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": tokens.prompt() + tokens.output,
        })
    }

    fn close_text(&mut self, mut item: Value) {
        let part = json!({ "type": "output_text", "annotations": [], "text": self.text });
        let place = json!({ "content_index": 0, "logprobs": [], "text": self.text });
        self.item_event("response.output_text.done", place);
        let place = json!({ "content_index": 0, "part": part });
        self.item_event("response.content_part.done", place);
        item["status"] = json!(if self.limit_reached() { "incomplete" } else { "completed" });
        item["content"] = json!([part]);
        self.done(item);
    }

    fn close_thinking(&mut self, mut item: Value) {
        let part = json!({ "type": "summary_text", "text": self.text });
        let place = json!({ "summary_index": 0, "text": self.text });
        self.item_event("response.reasoning_summary_text.done", place);
        let place = json!({ "summary_index": 0, "part": part });
        self.item_event("response.reasoning_summary_part.done", place);
        item["summary"] = json!([part]);
        self.done(item);
    }

    fn close_call(&mut self, mut item: Value) {
        // At the limit the arguments may be half; they are not called done then.
        let whole = !self.limit_reached();
        if whole {
            let arguments = json!({ "arguments": self.text });
            self.item_event("response.function_call_arguments.done", arguments);
        }
        item["arguments"] = json!(self.text);
        item["status"] = json!(if whole { "completed" } else { "incomplete" });
        self.done(item);
    }
}

impl Pen for Writer<'_> {
    fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.frames
    }

    fn begin(&mut self) {
        let response = self.response("in_progress");
        self.event("response.created", json!({ "response": response }));
        self.event("response.in_progress", json!({ "response": response }));
    }

    fn open_text(&mut self) {
        self.close();
        let id = self.id("msg");
        self.open(json!({
            "id": id,
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }));
        let part = json!({ "type": "output_text", "annotations": [], "text": "" });
        self.item_event("response.content_part.added", json!({ "content_index": 0, "part": part }));
    }

    fn open_thinking(&mut self) {
        self.close();
        let id = self.id("rs");
        let sealed = Value::Null;
        self.open(json!({
            "id": id,
            "type": "reasoning",
            "summary": [],
            "encrypted_content": sealed,
        }));
        let part = json!({ "type": "summary_text", "text": "" });
        let place = json!({ "summary_index": 0, "part": part });
        self.item_event("response.reasoning_summary_part.added", place);
    }

    fn open_tool(&mut self, id: Option<&str>, name: &str) {
        self.close();
        let item_id = self.id("fc");
        let call_id = id.map_or_else(|| self.id("call"), str::to_owned);
        self.open(json!({
            "id": item_id,
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": call_id,
            "name": name,
        }));
    }

    fn redacted(&mut self, data: &str) {
        self.close();
        let (id, sealed) = (self.id("rs"), self.sealed(data));
        self.open(json!({
            "id": id,
            "type": "reasoning",
            "summary": [],
            "encrypted_content": null,
        }));
        if let Some(mut item) = self.open.take() {
            item["encrypted_content"] = sealed;
            self.done(item);
        }
    }

    fn delta(&mut self, piece: &str) {
        self.written += piece.len();
        let Some(item) = &self.open else { return };
        let (kind, fields) = match item["type"].as_str() {
            Some("reasoning") => (
                "response.reasoning_summary_text.delta",
                json!({ "summary_index": 0, "delta": piece }),
            ),
            Some("function_call") => {
                ("response.function_call_arguments.delta", json!({ "delta": piece }))
            }
            _ => (
                "response.output_text.delta",
                json!({ "content_index": 0, "delta": piece, "logprobs": [] }),
            ),
        };
        self.text.push_str(piece);
        self.item_event(kind, fields);
    }

    fn signature(&mut self, signature: &str) {
        let sealed = self.sealed(signature);
        if let Some(item) = &mut self.open {
            item["encrypted_content"] = sealed;
        }
    }

    fn close(&mut self) {
        // Put back for the events about it; `done` takes it away.
        let Some(item) = self.open.clone() else { return };
        match item["type"].as_str() {
            Some("reasoning") => self.close_thinking(item),
            Some("function_call") => self.close_call(item),
            _ => self.close_text(item),
        }
    }

    fn ping(&mut self) {
        self.event("keepalive", json!({}));
    }

    fn error(&mut self, kind: &str, message: &str) {
        let error = error_object(kind, message);
        if kind == "authentication_error" {
            let fields = json!({ "code": error["code"], "message": message, "param": null });
            self.event("error", fields);
            return;
        }
        let code = error["code"].as_str().or(error["type"].as_str()).unwrap_or_default();
        let mut response = self.response("failed");
        response["error"] = json!({ "code": code, "message": error["message"] });
        self.event("response.failed", json!({ "response": response }));
    }

    fn finish(&mut self) {
        let (status, _) = self.status();
        let response = self.ended();
        self.event(&format!("response.{status}"), json!({ "response": response }));
    }

    fn whole(&mut self) -> Value {
        self.ended()
    }
}
