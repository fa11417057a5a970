//! Refusals in the form OpenAI's clients read.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{self, Ref};

use crate::request::problem::ProblemSummary;

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
    let Some(said) = response.extensions().get::<ProblemSummary>() else { return response };
    let body = error(said);
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

pub(crate) fn error(said: &ProblemSummary) -> Value {
    let ProblemSummary { status, code, detail, param } = said;
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": detail, "type": kind, "param": param, "code": code}})
}

pub(crate) fn described(description: &str) -> openapi::Response {
    let schema = Ref::from_schema_name("OpenAiError");
    openapi::ResponseBuilder::new()
        .description(description)
        .content("application/json", openapi::ContentBuilder::new().schema(Some(schema)).build())
        .build()
}
