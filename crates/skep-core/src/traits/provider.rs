//! `Provider`: a model vendor. One required method: one call, one try; the engine retries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::vocab::failure::RetryCode;
use crate::vocab::ids::CallId;
use crate::vocab::message::{Message, Meta};
use crate::{BoxFuture, BoxStream};

pub trait Provider: Send + Sync {
    /// The vendor's word, for instance `anthropic`.
    fn id(&self) -> &str;

    /// Asks the model once. The stream ends after `End` or the first error; dropping it ends the
    /// request on the wire.
    fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>>;

    /// Hands a request that is written in the vendor's own wire on to it, with the profile's key,
    /// and the answer back as it comes: nothing in either body is changed. None where this
    /// provider does not speak that wire. Dropping the answer ends the request.
    fn forward(&self, _request: RawRequest) -> Option<BoxFuture<'static, RawAnswered>> {
        None
    }

    /// Whether something answers where the vendor is: no model is asked and no key is sent.
    /// A provider without a network address dials nothing.
    fn reach(&self) -> BoxFuture<'static, Result<(), ModelError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The providers of a hive by the names of their profiles: two profiles may use one vendor with
/// different keys. A turn keeps the set it began with, whatever the files say meanwhile.
#[derive(Clone, Default)]
pub struct Providers(Arc<BTreeMap<String, Arc<dyn Provider>>>);

impl Providers {
    pub fn new(by_profile: BTreeMap<String, Arc<dyn Provider>>) -> Self {
        Self(Arc::new(by_profile))
    }

    pub fn get(&self, profile: &str) -> Option<Arc<dyn Provider>> {
        self.0.get(profile).cloned()
    }
}

/// The same profiles lead to the very same providers.
impl PartialEq for Providers {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |((a, x), (b, y)): ((&String, &Arc<dyn Provider>), (_, _))| a == b && Arc::ptr_eq(x, y);
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(same)
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Everything a request is made of. Built from rows and settings only, so that the next request
/// of a session begins with all of this one.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub model: String,
    pub system: SystemPrompt,
    pub tools: Arc<[ToolSpec]>,
    pub messages: Vec<Arc<Message>>,
    pub max_output_tokens: u32,
    /// Thinking budget in tokens.
    pub thinking: Option<u32>,
    pub temperature: Option<f64>,
    /// Pictures are sent as pictures, not described in words.
    pub sees_images: bool,
    /// The same for all requests that begin alike: vendors who cache by it find them together.
    pub cache_key: String,
}

/// Two parts, so that the first is the same bytes for every agent of the hive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemPrompt {
    pub shared: Arc<str>,
    pub agent: Arc<str>,
}

/// How a tool is described to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    Text(String),
    Thinking(String),
    /// Closes the current thinking block.
    Signature(String),
    RedactedThinking(String),
    /// Sent once the call is complete; never earlier. The arguments are an object. Where the
    /// model wrote none, they are what it wrote, as a text: the gate answers such a call with an
    /// error, and no tool sees it.
    ToolCall {
        id: CallId,
        name: String,
        arguments: Value,
    },
    /// The model call is complete.
    End(Meta),
}

/// Kinds only where someone branches; the text is for people and carries no key and no internals.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Overloaded, cut, silent, garbage: asking again may help.
    #[error("{text}")]
    Passing { code: RetryCode, text: String, retry_after: Option<Duration> },
    #[error("{text}")]
    Auth { text: String },
    /// No such model, or nothing at the address: the fault is the profile's, not the request's.
    #[error("{text}")]
    NotFound { text: String },
    #[error("{text}")]
    Rejected { text: String },
    #[error("{text}")]
    ContextTooLong { text: String },
}

impl ModelError {
    /// Why asking again may help, where it may.
    pub fn retry_code(&self) -> Option<RetryCode> {
        match self {
            Self::Passing { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Passing { text, .. }
            | Self::Auth { text }
            | Self::NotFound { text }
            | Self::Rejected { text }
            | Self::ContextTooLong { text } => text,
        }
    }
}

/// What a request in a vendor's own wire asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawEndpoint {
    /// Anthropic: a message.
    Messages,
    /// Anthropic: how many tokens a message would have. No model answers.
    CountTokens,
    /// OpenAI: a response.
    Responses,
}

/// A request as a program wrote it for its vendor. Who it is from is not part of it: the provider
/// adds the key.
#[derive(Clone, Debug)]
pub struct RawRequest {
    pub endpoint: RawEndpoint,
    /// What follows the `?` of the address.
    pub query: Option<String>,
    pub headers: RawHeaders,
    pub body: Bytes,
}

/// Name, in small letters, and value.
pub type RawHeaders = Vec<(String, Vec<u8>)>;

pub type RawAnswered = Result<RawAnswer, ModelError>;

/// What the vendor answers, whatever its status is.
pub struct RawAnswer {
    pub status: u16,
    pub headers: RawHeaders,
    /// Ends with an error where the vendor's answer broke off.
    pub body: BoxStream<'static, Result<Bytes, ModelError>>,
}
