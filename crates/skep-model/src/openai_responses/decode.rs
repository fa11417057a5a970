//! The events of an answer into ours.
//!
//! States: before `response.created` → items, each added, filled and done, → `response.completed`,
//! `response.incomplete` or `response.failed`. An item is told as its pieces come; calls and the
//! proof of thinking when it is done.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{
    CacheDetails, Decode, add_arguments, count, garbage, parse_arguments, push_text,
};
use crate::failure::{self, Detail};

/// Between two parts of a summary, which are paragraphs of their own.
const PART_BREAK: &str = "\n\n";

/// Every event, told apart by `kind`; a field is there for the kinds that have it.
#[derive(Debug, Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    summary_index: u64,
    #[serde(default)]
    delta: Value,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(default)]
    response: Option<WireResponse>,
}

#[derive(Debug, Deserialize)]
struct WireResponse {
    #[serde(default)]
    model: String,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    incomplete_details: Option<WireIncomplete>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Debug, Deserialize)]
struct WireIncomplete {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(default)]
    input_tokens_details: Option<CacheDetails>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireItem {
    Message {
        #[serde(default)]
        content: Vec<Value>,
    },
    Reasoning {
        #[serde(default)]
        summary: Vec<Value>,
        #[serde(default)]
        encrypted_content: Option<String>,
    },
    FunctionCall {
        #[serde(default)]
        call_id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        arguments: String,
        #[serde(default)]
        status: Option<String>,
    },
    /// The vendor's own tools, which we never ask for, and kinds to come.
    #[serde(other)]
    Unknown,
}

/// An item that is being received.
#[derive(Debug, Default)]
struct Open {
    /// Something of it was told piece by piece.
    told: bool,
    /// Which part of a summary the last piece belonged to.
    part: u64,
    arguments: String,
}

#[derive(Debug, Default)]
pub struct Decoder {
    started: bool,
    open: HashMap<u64, Open>,
    called: bool,
    refused: bool,
    /// A call was done, but its arguments were not.
    broken_call: bool,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        data: &str,
        key: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let wire: Wire<'_> = serde_json::from_str(data).map_err(|_| garbage("unreadable event"))?;
        let kind = wire.kind.strip_prefix("response.").unwrap_or(&wire.kind);
        match kind {
            "created" if self.started => return Err(garbage("second start")),
            "created" => self.started = true,
            "error" => return Err(self.failed(data, key)),
            "failed" => {
                let error = wire.response.map(|response| response.error).unwrap_or_default();
                return Err(failure::from_event(&Detail::of(&error), key));
            }
            "output_item.added" | "output_item.done" | "completed" | "incomplete"
                if !self.started =>
            {
                return Err(garbage("no start"));
            }
            "output_item.added" => {
                if self.open.insert(wire.output_index, Open::default()).is_some() {
                    return Err(garbage("item inside an item"));
                }
            }
            "output_item.done" => self.close(wire.output_index, wire.item, events)?,
            "completed" | "incomplete" => {
                let response = wire.response.ok_or_else(|| garbage("end without an answer"))?;
                events.push(ModelEvent::End(self.end(kind, response)?));
            }
            _ => self.add(kind, &wire, events)?,
        }
        Ok(())
    }
}

impl Decoder {
    /// A piece of an item. Kinds that are not known are passed over, as the vendor asks.
    fn add(
        &mut self,
        kind: &str,
        wire: &Wire<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let known = matches!(
            kind,
            "output_text.delta"
                | "refusal.delta"
                | "reasoning_summary_text.delta"
                | "reasoning_text.delta"
                | "function_call_arguments.delta"
        );
        if !known {
            return Ok(());
        }
        let Some(open) = self.open.get_mut(&wire.output_index) else {
            return Err(garbage("piece of no item"));
        };
        let piece = wire.delta.as_str().ok_or_else(|| garbage("piece without text"))?.to_owned();
        match kind {
            "function_call_arguments.delta" => add_arguments(&mut open.arguments, &piece)?,
            "output_text.delta" | "refusal.delta" => {
                self.refused |= kind == "refusal.delta";
                open.told |= !piece.is_empty();
                push_text(events, ModelEvent::Text, piece);
            }
            _ => {
                if std::mem::replace(&mut open.part, wire.summary_index) != wire.summary_index {
                    push_text(events, ModelEvent::Thinking, PART_BREAK.to_owned());
                }
                open.told |= !piece.is_empty();
                push_text(events, ModelEvent::Thinking, piece);
            }
        }
        Ok(())
    }

    fn close(
        &mut self,
        index: u64,
        raw: Option<&RawValue>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let open = self.open.remove(&index).ok_or_else(|| garbage("end of no item"))?;
        let raw = raw.ok_or_else(|| garbage("end without an item"))?;
        let item = serde_json::from_str(raw.get()).map_err(|_| garbage("unreadable item"))?;
        match item {
            WireItem::Message { content } if !open.told => {
                let text = |part: &Value| part["text"].as_str().map(str::to_owned);
                let text: String = content.iter().filter_map(text).collect();
                push_text(events, ModelEvent::Text, text);
            }
            WireItem::Reasoning { summary, encrypted_content } => {
                let text = |part: &Value| part["text"].as_str().map(str::to_owned);
                let shown: Vec<String> = summary.iter().filter_map(text).collect();
                if !open.told {
                    push_text(events, ModelEvent::Thinking, shown.join(PART_BREAK));
                }
                // Without it the vendor could not read the item again: nothing is kept there.
                if encrypted_content.is_some_and(|content| !content.is_empty()) {
                    let shown = open.told || shown.iter().any(|text| !text.is_empty());
                    let kind =
                        if shown { ModelEvent::Signature } else { ModelEvent::RedactedThinking };
                    events.push(kind(raw.get().to_owned()));
                }
            }
            WireItem::FunctionCall { call_id, name, arguments, status } => {
                let whole = status.as_deref() != Some("incomplete");
                self.close_call(&open, (call_id, name, arguments), whole, events)?;
            }
            WireItem::Message { .. } | WireItem::Unknown => {}
        }
        Ok(())
    }

    fn close_call(
        &mut self,
        open: &Open,
        (id, name, arguments): (String, String, String),
        whole: bool,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if id.is_empty() || name.is_empty() {
            return Err(garbage("call of no tool"));
        }
        if !open.arguments.is_empty() && open.arguments != arguments {
            return Err(garbage("arguments that are not the sum of their pieces"));
        }
        self.called = true;
        match parse_arguments(&arguments) {
            Some(arguments) if whole => {
                events.push(ModelEvent::ToolCall { id: CallId::new(id), name, arguments });
            }
            _ => self.broken_call = true,
        }
        Ok(())
    }

    fn end(&self, kind: &str, response: WireResponse) -> Result<Meta, ModelError> {
        let details = response.incomplete_details.and_then(|details| details.reason);
        let stop_reason = match (kind, details.as_deref()) {
            ("incomplete", Some("max_output_tokens")) => StopReason::MaxTokens,
            ("incomplete", Some("content_filter")) => StopReason::Refusal,
            ("incomplete", _) => StopReason::Other,
            _ if self.called => StopReason::ToolUse,
            _ if self.refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        // At a limit the vendor stops in the middle; asking again would end at the same place.
        // Anywhere else what is open or half is a fault.
        if kind == "completed" && !self.open.is_empty() {
            return Err(garbage("end inside an item"));
        }
        if kind == "completed" && self.broken_call {
            return Err(garbage("arguments that are no JSON object"));
        }
        Ok(Meta {
            profile: None,
            provider: VENDOR.to_owned(),
            model: response.model,
            api: API.to_owned(),
            usage: response.usage.unwrap_or_default().total(),
            stop_reason,
        })
    }

    /// The event holds the error's fields itself, or under `error`.
    fn failed(&self, data: &str, key: &str) -> ModelError {
        let mut event: Value = serde_json::from_str(data).unwrap_or_default();
        if event["error"].is_object() {
            return failure::from_event(&Detail::of(&event["error"]), key);
        }
        if let Some(fields) = event.as_object_mut() {
            // Here the type is only the word `error`.
            fields.remove("type");
        }
        failure::from_event(&Detail::of(&event), key)
    }
}

impl WireUsage {
    fn total(self) -> Usage {
        let details = self.input_tokens_details.unwrap_or_default();
        details.usage(self.input_tokens, self.output_tokens)
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
