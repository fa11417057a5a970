//! The events of an answer into ours.
//!
//! States: before `message_start` → between blocks ⇄ in a block → after `message_delta` →
//! `message_stop`. What compatible servers leave out or add is in the table in
//! `skep-testkit/deviations`, with what it means.

use serde::Deserialize;
use serde_json::{Map, Value};
use skep_core::message::{StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{CallText, Complete, Decode, Last, TokenCount, cut, end, garbage, push_text};
use crate::failure::{self, Detail, VendorFailure};
use crate::mend;
use crate::sse::SseEvent;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    MessageStart {
        #[serde(default)]
        message: WireMessage,
    },
    ContentBlockStart {
        index: Option<u64>,
        content_block: WireBlock,
    },
    ContentBlockDelta {
        index: Option<u64>,
        delta: WireDelta,
    },
    ContentBlockStop {
        index: Option<u64>,
    },
    MessageDelta {
        #[serde(default)]
        delta: WireEnd,
        #[serde(default)]
        usage: WireUsage,
    },
    MessageStop,
    Ping,
    Error {
        #[serde(default)]
        error: Value,
    },
    /// The whole answer in place of a stream.
    Message {
        #[serde(flatten)]
        message: WireMessage,
        #[serde(default)]
        content: Vec<WireBlock>,
        #[serde(flatten)]
        end: WireEnd,
    },
    /// The vendor adds kinds over time and asks clients to pass over them.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireMessage {
    model: String,
    usage: WireUsage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        /// Empty here, and filled by pieces; some servers put everything here.
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireDelta {
    TextDelta {
        #[serde(default)]
        text: String,
    },
    ThinkingDelta {
        #[serde(default)]
        thinking: String,
    },
    SignatureDelta {
        #[serde(default)]
        signature: String,
    },
    InputJsonDelta {
        #[serde(default)]
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Default, Deserialize)]
struct WireEnd {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: TokenCount,
    output_tokens: TokenCount,
    cache_creation_input_tokens: TokenCount,
    cache_read_input_tokens: TokenCount,
}

/// A block that is being received. The vendor sends one at a time, others mix them.
#[derive(Debug)]
struct Open {
    index: Option<u64>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Thinking {
        signature: String,
    },
    Tool {
        call: CallText,
        /// As the start of the block gave it.
        input: Value,
    },
    /// Whole at its start, or of a kind we do not know.
    Opaque,
}

#[derive(Debug, Default)]
pub struct Decoder {
    started: bool,
    open: Vec<Open>,
    /// A call whose block ended. Told when more comes or at the end: the output limit may have
    /// fallen into it.
    ended: Option<CallText>,
    calls: usize,
    said: bool,
    model: String,
    usage: WireUsage,
    stop_reason: Option<String>,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        event: &SseEvent,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), VendorFailure> {
        let wire: Wire =
            mend::read(&event.data, "unreadable event", |fields| fix(fields, &event.name))?;
        match wire {
            Wire::MessageStart { .. } if self.started => return Err(garbage("second start").into()),
            Wire::MessageStart { message } => self.start(message),
            Wire::Ping | Wire::Unknown => {}
            Wire::Error { error } => return Err(failure::from_event(Detail::of(&error))),
            Wire::ContentBlockStart { index, content_block } => {
                self.open(index, content_block, events)?;
            }
            Wire::ContentBlockDelta { index, delta } => self.add(index, delta, events)?,
            Wire::ContentBlockStop { index } => self.close_block(index, events)?,
            Wire::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.usage.take(usage);
            }
            Wire::MessageStop => self.end(events)?,
            Wire::Message { message, content, end } => {
                self.start(message);
                for (index, block) in (0..).zip(content) {
                    self.open(Some(index), block, events)?;
                    self.close_block(Some(index), events)?;
                }
                self.stop_reason = end.stop_reason;
                self.end(events)?;
            }
        }
        Ok(())
    }

    fn is_told_over(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn close(&mut self, last: Last, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if last == Last::Byte && self.stop_reason.is_none() {
            return Err(cut());
        }
        self.end(events)
    }
}

impl Decoder {
    fn start(&mut self, message: WireMessage) {
        self.started = true;
        self.model = message.model;
        self.usage.take(message.usage);
    }

    fn open(
        &mut self,
        index: Option<u64>,
        block: WireBlock,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.tell_ended(Complete::Told, events)?;
        if index.is_some() && self.open.iter().any(|open| open.index == index) {
            return Err(garbage("block inside a block"));
        }
        let before = events.len();
        let kind = match block {
            WireBlock::Text { text } => {
                push_text(events, ModelEvent::Text, text);
                Kind::Text
            }
            WireBlock::Thinking { thinking, signature } => {
                push_text(events, ModelEvent::Thinking, thinking);
                Kind::Thinking { signature }
            }
            WireBlock::RedactedThinking { data } => {
                push_text(events, ModelEvent::RedactedThinking, data);
                Kind::Opaque
            }
            WireBlock::ToolUse { id, name, input } => {
                if name.is_empty() {
                    return Err(garbage("call of no tool"));
                }
                Kind::Tool { call: CallText { id, name, arguments: String::new() }, input }
            }
            WireBlock::Unknown => Kind::Opaque,
        };
        self.said |= events.len() > before;
        self.open.push(Open { index, kind });
        Ok(())
    }

    /// The block that an event is about: the one with its number; without a number the last.
    fn find(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().position(|open| open.index == index),
            None => self.open.len().checked_sub(1),
        }
    }

    fn add(
        &mut self,
        index: Option<u64>,
        delta: WireDelta,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let mut found = self.find(index);
        if matches!(delta, WireDelta::InputJsonDelta { .. }) && self.open.len() == 1 {
            // Some servers number pieces otherwise than blocks.
            found = Some(0);
        }
        if found.is_none() {
            self.tell_ended(Complete::Told, events)?;
        }
        let mut kind = found.map(|at| &mut self.open[at].kind);
        if matches!(kind, Some(Kind::Opaque)) {
            return Ok(());
        }
        let before = events.len();
        match delta {
            // What it is, it says itself: its block need not have been announced.
            WireDelta::TextDelta { text } => push_text(events, ModelEvent::Text, text),
            WireDelta::ThinkingDelta { thinking } => {
                push_text(events, ModelEvent::Thinking, thinking);
                if kind.is_none() {
                    let kind = Kind::Thinking { signature: String::new() };
                    self.open.push(Open { index, kind });
                }
            }
            WireDelta::SignatureDelta { signature: piece } => {
                if let Some(Kind::Thinking { signature }) = &mut kind {
                    signature.push_str(&piece);
                }
            }
            WireDelta::InputJsonDelta { partial_json } => match &mut kind {
                Some(Kind::Tool { call, .. }) => call.add(&partial_json)?,
                _ => return Err(garbage("arguments of no call")),
            },
            WireDelta::Unknown => {}
        }
        self.said |= events.len() > before;
        Ok(())
    }

    fn close_block(
        &mut self,
        index: Option<u64>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(at) = self.find(index) else { return Ok(()) };
        match self.open.remove(at).kind {
            Kind::Thinking { signature } if !signature.is_empty() => {
                events.push(ModelEvent::Signature(signature));
            }
            Kind::Tool { call, input } => {
                self.tell_ended(Complete::Told, events)?;
                self.ended = Some(with_input(call, input)?);
            }
            Kind::Text | Kind::Thinking { .. } | Kind::Opaque => {}
        }
        Ok(())
    }

    fn tell_ended(
        &mut self,
        complete: Complete,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(call) = self.ended.take() {
            self.calls += 1;
            events.extend(call.told(complete, self.calls)?);
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let stop_reason = match self.stop_reason.as_deref() {
            Some(reason) => stop_reason(reason),
            None if self.calls > 0 || self.ended.is_some() => StopReason::ToolUse,
            None if self.said => StopReason::EndTurn,
            None => return Err(garbage("end without a reason")),
        };
        let complete = match stop_reason {
            StopReason::MaxTokens => Complete::AtLimit,
            _ => Complete::Told,
        };
        self.tell_ended(complete, events)?;
        for Open { kind, .. } in std::mem::take(&mut self.open) {
            match kind {
                Kind::Thinking { signature } if !signature.is_empty() => {
                    events.push(ModelEvent::Signature(signature));
                }
                // Nobody said that the call is over.
                Kind::Tool { call, input } => {
                    let alone = match complete {
                        Complete::AtLimit => Complete::AtLimit,
                        _ => Complete::ByItself,
                    };
                    self.calls += 1;
                    events.extend(with_input(call, input)?.told(alone, self.calls)?);
                }
                Kind::Text | Kind::Thinking { .. } | Kind::Opaque => {}
            }
        }
        let model = std::mem::take(&mut self.model);
        events.push(end((VENDOR, API), model, self.usage.total(), stop_reason));
        Ok(())
    }
}

pub(crate) fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other,
    }
}

/// The call with the arguments its block began with, where no pieces came.
fn with_input(mut call: CallText, input: Value) -> Result<CallText, ModelError> {
    let given = match input {
        Value::Null => return Ok(call),
        Value::Object(fields) if fields.is_empty() => return Ok(call),
        Value::String(text) => text,
        input => input.to_string(),
    };
    call.fill(given)?;
    Ok(call)
}

/// Puts an event of another shape into the wire's.
fn fix(event: &mut Map<String, Value>, name: &str) {
    if !event.get("type").is_some_and(Value::is_string) {
        let kind = if name.is_empty() { kind_of(event) } else { name };
        event.insert("type".to_owned(), kind.into());
    }
    mend::number(event, "index");
    for usage in ["usage", "delta", "message"] {
        mend::object(event, usage);
    }
    mend::texts(event, &["model", "stop_reason"]);
    if let Some(message) = mend::object(event, "message") {
        mend::texts(message, &["model"]);
        mend::object(message, "usage");
    }
    if let Some(delta) = mend::object(event, "delta") {
        mend::arguments(delta, "partial_json");
        mend::texts(delta, &["text", "thinking", "signature", "stop_reason"]);
        let kinds = [
            ("text", "text_delta"),
            ("thinking", "thinking_delta"),
            ("signature", "signature_delta"),
            ("partial_json", "input_json_delta"),
        ];
        name_kind(delta, &kinds, "none");
    }
    if event.get("type").is_some_and(|kind| kind == "message") {
        mend::list(event, "content").for_each(fix_block);
    }
    if let Some(block) = mend::object(event, "content_block") {
        fix_block(block);
    }
    // A start or a piece of nothing: the pieces that follow say what they are.
    let about = [("content_block_start", "content_block"), ("content_block_delta", "delta")];
    if about.iter().any(|(kind, field)| event["type"] == *kind && !event.contains_key(*field)) {
        event.insert("type".to_owned(), "ping".into());
    }
}

fn fix_block(block: &mut Map<String, Value>) {
    mend::texts(block, &["text", "thinking", "signature", "data", "id", "name"]);
    name_kind(block, &[("name", "tool_use"), ("thinking", "thinking"), ("text", "text")], "none");
}

/// Gives an object without a type the one that its fields tell.
fn name_kind(object: &mut Map<String, Value>, kinds: &[(&str, &str)], other: &str) {
    if object.get("type").is_some_and(Value::is_string) {
        return;
    }
    let told = kinds.iter().find(|(field, _)| object.contains_key(*field));
    object.insert("type".to_owned(), told.map_or(other, |(_, kind)| kind).into());
}

/// What an event without a type is, by its fields.
fn kind_of(event: &Map<String, Value>) -> &'static str {
    let kinds = [
        ("error", "error"),
        ("message", "message_start"),
        ("content_block", "content_block_start"),
        ("delta", "content_block_delta"),
        ("content", "message"),
    ];
    let told = kinds.iter().find(|(field, _)| event.contains_key(*field));
    match (told.map(|(_, kind)| *kind), event.get("delta")) {
        (Some("content_block_delta"), Some(delta)) if !delta["stop_reason"].is_null() => {
            "message_delta"
        }
        (Some(kind), _) => kind,
        (None, _) => "",
    }
}

impl WireUsage {
    /// Later counts are totals, not additions; what is absent stays.
    fn take(&mut self, mut newer: WireUsage) {
        for (count, newer) in self.counts().into_iter().zip(newer.counts()) {
            count.0 = newer.0.or(count.0);
        }
    }

    fn counts(&mut self) -> [&mut TokenCount; 4] {
        let Self { input_tokens, output_tokens, cache_read_input_tokens: read, .. } = self;
        [input_tokens, output_tokens, read, &mut self.cache_creation_input_tokens]
    }

    fn total(&mut self) -> Usage {
        let [input, output, read, written] = self.counts().map(|count| count.0.unwrap_or(0));
        Usage::new(input, output, read, written)
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
