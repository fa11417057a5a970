//! The events of an answer into ours.
//!
//! States: before `message_start` → between blocks ⇄ in a block → after `message_delta` →
//! `message_stop`.

use serde::Deserialize;
use serde_json::Value;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{Decode, add_arguments, count, garbage, parse_arguments, push_text};
use crate::failure::{self, Detail};

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    MessageStart {
        message: WireMessage,
    },
    ContentBlockStart {
        index: u64,
        content_block: WireBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: WireDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: WireEnd,
        #[serde(default)]
        usage: WireUsage,
    },
    MessageStop,
    Ping,
    Error {
        error: Value,
    },
    /// The vendor adds kinds over time and asks clients to pass over them.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
struct WireMessage {
    #[serde(default)]
    model: String,
    #[serde(default)]
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
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
struct WireEnd {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
}

/// The block that is being received. The wire sends one at a time.
#[derive(Debug)]
enum Open {
    Text,
    Thinking {
        signature: String,
    },
    Tool {
        id: String,
        name: String,
        arguments: String,
    },
    /// Whole at its start, or of a kind we do not know.
    Opaque,
}

#[derive(Debug, Default)]
pub struct Decoder {
    started: bool,
    open: Option<(u64, Open)>,
    model: String,
    usage: WireUsage,
    stop_reason: Option<String>,
    /// A block was complete, but its arguments were not.
    broken_call: bool,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        data: &str,
        key: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let wire: Wire = serde_json::from_str(data).map_err(|_| garbage("unreadable event"))?;
        match wire {
            Wire::MessageStart { message } if !self.started => {
                self.started = true;
                self.model = message.model;
                self.usage.take(message.usage);
            }
            Wire::Ping | Wire::Unknown => {}
            Wire::Error { error } => return Err(failure::from_event(&Detail::of(&error), key)),
            _ if !self.started => return Err(garbage("no start")),
            Wire::MessageStart { .. } => return Err(garbage("second start")),
            Wire::ContentBlockStart { index, content_block } => {
                self.open(index, content_block, events)?;
            }
            Wire::ContentBlockDelta { index, delta } => self.add(index, delta, events)?,
            Wire::ContentBlockStop { index } => self.close(index, events)?,
            Wire::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.usage.take(usage);
            }
            Wire::MessageStop => events.push(ModelEvent::End(self.end()?)),
        }
        Ok(())
    }
}

impl Decoder {
    fn open(
        &mut self,
        index: u64,
        block: WireBlock,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.open.is_some() {
            return Err(garbage("block inside a block"));
        }
        let open = match block {
            WireBlock::Text { text } => {
                push_text(events, ModelEvent::Text, text);
                Open::Text
            }
            WireBlock::Thinking { thinking, signature } => {
                push_text(events, ModelEvent::Thinking, thinking);
                Open::Thinking { signature }
            }
            WireBlock::RedactedThinking { data } => {
                events.push(ModelEvent::RedactedThinking(data));
                Open::Opaque
            }
            WireBlock::ToolUse { id, name } => {
                if name.is_empty() {
                    return Err(garbage("call of no tool"));
                }
                Open::Tool { id, name, arguments: String::new() }
            }
            WireBlock::Unknown => Open::Opaque,
        };
        self.open = Some((index, open));
        Ok(())
    }

    fn add(
        &mut self,
        index: u64,
        delta: WireDelta,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some((_, open)) = self.open.as_mut().filter(|(open, _)| *open == index) else {
            return Err(garbage("piece of no block"));
        };
        match (open, delta) {
            (Open::Text, WireDelta::TextDelta { text }) => {
                push_text(events, ModelEvent::Text, text);
            }
            (Open::Thinking { .. }, WireDelta::ThinkingDelta { thinking }) => {
                push_text(events, ModelEvent::Thinking, thinking);
            }
            (Open::Thinking { signature }, WireDelta::SignatureDelta { signature: piece }) => {
                signature.push_str(&piece);
            }
            (Open::Tool { arguments, .. }, WireDelta::InputJsonDelta { partial_json }) => {
                add_arguments(arguments, &partial_json)?;
            }
            (Open::Opaque, _) | (_, WireDelta::Unknown) => {}
            _ => return Err(garbage("piece of another kind of block")),
        }
        Ok(())
    }

    fn close(&mut self, index: u64, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.open.take() {
            Some((open, block)) if open == index => match block {
                Open::Thinking { signature } if !signature.is_empty() => {
                    events.push(ModelEvent::Signature(signature));
                }
                Open::Tool { id, name, arguments } => match parse_arguments(&arguments) {
                    Some(arguments) => {
                        events.push(ModelEvent::ToolCall { id: CallId::new(id), name, arguments })
                    }
                    None => self.broken_call = true,
                },
                Open::Text | Open::Thinking { .. } | Open::Opaque => {}
            },
            _ => return Err(garbage("end of no block")),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Meta, ModelError> {
        if self.open.is_some() {
            return Err(garbage("end inside a block"));
        }
        let stop_reason = match self.stop_reason.as_deref() {
            Some("end_turn") => StopReason::EndTurn,
            Some("tool_use") => StopReason::ToolUse,
            Some("max_tokens") => StopReason::MaxTokens,
            Some("stop_sequence") => StopReason::StopSequence,
            Some("refusal") => StopReason::Refusal,
            Some(_) => StopReason::Other,
            None => return Err(garbage("end without a reason")),
        };
        // At the output limit the vendor closes a half-written call; asking again would end at the
        // same place. Anywhere else half a call is a fault.
        if self.broken_call && stop_reason != StopReason::MaxTokens {
            return Err(garbage("arguments that are no JSON object"));
        }
        Ok(Meta {
            profile: None,
            provider: VENDOR.to_owned(),
            model: std::mem::take(&mut self.model),
            api: API.to_owned(),
            usage: self.usage.total(),
            stop_reason,
        })
    }
}

impl WireUsage {
    /// Later counts are totals, not additions; what is absent stays.
    fn take(&mut self, newer: WireUsage) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
    }

    fn total(&self) -> Usage {
        Usage::new(
            self.input_tokens.unwrap_or(0),
            self.output_tokens.unwrap_or(0),
            self.cache_read_input_tokens.unwrap_or(0),
            self.cache_creation_input_tokens.unwrap_or(0),
        )
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
