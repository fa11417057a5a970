//! The chunks of an answer into ours.
//!
//! States: chunks → a chunk with `finish_reason` → perhaps a chunk with the usage → `[DONE]`. Calls
//! grow piece by piece and are told at the end, when nothing can be added to them any more.

use serde::Deserialize;
use serde_json::Value;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{
    CacheDetails, Decode, add_arguments, count, garbage, parse_arguments, push_text,
};
use crate::failure::{self, Detail};

const DONE: &str = "[DONE]";

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    model: String,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Value,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Piece,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Piece {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    /// Not of OpenAI: compatible servers show thinking under one of these two names.
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: FunctionPiece,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<CacheDetails>,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Debug, Default)]
pub struct Decoder {
    model: String,
    calls: Vec<Call>,
    usage: Usage,
    finish_reason: Option<String>,
    refused: bool,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        data: &str,
        key: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if data == DONE {
            return self.end(events);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| garbage("unreadable event"))?;
        if !chunk.error.is_null() {
            return Err(failure::from_event(&Detail::of(&chunk.error), key));
        }
        if !chunk.model.is_empty() {
            self.model = chunk.model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.total();
        }
        // More than one answer was not asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.add(choice.delta, events)?;
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        Ok(())
    }
}

impl Decoder {
    fn add(&mut self, piece: Piece, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let shown = piece.reasoning.as_str().map(str::to_owned);
        if let Some(thinking) = piece.reasoning_content.or(shown) {
            push_text(events, ModelEvent::Thinking, thinking);
        }
        if let Some(text) = piece.content {
            push_text(events, ModelEvent::Text, text);
        }
        if let Some(refusal) = piece.refusal {
            self.refused |= !refusal.is_empty();
            push_text(events, ModelEvent::Text, refusal);
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.add_call(call)?;
        }
        Ok(())
    }

    fn add_call(&mut self, piece: CallPiece) -> Result<(), ModelError> {
        let id = piece.id.unwrap_or_default();
        let known = match piece.index {
            Some(index) => self.calls.iter_mut().rfind(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.last_mut(),
            None => None,
        };
        // Some servers give every call the same index; a new id is a new call all the same.
        let known = known.filter(|call| id.is_empty() || call.id == id);
        let arguments = piece.function.arguments.unwrap_or_default();
        if let Some(call) = known {
            return add_arguments(&mut call.arguments, &arguments);
        }
        let name = piece.function.name.unwrap_or_default();
        if id.is_empty() || name.is_empty() {
            return Err(garbage("piece of no call"));
        }
        let mut call = Call { index: piece.index, id, name, arguments: String::new() };
        add_arguments(&mut call.arguments, &arguments)?;
        self.calls.push(call);
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let calls = std::mem::take(&mut self.calls);
        let stop_reason = match self.finish_reason.as_deref() {
            // Some servers end an answer with calls as if it had none.
            Some("stop") if !calls.is_empty() => StopReason::ToolUse,
            Some("stop") if self.refused => StopReason::Refusal,
            Some("stop") => StopReason::EndTurn,
            Some("tool_calls" | "function_call") => StopReason::ToolUse,
            Some("length") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(_) => StopReason::Other,
            None => return Err(garbage("end without a reason")),
        };
        let mut told = Vec::with_capacity(calls.len());
        for Call { id, name, arguments, .. } in calls {
            match parse_arguments(&arguments) {
                Some(arguments) => {
                    told.push(ModelEvent::ToolCall { id: CallId::new(id), name, arguments });
                }
                // At the output limit the last call is half-written; asking again would end at
                // the same place. Anywhere else half a call is a fault.
                None if stop_reason == StopReason::MaxTokens => {}
                None => return Err(garbage("arguments that are no JSON object")),
            }
        }
        events.extend(told);
        events.push(ModelEvent::End(Meta {
            profile: None,
            provider: VENDOR.to_owned(),
            model: std::mem::take(&mut self.model),
            api: API.to_owned(),
            usage: self.usage,
            stop_reason,
        }));
        Ok(())
    }
}

impl WireUsage {
    fn total(self) -> Usage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        details.usage(self.prompt_tokens, self.completion_tokens)
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
