//! Tokens for programs and other machines. A token is shown once, when it is made.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::ids::Principal;

use crate::doors::Doors;
use crate::extract::{JsonBody, Params, Segments};
use crate::problem::Problem;
use crate::rest::agents::Nothing;

const NAME_CHARACTERS: usize = 64;

pub(crate) async fn list(
    State(doors): State<Doors>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Json<Value>, Problem> {
    let tokens = doors.hive.tokens().await?;
    Ok(Json(json!({ "tokens": tokens })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    name: String,
}

pub(crate) async fn create(
    State(doors): State<Doors>,
    Params(Nothing {}): Params<Nothing>,
    JsonBody(body): JsonBody<NewToken>,
) -> Result<Response, Problem> {
    let name = body.name.trim();
    let length = name.chars().count();
    if length == 0 || length > NAME_CHARACTERS || name.chars().any(char::is_control) {
        let detail = format!("a token's name has 1 to {NAME_CHARACTERS} characters");
        return Err(Problem::bad_request("invalid_name", detail));
    }
    let (info, token) = doors.hive.new_token(name).await?;
    let mut answer = json!(info);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("token".to_owned(), token.into());
    }
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

pub(crate) async fn revoke(
    State(doors): State<Doors>,
    Segments(id): Segments<String>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    doors.hive.revoke_token(&id).await?;
    // As `authenticate` names the holder of a token.
    doors.standing.revoke(&Principal::new(format!("token:{id}")));
    Ok(StatusCode::NO_CONTENT)
}
