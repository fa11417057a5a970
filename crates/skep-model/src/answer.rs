//! What the decoders of all wires share. They are pure: bytes and time are the call's business.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use skep_core::engine::RetryCode;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent};

use crate::failure::{self, VendorFailure};
use crate::sse::SseEvent;

/// The most argument text one call may have.
pub(crate) const ARGUMENT_BYTES: usize = 16 * 1024 * 1024;

/// How a stream came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// It said so, with `[DONE]`.
    Word,
    /// No more bytes came.
    Byte,
}

pub trait Decode: Default + Send {
    /// Takes one event and appends what it means. After `End` or a failure the answer is over.
    fn read(&mut self, event: &SseEvent, events: &mut Vec<ModelEvent>)
    -> Result<(), VendorFailure>;

    /// The model told why it stopped: only counts and the last word may follow, and an answer
    /// that lacks these is whole all the same.
    fn is_told_over(&self) -> bool;

    /// The stream is over before the wire's own last event came: appends `End` if the answer is
    /// whole without it.
    fn close(&mut self, last: Last, events: &mut Vec<ModelEvent>) -> Result<(), ModelError>;
}

/// An event that does not fit is garbage, and garbage is asked for again: nothing is guessed.
pub(crate) fn garbage(what: &str) -> ModelError {
    failure::passing(
        RetryCode::Unusable,
        format!("the model vendor's answer makes no sense: {what}"),
    )
}

pub(crate) fn cut() -> ModelError {
    failure::passing(RetryCode::Cut, "the model vendor's answer was cut off")
}

pub(crate) fn push_text(
    events: &mut Vec<ModelEvent>,
    kind: fn(String) -> ModelEvent,
    text: String,
) {
    if !text.is_empty() {
        events.push(kind(text));
    }
}

/// The object that the text of a call's arguments means; nothing where it means none, or more
/// than one. A call without arguments may have no text at all. Some servers encode the object
/// twice, send it twice, or begin with an empty one.
pub(crate) fn parse_arguments(text: &str) -> Option<Value> {
    if let Ok(object) = serde_json::from_str::<Map<String, Value>>(text) {
        return Some(Value::Object(object));
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut values = values.collect::<Result<Vec<_>, _>>().ok()?;
    let last = values.pop().unwrap_or_default();
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if !values.iter().all(|value| *value == last || is_empty(value)) {
        return None;
    }
    match last {
        Value::Object(_) => Some(last),
        Value::Null => Some(Value::Object(Map::new())),
        Value::String(inner) if inner.trim().is_empty() => Some(Value::Object(Map::new())),
        Value::String(inner) => serde_json::from_str(&inner).ok().map(Value::Object),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The last event of an answer; the profile is the engine's to name.
pub(crate) fn end(
    (provider, api): (&str, &str),
    model: String,
    usage: Usage,
    stop_reason: StopReason,
) -> ModelEvent {
    let (provider, api) = (provider.to_owned(), api.to_owned());
    ModelEvent::End(Meta { profile: None, provider, model, api, usage, stop_reason })
}

/// A call as its answer ends.
#[derive(Debug, Default)]
pub(crate) struct CallText {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// What tells that a call is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complete {
    /// The server said that the call, or the answer with it, is over.
    Told,
    /// Nobody said so: only arguments that end by themselves can be whole.
    ByItself,
    /// The output limit fell into the answer: half a call is left out, because asking again would
    /// end at the same place.
    AtLimit,
}

impl CallText {
    pub(crate) fn add(&mut self, piece: &str) -> Result<(), ModelError> {
        if self.arguments.len() + piece.len() > ARGUMENT_BYTES {
            return Err(garbage("endless arguments"));
        }
        self.arguments.push_str(piece);
        Ok(())
    }

    /// Takes all arguments at once, which must be the sum of the pieces before.
    pub(crate) fn fill(&mut self, all: String) -> Result<(), ModelError> {
        if all.trim().is_empty() || self.arguments == all {
            return Ok(());
        }
        if !self.is_blank() && parse_arguments(&self.arguments) != parse_arguments(&all) {
            return Err(garbage("arguments that are not the sum of their pieces"));
        }
        self.arguments = all;
        Ok(())
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.arguments.trim().is_empty()
    }

    /// The call, if it is one. Arguments that are no JSON object go on as the text they are: the
    /// gate answers them, nothing runs. `count` numbers a call that came without an id.
    pub(crate) fn told(
        self,
        complete: Complete,
        count: usize,
    ) -> Result<Option<ModelEvent>, ModelError> {
        if self.name.is_empty() {
            return Err(garbage("call of no tool"));
        }
        let parsed = match complete {
            Complete::Told => parse_arguments(&self.arguments),
            _ if self.is_blank() => None,
            _ => parse_arguments(&self.arguments),
        };
        let arguments = match (parsed, complete) {
            (Some(object), _) => object,
            (None, Complete::Told) => Value::String(self.arguments),
            (None, Complete::ByItself) => return Err(cut()),
            (None, Complete::AtLimit) => return Ok(None),
        };
        let id = if self.id.is_empty() { format!("call_{count}") } else { self.id };
        Ok(Some(ModelEvent::ToolCall { id: CallId::new(id), name: self.name, arguments }))
    }
}

/// The part of a prompt that the cache had to do with, as the OpenAI wires tell it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CacheDetails {
    cached_tokens: TokenCount,
    cache_write_tokens: TokenCount,
}

/// Tokens as a vendor counts them. An answer is not lost because its vendor cannot count: what is
/// no count is as if it were not there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenCount(pub Option<u64>);

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(wire: D) -> Result<Self, D::Error> {
        let told = Value::deserialize(wire)?;
        let whole = |number: f64| (number.is_finite() && number >= 0.0).then_some(number as u64);
        Ok(Self(told.as_u64().or_else(|| told.as_f64().and_then(whole))))
    }
}

impl CacheDetails {
    /// These wires count what came from and went to the cache as part of the prompt; we count
    /// each token once.
    pub(crate) fn usage(&self, prompt: TokenCount, output: TokenCount) -> Usage {
        let (read, written) = (self.cached_tokens, self.cache_write_tokens);
        let [prompt, output, read, written] =
            [prompt, output, read, written].map(|count| count.0.unwrap_or(0));
        let fresh = prompt.saturating_sub(read).saturating_sub(written);
        Usage::new(fresh, output, read, written)
    }
}
