//! What the model answers: a list of steps, and everything that can go wrong with it.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::refusal::Refusal;
use super::request::signature_of;

/// Built step by step: `Reply::new().text("I look.").tool("read", json!({"path": "a"}))`.
/// Blocks may be opened and filled piece by piece, with gates, delays and faults in between:
/// `Reply::new().open_text().delta("Hel").gate("half").delta("lo").close()`.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) head: Vec<Hold>,
    pub(crate) answer: Answer,
    pub(crate) steps: Vec<Step>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) cut_after: Option<usize>,
    pub(crate) chunk: Option<usize>,
    pub(crate) trickle: Option<Duration>,
}

/// What happens before the status line is sent.
#[derive(Clone, Debug)]
pub(crate) enum Hold {
    Gate(String),
    Delay(Duration),
    Forever,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The steps, as a stream or as one message, whichever was asked for.
    Message,
    Fixed {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    },
    /// The steps that are bytes, pauses and cuts alone, under this content type.
    Bare(String),
    Error {
        fault: Fault,
        retry_after: Option<String>,
    },
}

/// An error in the words of the Anthropic service; other wires put it into their own.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    OpenText,
    OpenThinking,
    OpenTool { id: Option<String>, name: String },
    Redacted(String),
    Delta(String),
    Signature(String),
    Close,
    Ping,
    Gate(String),
    Delay(Duration),
    Silence,
    Cut,
    Raw(Bytes),
    Error { kind: String, message: String },
}

/// Token counts as reported; what is None is estimated from the size of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_creation_input_tokens: u64,
    pub cache_read_input_tokens: u64,
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

/// Good answers.
impl Reply {
    pub fn new() -> Self {
        Reply {
            head: Vec::new(),
            answer: Answer::Message,
            steps: Vec::new(),
            stop_reason: None,
            usage: Usage::default(),
            cut_after: None,
            chunk: None,
            trickle: None,
        }
    }

    /// A whole answer of one text.
    pub fn say(text: &str) -> Self {
        Self::new().text(text)
    }

    /// A whole answer of one tool call.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::new().tool(name, arguments)
    }

    pub fn text(self, text: &str) -> Self {
        self.open_text().delta(text).close()
    }

    pub fn text_in<'a>(self, deltas: impl IntoIterator<Item = &'a str>) -> Self {
        self.open_text().deltas(deltas).close()
    }

    /// A thinking block with the signature this server takes back.
    pub fn thinking(self, text: &str) -> Self {
        self.open_thinking().delta(text).signature(&signature_of(text)).close()
    }

    pub fn redacted_thinking(self, data: &str) -> Self {
        self.step(Step::Redacted(data.to_owned()))
    }

    /// A tool call with a fresh id. Several in a row are parallel calls.
    pub fn tool(self, name: &str, arguments: Value) -> Self {
        self.open_tool(name).delta(&arguments.to_string()).close()
    }

    pub fn tool_with_id(self, id: &str, name: &str, arguments: Value) -> Self {
        let open = Step::OpenTool { id: Some(id.to_owned()), name: name.to_owned() };
        self.step(open).delta(&arguments.to_string()).close()
    }

    /// The argument JSON in pieces; together they need not even be JSON.
    pub fn tool_in<'a>(self, name: &str, pieces: impl IntoIterator<Item = &'a str>) -> Self {
        self.open_tool(name).deltas(pieces).close()
    }

    pub fn open_text(self) -> Self {
        self.step(Step::OpenText)
    }

    pub fn open_thinking(self) -> Self {
        self.step(Step::OpenThinking)
    }

    pub fn open_tool(self, name: &str) -> Self {
        self.step(Step::OpenTool { id: None, name: name.to_owned() })
    }

    /// A piece of the open block: text, thinking or argument JSON.
    pub fn delta(self, piece: &str) -> Self {
        self.step(Step::Delta(piece.to_owned()))
    }

    pub fn deltas<'a>(mut self, pieces: impl IntoIterator<Item = &'a str>) -> Self {
        self.steps.extend(pieces.into_iter().map(|piece| Step::Delta(piece.to_owned())));
        self
    }

    pub fn signature(self, signature: &str) -> Self {
        self.step(Step::Signature(signature.to_owned()))
    }

    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    pub fn ping(self) -> Self {
        self.step(Step::Ping)
    }

    /// Else `tool_use` when there is a call, `end_turn` when not. Other wires say the same in
    /// their own words.
    pub fn stop_reason(mut self, reason: &str) -> Self {
        self.stop_reason = Some(reason.to_owned());
        self
    }

    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

/// Timing.
impl Reply {
    /// Waits here until the test releases the gate.
    pub fn gate(self, name: &str) -> Self {
        self.step(Step::Gate(name.to_owned()))
    }

    pub fn delay(self, delay: Duration) -> Self {
        self.step(Step::Delay(delay))
    }

    /// Waits at the gate before the first byte, the status line included.
    pub fn gate_first(mut self, name: &str) -> Self {
        self.head.push(Hold::Gate(name.to_owned()));
        self
    }

    pub fn delay_first(mut self, delay: Duration) -> Self {
        self.head.push(Hold::Delay(delay));
        self
    }

    /// Sends the stream in chunks of this many bytes, whatever they cut through.
    pub fn chunked(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes.max(1));
        self
    }

    /// Sends one byte per interval.
    pub fn trickle(mut self, interval: Duration) -> Self {
        self.trickle = Some(interval);
        self
    }
}

/// Faults.
impl Reply {
    /// Never sends a byte.
    pub fn silence() -> Self {
        let mut reply = Self::new();
        reply.head.push(Hold::Forever);
        reply
    }

    /// Stays silent from here on, connection open.
    pub fn then_silence(self) -> Self {
        self.step(Step::Silence)
    }

    /// Cuts the connection here.
    pub fn cut(self) -> Self {
        self.step(Step::Cut)
    }

    /// Cuts the connection after this many bytes of the stream.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Bytes put into the stream as they are.
    pub fn raw(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Raw(bytes.into()))
    }

    /// An `error` event inside the stream, which ends there.
    pub fn error_event(self, kind: &str, message: &str) -> Self {
        self.step(Step::Error { kind: kind.to_owned(), message: message.to_owned() })
    }

    pub fn rate_limited(retry_after: Option<&str>) -> Self {
        let message = "This request would exceed your organization's rate limit.";
        Self::error(429, "rate_limit_error", message, retry_after)
    }

    pub fn server_error() -> Self {
        Self::error(500, "api_error", "Internal server error", None)
    }

    pub fn overloaded() -> Self {
        Self::error(529, "overloaded_error", "Overloaded", None)
    }

    pub fn unauthorized() -> Self {
        Self::error(401, "authentication_error", "invalid x-api-key", None)
    }

    pub fn forbidden() -> Self {
        let message = "Your API key does not have permission to use the specified resource.";
        Self::error(403, "permission_error", message, None)
    }

    pub fn bad_request(message: &str) -> Self {
        Self::error(400, "invalid_request_error", message, None)
    }

    pub fn not_found() -> Self {
        Self::error(404, "not_found_error", "model: no-such-model", None)
    }

    pub fn too_large() -> Self {
        let message = "Request exceeds the maximum allowed number of bytes.";
        Self::error(413, "request_too_large", message, None)
    }

    pub fn context_too_long() -> Self {
        Self::bad_request("prompt is too long: 215000 tokens > 200000 maximum")
    }

    pub fn error(
        status: u16,
        kind: &'static str,
        message: &str,
        retry_after: Option<&str>,
    ) -> Self {
        let fault = Fault { status, kind, message: message.to_owned() };
        let retry_after = retry_after.map(str::to_owned);
        Self::new().answer(Answer::Error { fault, retry_after })
    }

    /// A page instead of an answer, as a proxy in between would send it.
    pub fn html(status: u16) -> Self {
        let body = "<!DOCTYPE html><html><body><h1>It works behind a proxy</h1></body></html>\n";
        Self::fixed(status, "text/html; charset=utf-8", body)
    }

    /// An event stream that ends before it began.
    pub fn empty() -> Self {
        Self::fixed(200, "text/event-stream; charset=utf-8", "")
    }

    /// An event stream that makes no sense.
    pub fn garbage() -> Self {
        let body = "event: message_start\ndata: {\"type\":\"message_sta\n\n\u{0}\u{1}]]>:::\n\n";
        Self::fixed(200, "text/event-stream; charset=utf-8", body)
    }

    pub fn fixed(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self::new().answer(Answer::Fixed { status, headers, body: body.into() })
    }

    /// An answer that this server does not write: only the bytes given by `raw`, cut where `cut`
    /// stands.
    pub fn bare(content_type: &str) -> Self {
        Self::new().answer(Answer::Bare(content_type.to_owned()))
    }

    /// Fifty parallel calls of one tool, arguments `{"index": n}`.
    pub fn fifty_calls(name: &str) -> Self {
        (0..50).fold(Self::new(), |reply, index| {
            reply.tool(name, serde_json::json!({ "index": index }))
        })
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Reply::error(refusal.status, refusal.kind, &refusal.message, None)
    }
}
