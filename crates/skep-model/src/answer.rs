//! What the decoders of all wires share. They are pure: bytes and time are the call's business.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use skep_core::message::Usage;
use skep_core::provider::{ModelError, ModelEvent};

use crate::failure;

/// The most argument text one call may have.
pub(crate) const ARGUMENT_BYTES: usize = 16 * 1024 * 1024;

pub trait Decode: Default + Send {
    /// Takes the data of one event and appends what it means. After `End` or an error the answer
    /// is over. The key is known so that no text repeats it.
    fn read(
        &mut self,
        data: &str,
        key: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError>;
}

/// An event that does not fit is garbage, and garbage is asked for again: nothing is guessed.
pub(crate) fn garbage(what: &str) -> ModelError {
    failure::passing(format!("the model vendor's answer makes no sense: {what}"))
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

pub(crate) fn add_arguments(arguments: &mut String, piece: &str) -> Result<(), ModelError> {
    if arguments.len() + piece.len() > ARGUMENT_BYTES {
        return Err(garbage("endless arguments"));
    }
    arguments.push_str(piece);
    Ok(())
}

/// A call without arguments may send no text at all.
pub(crate) fn parse_arguments(text: &str) -> Option<Value> {
    if text.is_empty() {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_str::<Map<String, Value>>(text).ok().map(Value::Object)
}

/// The part of a prompt that the cache had to do with, as the OpenAI wires tell it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct CacheDetails {
    #[serde(default, deserialize_with = "count")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_write_tokens: Option<u64>,
}

/// Tokens as a vendor counts them. An answer is not lost because its vendor cannot count: what is
/// no count is as if it were not there.
pub(crate) fn count<'de, D: Deserializer<'de>>(wire: D) -> Result<Option<u64>, D::Error> {
    let told = Value::deserialize(wire)?;
    let whole = |number: f64| (number.is_finite() && number >= 0.0).then_some(number as u64);
    Ok(told.as_u64().or_else(|| told.as_f64().and_then(whole)))
}

impl CacheDetails {
    /// These wires count what came from and went to the cache as part of the prompt; we count
    /// each token once.
    pub(crate) fn usage(&self, prompt: Option<u64>, output: Option<u64>) -> Usage {
        let (prompt, output) = (prompt.unwrap_or(0), output.unwrap_or(0));
        let read = self.cached_tokens.unwrap_or(0);
        let written = self.cache_write_tokens.unwrap_or(0);
        let fresh = prompt.saturating_sub(read).saturating_sub(written);
        Usage::new(fresh, output, read, written)
    }
}
