//! What an answer used, read along while it goes on to somebody else: the same figures that the
//! decoders tell, without the answer itself. What makes no sense is passed over; then nothing is
//! told, and the call counts as one whose usage nobody knows.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skep_core::count;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::relay::RelayWire;

use crate::answer::{CacheDetails, TokenCount};
use crate::sse::{Parser, SseEvent};
use crate::{anthropic, openai_responses};

/// The longest answer in one document that is looked at.
const DOCUMENT_BYTES: usize = 32 * 1024 * 1024;

/// Reads the body of one answer.
pub struct AnswerTally {
    wire: RelayWire,
    form: Form,
    found: Found,
    /// Tokens of the answer, as we count, since somebody asked.
    heard: u64,
}

enum Form {
    /// Only white space came so far.
    Blank,
    Events(Box<Parser>),
    Document(Vec<u8>),
    /// It is not understood, or over.
    Unread,
}

#[derive(Default)]
struct Found {
    message: Option<String>,
    model: String,
    /// Input, output, from the cache, to the cache.
    counts: [Option<u64>; 4],
    stop_reason: Option<StopReason>,
    calls: bool,
    /// The event came after which nothing is counted any more.
    whole: bool,
}

impl AnswerTally {
    pub fn new(wire: RelayWire) -> Self {
        Self { wire, form: Form::Blank, found: Found::default(), heard: 0 }
    }

    pub fn read(&mut self, piece: &[u8]) {
        if matches!(self.form, Form::Blank) {
            self.form = match piece.trim_ascii_start().first() {
                None => return,
                Some(b'{') => Form::Document(Vec::new()),
                Some(_) => Form::Events(Box::default()),
            };
        }
        let mut events = Vec::new();
        let read = match &mut self.form {
            Form::Events(parser) => parser.push(piece, &mut events).is_ok(),
            Form::Document(document) => {
                document.extend_from_slice(piece);
                document.len() <= DOCUMENT_BYTES
            }
            Form::Blank | Form::Unread => return,
        };
        events.iter().for_each(|event| self.event(event));
        if !read {
            self.form = Form::Unread;
        }
    }

    /// The body is over.
    pub fn finish(&mut self) {
        match std::mem::replace(&mut self.form, Form::Unread) {
            Form::Events(mut parser) => {
                if let Ok(Some(last)) = parser.finish() {
                    self.event(&last);
                }
                // Here the reason comes with the last count: the last word may be missing.
                let anthropic = self.wire == RelayWire::Anthropic;
                self.found.whole |= anthropic && self.found.stop_reason.is_some();
            }
            Form::Document(document) => {
                if let Ok(answer) = serde_json::from_slice::<Value>(&document) {
                    self.document(&answer);
                }
            }
            Form::Blank | Form::Unread => {}
        }
    }

    /// Tokens of the answer that came since this was asked last.
    pub fn heard(&mut self) -> u64 {
        std::mem::take(&mut self.heard)
    }

    /// The vendor's id of the message and what it used, once all of that is known.
    pub fn told(&self) -> Option<(Option<String>, Meta)> {
        let Found { message, model, stop_reason, whole, .. } = &self.found;
        let stop_reason = stop_reason.filter(|_| *whole)?;
        let (provider, api) = match self.wire {
            RelayWire::Anthropic => (anthropic::VENDOR, anthropic::API),
            RelayWire::Responses => (openai_responses::VENDOR, openai_responses::API),
        };
        let [input, output, read, written] = self.found.counts.map(Option::unwrap_or_default);
        let meta = Meta {
            profile: None,
            provider: provider.to_owned(),
            model: model.clone(),
            api: api.to_owned(),
            usage: Usage::new(input, output, read, written),
            stop_reason,
        };
        Some((message.clone(), meta))
    }

    fn event(&mut self, event: &SseEvent) {
        // Of most events only the length of a text counts: these are read with little work.
        if event.name.ends_with("delta") && event.name != "message_delta" {
            return self.hear(&event.data);
        }
        let Ok(data) = serde_json::from_str::<Value>(&event.data) else { return };
        let kind = data["type"].as_str().unwrap_or(&event.name);
        match (self.wire, kind) {
            (RelayWire::Anthropic, "message_start") => self.found.message(&data["message"]),
            (RelayWire::Anthropic, "message_delta") => {
                self.found.count_message(&data["usage"]);
                self.found.stop(&data["delta"]);
            }
            (RelayWire::Anthropic, "message_stop") => self.found.whole = true,
            (RelayWire::Responses, "response.created") => self.found.name(&data["response"]),
            (
                RelayWire::Responses,
                "response.completed" | "response.incomplete" | "response.failed" | "response.done",
            ) => self.found.response(&data["response"]),
            (RelayWire::Responses, "response.output_item.done") => {
                self.found.calls |= is_call(&data["item"]);
            }
            (_, kind) if kind.ends_with("delta") => self.hear(&event.data),
            _ => {}
        }
    }

    fn document(&mut self, answer: &Value) {
        match self.wire {
            RelayWire::Anthropic => {
                self.found.message(answer);
                self.found.stop(answer);
                self.found.whole = self.found.stop_reason.is_some();
            }
            RelayWire::Responses => self.found.response(answer),
        }
    }

    /// A piece of text, of thinking or of arguments.
    fn hear(&mut self, data: &str) {
        let Ok(HeardEvent { delta: Some(delta) }) = serde_json::from_str(data) else { return };
        self.heard += match self.wire {
            RelayWire::Anthropic => {
                let HeardTexts { text, thinking, partial_json } =
                    serde_json::from_str(delta.get()).unwrap_or_default();
                [text, thinking, partial_json].iter().map(|text| count::of_text(text)).sum()
            }
            RelayWire::Responses => {
                serde_json::from_str::<String>(delta.get()).map_or(0, |text| count::of_text(&text))
            }
        };
    }
}

#[derive(Deserialize)]
struct HeardEvent<'a> {
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeardTexts {
    text: String,
    thinking: String,
    partial_json: String,
}

impl Found {
    fn name(&mut self, answer: &Value) {
        self.message = answer["id"].as_str().map(str::to_owned).or(self.message.take());
        if let Some(model) = answer["model"].as_str() {
            model.clone_into(&mut self.model);
        }
    }

    fn message(&mut self, message: &Value) {
        self.name(message);
        self.count_message(&message["usage"]);
    }

    /// Later counts are totals, not additions; what is absent stays.
    fn count_message(&mut self, usage: &Value) {
        const NAMES: [&str; 4] = [
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ];
        for (count, name) in self.counts.iter_mut().zip(NAMES) {
            *count = tokens(&usage[name]).0.or(*count);
        }
    }

    fn stop(&mut self, told: &Value) {
        if let Some(reason) = told["stop_reason"].as_str() {
            self.stop_reason = Some(anthropic::stop_reason(reason));
        }
    }

    fn response(&mut self, response: &Value) {
        self.name(response);
        let usage = &response["usage"];
        if usage.is_object() {
            let details = CacheDetails::deserialize(&usage["input_tokens_details"]);
            let details = details.unwrap_or_default();
            let usage =
                details.usage(tokens(&usage["input_tokens"]), tokens(&usage["output_tokens"]));
            let counts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
            self.counts = counts.map(Some);
        }
        let mut output = response["output"].as_array().into_iter().flatten();
        self.calls |= output.any(is_call);
        let reason = response["incomplete_details"]["reason"].as_str();
        self.stop_reason = Some(match (response["status"].as_str(), reason) {
            (_, Some("max_output_tokens")) => StopReason::MaxTokens,
            (_, Some("content_filter")) => StopReason::Refusal,
            (Some("incomplete" | "failed" | "cancelled"), _) => StopReason::Other,
            _ if self.calls => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        });
        // A failure without a count says nothing of what it used.
        self.whole = usage.is_object() || response["status"] != "failed";
    }
}

fn is_call(item: &Value) -> bool {
    const CALLS: [&str; 4] =
        ["function_call", "custom_tool_call", "local_shell_call", "tool_search_call"];
    item["type"].as_str().is_some_and(|kind| CALLS.contains(&kind))
}

fn tokens(count: &Value) -> TokenCount {
    TokenCount::deserialize(count).unwrap_or_default()
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
