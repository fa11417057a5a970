//! The events of an answer into ours.
//!
//! States: before `response.created` → items, each added, filled and done, → `response.completed`,
//! `response.incomplete` or `response.failed`. An item is told as its pieces come; calls and the
//! proof of thinking when it is done. What compatible servers leave out or add is in
//! the table in `skep-testkit/deviations`, with what it means.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use skep_core::message::{StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use super::{API, VENDOR};
use crate::answer::{
    CacheDetails, CallText, Complete, Decode, Last, TokenCount, cut, end, garbage, push_text,
};
use crate::failure::{self, Detail, VendorFailure};
use crate::mend;
use crate::sse::SseEvent;

/// Between two parts of a summary, which are paragraphs of their own.
const PART_BREAK: &str = "\n\n";

/// Every event, told apart by `kind`; a field is there for the kinds that have it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(rename = "type")]
    kind: String,
    output_index: Option<u64>,
    item_id: Option<String>,
    summary_index: u64,
    delta: Value,
    arguments: Value,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<WireResponse<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResponse<'a> {
    model: String,
    status: String,
    error: Value,
    incomplete_details: Option<WireIncomplete>,
    usage: Option<WireUsage>,
    /// Every item once more.
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct WireIncomplete {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: TokenCount,
    output_tokens: TokenCount,
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
        content: Vec<Value>,
        encrypted_content: Option<String>,
    },
    FunctionCall {
        #[serde(default)]
        id: String,
        #[serde(default)]
        call_id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        arguments: String,
        status: Option<String>,
    },
    /// The vendor's own tools, which we never ask for, and kinds to come.
    #[serde(other)]
    Unknown,
}

/// An item that is being received.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: String,
    /// Something of it was told piece by piece.
    told: bool,
    /// Which part of a summary the last piece belonged to.
    part: u64,
    /// What is known of a call before its item is done.
    call: CallText,
    /// The arguments were said to be all.
    whole: bool,
}

#[derive(Debug, Default)]
pub struct Decoder {
    started: bool,
    open: Vec<Open>,
    /// Something was told.
    said: bool,
    calls: usize,
    refused: bool,
    /// A call that its server marked as cut off, or could not end.
    broken_call: bool,
}

impl Decode for Decoder {
    fn read(
        &mut self,
        event: &SseEvent,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), VendorFailure> {
        let mended;
        let strict = serde_json::from_str(&event.data).ok();
        let wire: Wire<'_> = match strict.filter(|wire: &Wire<'_>| !wire.kind.is_empty()) {
            Some(wire) => wire,
            None => {
                mended = mend::mended(&event.data, |fields| fix(fields, &event.name));
                let mended = mended.as_deref().ok_or_else(|| garbage("unreadable event"))?;
                serde_json::from_str(mended).map_err(|_| garbage("unreadable event"))?
            }
        };
        let kind = wire.kind.strip_prefix("response.").unwrap_or(&wire.kind);
        match kind {
            "created" if self.started => return Err(garbage("second start").into()),
            "created" => self.started = true,
            "error" => return Err(self.failed(&event.data)),
            "failed" | "cancelled" => {
                let error = wire.response.map(|response| response.error).unwrap_or_default();
                return Err(failure::from_event(Detail::of(&error)));
            }
            "output_item.added" => self.begin(&wire)?,
            "output_item.done" => {
                let at = self.find(&wire);
                let open = at.map(|at| self.open.remove(at)).unwrap_or_default();
                self.close_item(open, wire.item, events)?;
            }
            "function_call_arguments.done" => self.end_arguments(&wire)?,
            "completed" | "incomplete" | "done" => {
                let response = wire.response.unwrap_or_default();
                if matches!(response.status.as_str(), "failed" | "cancelled") {
                    return Err(failure::from_event(Detail::of(&response.error)));
                }
                self.end(kind, response, events)?;
            }
            _ => self.add(kind, &wire, events)?,
        }
        Ok(())
    }

    /// On this wire the event that tells it is the last one.
    fn is_told_over(&self) -> bool {
        false
    }

    fn close(&mut self, last: Last, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match last {
            Last::Byte => Err(cut()),
            Last::Word if !self.open.is_empty() => Err(cut()),
            Last::Word => self.end("completed", WireResponse::default(), events),
        }
    }
}

impl Decoder {
    fn begin(&mut self, wire: &Wire<'_>) -> Result<(), ModelError> {
        let index = wire.output_index;
        if index.is_some() && self.open.iter().any(|open| open.index == index) {
            return Err(garbage("item inside an item"));
        }
        let mut open = Open { index, id: id_of(wire), ..Open::default() };
        match wire.item.map(read_item) {
            Some(Ok(WireItem::FunctionCall { id, call_id, name, .. })) => {
                open.call.id = if call_id.is_empty() { id } else { call_id };
                open.call.name = name;
            }
            Some(Ok(_)) | None => {}
            Some(Err(error)) => return Err(error),
        }
        self.open.push(open);
        Ok(())
    }

    /// The item that an event is about: by number, by id, or the last.
    fn find(&self, wire: &Wire<'_>) -> Option<usize> {
        if wire.output_index.is_some() {
            return self.open.iter().position(|open| open.index == wire.output_index);
        }
        let id = id_of(wire);
        let by_id = self.open.iter().position(|open| !id.is_empty() && open.id == id);
        by_id.or_else(|| self.open.len().checked_sub(1))
    }

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
        let piece = match &wire.delta {
            Value::String(piece) => piece.clone(),
            Value::Null => return Ok(()),
            other => match &other["text"] {
                Value::String(piece) => piece.clone(),
                _ => return Err(garbage("piece without text")),
            },
        };
        let at = self.find(wire).unwrap_or_else(|| {
            // Nobody announced it; what it is, the event says.
            let (index, id) = (wire.output_index, id_of(wire));
            self.open.push(Open { index, id, ..Open::default() });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        match kind {
            "function_call_arguments.delta" => return open.call.add(&piece),
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
        self.said |= open.told;
        Ok(())
    }

    /// All arguments once more.
    fn end_arguments(&mut self, wire: &Wire<'_>) -> Result<(), ModelError> {
        let Some(at) = self.find(wire) else { return Ok(()) };
        let open = &mut self.open[at];
        open.whole = true;
        open.call.fill(argument_text(&wire.arguments))
    }

    fn close_item(
        &mut self,
        open: Open,
        raw: Option<&RawValue>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(raw) = raw else { return self.close_unseen(open, events) };
        let before = events.len();
        match read_item(raw)? {
            WireItem::Message { content } if !open.told => {
                push_text(events, ModelEvent::Text, texts(&content).concat());
            }
            WireItem::Reasoning { summary, content, encrypted_content } => {
                let mut shown = texts(&summary);
                if shown.is_empty() {
                    shown = texts(&content);
                }
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
            WireItem::FunctionCall { id, call_id, name, arguments, status } => {
                let mut call = open.call;
                call.fill(arguments)?;
                let or = |told: String, known: String| if told.is_empty() { known } else { told };
                call.id = or(call_id, or(call.id, id));
                call.name = or(name, call.name);
                let cut = status.as_deref() == Some("incomplete");
                self.tell(call, if cut { Complete::AtLimit } else { Complete::Told }, events)?;
            }
            WireItem::Message { .. } | WireItem::Unknown => {}
        }
        self.said |= events.len() > before;
        Ok(())
    }

    /// An item that ends without being shown: what its pieces said is all there is.
    fn close_unseen(&mut self, open: Open, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match open.call.name.is_empty() && open.call.is_blank() {
            true => Ok(()),
            false => self.tell(open.call, Complete::Told, events),
        }
    }

    fn tell(
        &mut self,
        call: CallText,
        complete: Complete,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.calls += 1;
        // What was cut off is left out even when it parses.
        self.broken_call |= complete == Complete::AtLimit;
        if complete != Complete::AtLimit || call.name.is_empty() {
            events.extend(call.told(complete, self.calls)?);
        }
        Ok(())
    }

    fn end(
        &mut self,
        kind: &str,
        response: WireResponse<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let limit = kind == "incomplete" || response.status == "incomplete";
        // At a limit the vendor stops in the middle; asking again would end at the same place.
        // Anywhere else what is open or half is a fault, unless the end shows it whole.
        if limit {
            self.open.clear();
        }
        self.fill(response.output, events)?;
        if !limit && (!self.said && self.calls == 0 || self.broken_call) {
            return Err(garbage("end without an answer"));
        }
        let details = response.incomplete_details.and_then(|details| details.reason);
        let stop_reason = match (limit, details.as_deref()) {
            (true, Some("max_output_tokens")) => StopReason::MaxTokens,
            (true, Some("content_filter")) => StopReason::Refusal,
            (true, _) => StopReason::Other,
            _ if self.calls > 0 => StopReason::ToolUse,
            _ if self.refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        let usage = response.usage.unwrap_or_default().total();
        events.push(end((VENDOR, API), response.model, usage, stop_reason));
        Ok(())
    }

    /// Ends what is still open, by the list of all items where there is one. It is the answer
    /// itself where nothing else was said.
    fn fill(
        &mut self,
        output: Option<&RawValue>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let output =
            output.and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
        let output = output.unwrap_or_default();
        if !self.said && self.calls == 0 && self.open.is_empty() {
            for item in output {
                self.close_item(Open::default(), Some(item), events)?;
            }
            return Ok(());
        }
        for open in std::mem::take(&mut self.open) {
            let shown = open.index.and_then(|index| output.get(usize::try_from(index).ok()?));
            let is_call = !(open.call.name.is_empty() && open.call.is_blank());
            match shown {
                Some(item) => self.close_item(open, Some(item), events)?,
                None if is_call => {
                    let told = if open.whole { Complete::Told } else { Complete::ByItself };
                    self.tell(open.call, told, events)?;
                }
                None if open.told => {}
                None => return Err(garbage("end inside an item")),
            }
        }
        Ok(())
    }

    /// The event holds the error's fields itself, or under `error`.
    fn failed(&self, data: &str) -> VendorFailure {
        let mut event: Value = serde_json::from_str(data).unwrap_or_default();
        if event["error"].is_object() {
            return failure::from_event(Detail::of(&event["error"]));
        }
        if let Some(fields) = event.as_object_mut() {
            // Here the type is only the word `error`.
            fields.remove("type");
        }
        failure::from_event(Detail::of(&event))
    }
}

/// The id of the item that an event is about; empty where it is not told.
fn id_of(wire: &Wire<'_>) -> String {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        id: String,
    }
    let named = || serde_json::from_str(wire.item?.get()).ok().map(|Named { id }| id);
    wire.item_id.clone().or_else(named).unwrap_or_default()
}

fn read_item(raw: &RawValue) -> Result<WireItem, ModelError> {
    mend::read(raw.get(), "unreadable item", fix_item)
}

fn texts(parts: &[Value]) -> Vec<String> {
    let text = |part: &Value| match part {
        Value::String(text) => Some(text.clone()),
        part => part["text"].as_str().or(part["refusal"].as_str()).map(str::to_owned),
    };
    parts.iter().filter_map(text).collect()
}

fn argument_text(arguments: &Value) -> String {
    match arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        arguments => arguments.to_string(),
    }
}

/// Puts an event of another shape into the wire's.
fn fix(event: &mut Map<String, Value>, name: &str) {
    if !event.get("type").is_some_and(Value::is_string) {
        if event.get("error").is_some_and(failure::is_told) {
            event.insert("type".to_owned(), "error".into());
        } else if !name.is_empty() {
            event.insert("type".to_owned(), name.into());
        } else if event.contains_key("output") {
            // The whole answer in place of a stream.
            let response = Value::Object(std::mem::take(event));
            event.insert("type".to_owned(), "response.completed".into());
            event.insert("response".to_owned(), response);
        }
    }
    for name in ["output_index", "summary_index"] {
        mend::number(event, name);
    }
    mend::texts(event, &["item_id"]);
    if let Some(response) = mend::object(event, "response") {
        mend::texts(response, &["model", "status"]);
        mend::object(response, "incomplete_details");
        if let Some(usage) = mend::object(response, "usage") {
            mend::object(usage, "input_tokens_details");
        }
    }
}

fn fix_item(item: &mut Map<String, Value>) {
    mend::texts(item, &["id", "call_id", "name", "status", "encrypted_content"]);
    mend::arguments(item, "arguments");
    for name in ["content", "summary"] {
        match item.get_mut(name) {
            Some(Value::Array(_)) | None => {}
            Some(one) => *one = Value::Array(vec![one.take()]),
        }
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
