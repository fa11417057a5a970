//! The chunks of an answer into ours.
//!
//! States: chunks → a chunk with `finish_reason` → perhaps a chunk with the usage → `[DONE]`. Calls
//! grow piece by piece and are told at the end, when nothing can be added to them any more. The
//! servers of this wire are many: the table in
//! `skep-testkit/deviations` lists what they do, and what it means.

use serde::Deserialize;
use serde_json::{Map, Value};
use skep_core::engine::RetryCode;
use skep_core::message::{StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{
    CacheDetails, CallText, Complete, Decode, Last, TokenCount, cut, end, garbage, parse_arguments,
    push_text,
};
use crate::failure::{self, Detail, VendorFailure};
use crate::mend;
use crate::sse::SseEvent;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    model: String,
    choices: Vec<Choice>,
    usage: Option<WireUsage>,
    error: Value,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: Option<i64>,
    delta: Option<Piece>,
    /// The whole answer: in place of a stream, or said again at its end.
    message: Option<Piece>,
    finish_reason: Option<String>,
    /// Of Moonshot.
    usage: Option<WireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Piece {
    content: Option<String>,
    refusal: Option<String>,
    /// Not of OpenAI: compatible servers show thinking under one of these three names.
    reasoning_content: Option<String>,
    reasoning: Value,
    reasoning_details: Value,
    tool_calls: Option<Vec<CallPiece>>,
    /// The name of calls before there could be several.
    function_call: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    index: Option<i64>,
    id: Option<String>,
    #[serde(default)]
    function: FunctionPiece,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: TokenCount,
    completion_tokens: TokenCount,
    prompt_tokens_details: Option<CacheDetails>,
}

#[derive(Debug)]
struct Call {
    index: Option<i64>,
    text: CallText,
}

#[derive(Debug, Default)]
pub struct Decoder {
    model: String,
    calls: Vec<Call>,
    usage: Usage,
    finish_reason: Option<String>,
    refused: bool,
    /// A piece of the answer came.
    said: bool,
    /// The answer came in one piece.
    whole: bool,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        event: &SseEvent,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), VendorFailure> {
        let chunk: Chunk = mend::read(&event.data, "unreadable event", fix)?;
        if failure::is_told(&chunk.error) {
            return Err(failure::from_event(Detail::of(&chunk.error)));
        }
        if !chunk.model.is_empty() {
            self.model = chunk.model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.total();
        }
        // More than one answer was not asked for. Without numbers the first is the first.
        for (place, choice) in (0..).zip(chunk.choices) {
            if choice.index.unwrap_or(place) == 0 {
                self.take(choice, events)?;
            }
        }
        Ok(())
    }

    fn is_told_over(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn close(&mut self, last: Last, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let told = self.whole || self.finish_reason.is_some();
        if !told && (last == Last::Byte || !self.said) {
            return Err(cut());
        }
        let stop_reason = self.stop_reason()?;
        let complete = match stop_reason {
            StopReason::MaxTokens => Complete::AtLimit,
            _ if told => Complete::Told,
            _ => Complete::ByItself,
        };
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        let calls = calls.map(|(index, call)| call.text.told(complete, index + 1));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        events.extend(calls.into_iter().flatten());
        let model = std::mem::take(&mut self.model);
        events.push(end((VENDOR, API), model, self.usage, stop_reason));
        Ok(())
    }
}

impl Decoder {
    fn take(&mut self, choice: Choice, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(usage) = choice.usage {
            self.usage = usage.total();
        }
        match (choice.delta, choice.message) {
            (Some(piece), _) => self.add(piece, events)?,
            (None, Some(_)) if self.whole => return Err(garbage("two whole answers")),
            (None, Some(piece)) => {
                // After pieces it only says them again.
                if !self.said {
                    self.add(piece, events)?;
                }
                self.whole = true;
            }
            (None, None) => {}
        }
        let reason = choice.finish_reason.filter(|reason| !matches!(reason.as_str(), "" | "null"));
        self.finish_reason = reason.or(self.finish_reason.take());
        Ok(())
    }

    fn add(&mut self, piece: Piece, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let before = events.len();
        let shown = piece.reasoning.as_str().map(str::to_owned);
        let detailed = || reasoning_text(&piece.reasoning_details);
        if let Some(thinking) = piece.reasoning_content.or(shown).or_else(detailed) {
            push_text(events, ModelEvent::Thinking, thinking);
        }
        if let Some(text) = piece.content {
            push_text(events, ModelEvent::Text, text);
        }
        if let Some(refusal) = piece.refusal {
            self.refused |= !refusal.is_empty();
            push_text(events, ModelEvent::Text, refusal);
        }
        let calls = piece.tool_calls.unwrap_or_default();
        let several = calls.len() > 1;
        for (place, mut call) in (0..).zip(calls) {
            // Those in one list are different ones.
            call.index = call.index.or(several.then_some(place));
            self.add_call(call)?;
        }
        if let Some(function) = piece.function_call {
            self.add_call(CallPiece { index: Some(0), id: None, function })?;
        }
        self.said |= events.len() > before || !self.calls.is_empty();
        Ok(())
    }

    fn add_call(&mut self, piece: CallPiece) -> Result<(), ModelError> {
        let id = piece.id.unwrap_or_default();
        let name = piece.function.name.unwrap_or_default();
        let arguments = piece.function.arguments.unwrap_or_default();
        let same = |call: &&mut Call| match piece.index {
            Some(index) => call.index == Some(index),
            None => id.is_empty() || call.text.id.is_empty() || call.text.id == id,
        };
        let known = self.calls.iter_mut().rfind(same).map(|call| &mut call.text);
        match known.filter(|call| continues(call, &id, &name, &arguments)) {
            Some(call) if is_repeated(call, &name, &arguments) => Ok(()),
            Some(call) => grow(call, id, &name, &arguments),
            None => {
                let mut text = CallText { id, name, arguments: String::new() };
                text.add(&arguments)?;
                self.calls.push(Call { index: piece.index, text });
                Ok(())
            }
        }
    }

    fn stop_reason(&self) -> Result<StopReason, ModelError> {
        let calls = !self.calls.is_empty();
        let Some(reason) = &self.finish_reason else {
            return Ok(if calls { StopReason::ToolUse } else { StopReason::EndTurn });
        };
        Ok(match reason.to_ascii_lowercase().as_str() {
            // Some servers end an answer with calls as if it had none.
            "stop" | "end_turn" | "eos" | "stop_sequence" if calls => StopReason::ToolUse,
            "stop" if self.refused => StopReason::Refusal,
            "stop" | "end_turn" | "eos" => StopReason::EndTurn,
            "stop_sequence" => StopReason::StopSequence,
            "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
            "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
            "content_filter" | "safety" | "sensitive" | "recitation" => StopReason::Refusal,
            // What the server itself broke off is not an answer.
            "error" | "abort" | "network_error" | "insufficient_system_resource" => {
                return Err(failure::passing(
                    RetryCode::Cut,
                    "the model vendor broke off its answer",
                ));
            }
            _ => StopReason::Other,
        })
    }
}

/// Whether a piece belongs to this call. Some servers give every call the same index, some leave
/// the ids out, and some make up a new id for every piece.
fn continues(call: &CallText, id: &str, name: &str, arguments: &str) -> bool {
    if id == call.id && !id.is_empty() {
        return true;
    }
    if !id.is_empty() && !call.id.is_empty() {
        return name.is_empty() && !is_whole(call);
    }
    let other = call.name != name || call.arguments != arguments;
    let begins = !id.is_empty() || (!arguments.is_empty() && other);
    !begins || name.is_empty() || call.name.is_empty() || !is_whole(call)
}

/// Whether nothing can be added to the arguments any more.
fn is_whole(call: &CallText) -> bool {
    !call.is_blank() && parse_arguments(&call.arguments).is_some()
}

/// Whether the piece only says the call again.
fn is_repeated(call: &CallText, name: &str, arguments: &str) -> bool {
    call.arguments == arguments && (name.is_empty() || call.name == name) && is_whole(call)
}

/// Ids and names may come late, in pieces, or with every piece.
fn grow(call: &mut CallText, id: String, name: &str, arguments: &str) -> Result<(), ModelError> {
    if call.id.is_empty() {
        call.id = id;
    }
    if name.starts_with(&call.name) {
        name.clone_into(&mut call.name);
    } else if call.is_blank() {
        call.name.push_str(name);
    }
    call.add(arguments)
}

/// Of OpenRouter: `[{"type": "reasoning.text", "text": …}]`, or a summary.
fn reasoning_text(details: &Value) -> Option<String> {
    let text = |detail: &Value| {
        ["text", "summary"].iter().find_map(|name| detail[*name].as_str()).map(str::to_owned)
    };
    details.as_array().map(|details| details.iter().filter_map(text).collect())
}

/// Puts a chunk of another shape into the wire's.
fn fix(chunk: &mut Map<String, Value>) {
    mend::texts(chunk, &["model"]);
    mend::object(chunk, "usage").map(fix_usage);
    for choice in mend::list(chunk, "choices") {
        mend::number(choice, "index");
        mend::texts(choice, &["finish_reason"]);
        mend::object(choice, "usage").map(fix_usage);
        for name in ["delta", "message"] {
            mend::object(choice, name).map(fix_piece);
        }
    }
}

fn fix_usage(usage: &mut Map<String, Value>) {
    mend::object(usage, "prompt_tokens_details");
}

fn fix_piece(piece: &mut Map<String, Value>) {
    match piece.remove("content") {
        Some(Value::String(text)) => drop(piece.insert("content".to_owned(), text.into())),
        Some(parts) => fix_parts(piece, &parts),
        None => {}
    }
    mend::texts(piece, &["refusal", "reasoning_content"]);
    for call in mend::list(piece, "tool_calls") {
        mend::number(call, "index");
        mend::texts(call, &["id"]);
        mend::object(call, "function").map(fix_function);
    }
    mend::object(piece, "function_call").map(fix_function);
}

fn fix_function(function: &mut Map<String, Value>) {
    mend::texts(function, &["name"]);
    mend::arguments(function, "arguments");
}

/// Content as parts: text, refusals, and what Mistral calls thinking, which has parts of its own.
fn fix_parts(piece: &mut Map<String, Value>, content: &Value) {
    let mut add = |name: &str, text: &str| {
        let old = piece.get(name).and_then(Value::as_str).unwrap_or_default();
        let text = format!("{old}{text}");
        piece.insert(name.to_owned(), Value::String(text));
    };
    for part in parts_of(content) {
        match part {
            Value::String(text) => add("content", text),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("text", Value::String(text)) => add("content", text),
                        ("refusal", Value::String(text)) => add("refusal", text),
                        ("thinking", Value::String(text)) => add("reasoning_content", text),
                        ("thinking", thoughts) => {
                            let texts = parts_of(thoughts).iter();
                            texts
                                .filter_map(|part| part["text"].as_str())
                                .for_each(|text| add("reasoning_content", text));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn parts_of(content: &Value) -> &[Value] {
    match content {
        Value::Array(parts) => parts,
        one => std::slice::from_ref(one),
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
