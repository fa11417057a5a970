//! Answers in the form OpenAI's clients read.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use skep_core::ids::{AgentName, ItemId};
use skep_core::message::Usage;
use skep_guard::scrub;
use utoipa::ToSchema;
use utoipa::openapi::{self, Ref};

use crate::problem::Said;

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
    pub(crate) usage: Option<Tokens>,
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
#[schema(as = TokenCounts)]
pub(crate) struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: CachedTokens,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
struct CachedTokens {
    cached_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input + usage.cache_read + usage.cache_write,
            completion_tokens: usage.output,
            total_tokens: usage.total_tokens,
            prompt_tokens_details: CachedTokens { cached_tokens: usage.cache_read },
        }
    }
}

/// The form of every refusal under `/v1`, for the OpenAPI document.
#[derive(Serialize, ToSchema)]
#[allow(dead_code)]
pub(crate) struct OpenAiError {
    error: OpenAiErrorBody,
}

#[derive(Serialize, ToSchema)]
#[allow(dead_code)]
struct OpenAiErrorBody {
    message: String,
    #[schema(example = "invalid_request_error")]
    r#type: String,
    param: Option<String>,
    /// The same stable word as in a problem of the other routes.
    code: String,
}

/// A refusal of ours, said in the words of `/v1`.
pub(crate) fn reshape(response: Response) -> Response {
    let Some(said) = response.extensions().get::<Said>() else {
        return response;
    };
    let body = error(said.status, &said.detail, &said.code, said.param.as_deref());
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let json = HeaderValue::from_static("application/json");
    parts.headers.insert(header::CONTENT_TYPE, json);
    // Clients try again by themselves what the hive may have taken; only a wait is worth it.
    let again = parts.headers.contains_key(header::RETRY_AFTER);
    let again = HeaderValue::from_static(if again { "true" } else { "false" });
    parts.headers.insert(HeaderName::from_static("x-should-retry"), again);
    (parts, Json(body)).into_response()
}

pub(crate) fn error(status: u16, message: &str, code: &str, param: Option<&str>) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

pub(crate) fn described(description: &str) -> openapi::Response {
    let schema = Ref::from_schema_name("OpenAiError");
    openapi::ResponseBuilder::new()
        .description(description)
        .content("application/json", openapi::ContentBuilder::new().schema(Some(schema)).build())
        .build()
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
        self.chunk(json!([]), json!(Tokens::from(usage)))
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
        Sent::default().data(scrub::known().clean_owned(chunk.to_string()))
    }
}
