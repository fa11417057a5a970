//! Answers in the form OpenAI's clients read.

use axum::response::sse::Event as Sent;
use serde::Serialize;
use serde_json::{Value, json};
use skep_core::ids::{AgentName, ItemId};
use skep_core::message::Usage;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Models {
    #[schema(example = "list")]
    pub(crate) object: &'static str,
    pub(crate) data: Vec<Model>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Model {
    /// The name of an agent.
    pub(crate) id: String,
    #[schema(example = "model")]
    pub(crate) object: &'static str,
    pub(crate) created: i64,
    pub(crate) owned_by: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Completion {
    pub(crate) id: String,
    #[schema(example = "chat.completion")]
    pub(crate) object: &'static str,
    pub(crate) created: i64,
    pub(crate) model: AgentName,
    pub(crate) choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenCounts>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Choice {
    pub(crate) index: u32,
    pub(crate) message: Answer,
    #[schema(example = "stop")]
    pub(crate) finish_reason: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Answer {
    #[schema(example = "assistant")]
    pub(crate) role: &'static str,
    pub(crate) content: String,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
pub(crate) struct TokenCounts {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: CachedTokens,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
struct CachedTokens {
    cached_tokens: u64,
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input + usage.cache_read + usage.cache_write,
            completion_tokens: usage.output,
            total_tokens: usage.total_tokens,
            prompt_tokens_details: CachedTokens { cached_tokens: usage.cache_read },
        }
    }
}

pub(crate) fn id_of(item: &ItemId) -> String {
    format!("chatcmpl-{item}")
}

/// What all chunks of one answer have in common.
#[derive(Clone)]
pub(crate) struct Chunks {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) model: AgentName,
    pub(crate) include_usage: bool,
}

impl Chunks {
    pub(crate) fn role(&self) -> Sent {
        self.choice(json!({"role": "assistant", "content": ""}), Value::Null)
    }

    pub(crate) fn text(&self, text: &str) -> Sent {
        self.choice(json!({"content": text}), Value::Null)
    }

    /// What is no part of the answer.
    pub(crate) fn reasoning(&self, text: &str) -> Sent {
        self.choice(json!({"reasoning_content": text}), Value::Null)
    }

    pub(crate) fn finish(&self, reason: &str) -> Sent {
        self.choice(json!({}), reason.into())
    }

    pub(crate) fn usage(&self, usage: Usage) -> Sent {
        self.chunk(json!([]), json!(TokenCounts::from(usage)))
    }

    fn choice(&self, delta: Value, finish: Value) -> Sent {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        self.chunk(json!([choice]), Value::Null)
    }

    fn chunk(&self, choices: Value, usage: Value) -> Sent {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage;
        }
        // What is told from rows may be older than what is known as a secret.
        Sent::default().data(skep_scrub::known().clean_json_text(chunk.to_string()))
    }
}
