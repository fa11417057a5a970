//! The steps of a reply into what is played. A wire only says how each step is written.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

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

/// Writes an answer in the shapes of one wire.
pub(crate) trait Pen {
    fn frames(&mut self) -> &mut Vec<Frame>;
    fn begin(&mut self);
    fn open_text(&mut self);
    fn open_thinking(&mut self);
    fn open_tool(&mut self, id: Option<&str>, name: &str);
    fn redacted(&mut self, data: &str);
    fn delta(&mut self, piece: &str);
    fn signature(&mut self, signature: &str);
    fn close(&mut self);
    fn ping(&mut self);
    fn error(&mut self, kind: &str, message: &str);
    fn finish(&mut self);
    /// The answer written so far as one message.
    fn whole(&mut self) -> Value;
}

/// The event stream of a reply, for playing.
pub(crate) fn stream(mut pen: Box<dyn Pen + '_>, reply: &Reply) -> Vec<Frame> {
    pen.begin();
    let ended = reply.steps.iter().any(|step| !write(pen.as_mut(), step));
    if !ended {
        pen.close();
        pen.finish();
    }
    reshape(std::mem::take(pen.frames()), reply)
}

/// The steps that any wire writes alike, and nothing around them.
pub(crate) fn bare(reply: &Reply) -> Vec<Frame> {
    let frames = reply.steps.iter().filter_map(|step| match step {
        Step::Gate(name) => Some(Frame::Gate(name.clone())),
        Step::Delay(delay) => Some(Frame::Delay(*delay)),
        Step::Raw(bytes) => Some(Frame::Bytes(bytes.clone())),
        Step::Silence => Some(Frame::Silence),
        Step::Cut => Some(Frame::Cut),
        _ => None,
    });
    reshape(frames.collect(), reply)
}

/// The same answer as one message; pauses and faults come before it.
pub(crate) fn whole(mut pen: Box<dyn Pen + '_>, reply: &Reply) -> Vec<Frame> {
    let mut frames = Vec::new();
    for step in &reply.steps {
        match step {
            Step::Gate(name) => frames.push(Frame::Gate(name.clone())),
            Step::Delay(delay) => frames.push(Frame::Delay(*delay)),
            Step::Silence => frames.push(Frame::Silence),
            Step::Cut => frames.push(Frame::Cut),
            _ => {
                write(pen.as_mut(), step);
            }
        }
    }
    pen.close();
    frames.push(Frame::Bytes(pen.whole().to_string().into()));
    frames
}

/// False when the stream ends with this step.
fn write(pen: &mut dyn Pen, step: &Step) -> bool {
    match step {
        Step::OpenText => pen.open_text(),
        Step::OpenThinking => pen.open_thinking(),
        Step::OpenTool { id, name } => pen.open_tool(id.as_deref(), name),
        Step::Redacted(data) => pen.redacted(data),
        Step::Delta(piece) => pen.delta(piece),
        Step::Signature(signature) => pen.signature(signature),
        Step::Close => pen.close(),
        Step::Ping => pen.ping(),
        Step::Gate(name) => pen.frames().push(Frame::Gate(name.clone())),
        Step::Delay(delay) => pen.frames().push(Frame::Delay(*delay)),
        Step::Raw(bytes) => pen.frames().push(Frame::Bytes(bytes.clone())),
        Step::Silence => pen.frames().push(Frame::Silence),
        Step::Cut => pen.frames().push(Frame::Cut),
        Step::Error { kind, message } => pen.error(kind, message),
    }
    !matches!(step, Step::Silence | Step::Cut | Step::Error { .. })
}

/// Token counts of an answer: as the reply says, else about four bytes a token.
pub(crate) struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
}

impl Tokens {
    pub(crate) fn of(reply: &Reply, request: &ModelRequest, written: usize) -> Self {
        let usage = &reply.usage;
        Tokens {
            input: usage.input_tokens.unwrap_or(request.raw.len() as u64 / 4),
            output: usage.output_tokens.unwrap_or(written as u64 / 4 + 1),
            cache_write: usage.cache_creation_input_tokens,
            cache_read: usage.cache_read_input_tokens,
        }
    }

    /// Everything that was read, however it came.
    pub(crate) fn prompt(&self) -> u64 {
        self.input + self.cache_write + self.cache_read
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
