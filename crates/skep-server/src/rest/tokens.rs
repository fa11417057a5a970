//! Tokens for programs and other machines. A token is shown once, when it is made.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use skep_core::ids::{TOKEN_NAME_BYTES, is_token_name};
use skep_runtime::door::{Credential, Grant, Role, TokenInfo};
use utoipa::ToSchema;

use crate::door::{Doors, ShowsSecret};
use crate::request::{
    BadBody, Clash, IdempotencyKey, JsonBody, Missing, NotKept, Permit, Problem, Segments, extract,
};

/// Rules name people by the names of their tokens; these have a meaning of their own there.
pub(crate) const RESERVED: [&str; 2] = ["operator", "any"];

#[derive(Serialize, ToSchema)]
pub(crate) struct Tokens {
    tokens: Vec<TokenInfo>,
}

/// Tokens, without what they are.
#[utoipa::path(
    get, path = "/api/v1/tokens", tag = "tokens",
    responses((status = 200, description = "Every token there was.", body = Tokens))
)]
pub(crate) async fn list(State(doors): State<Doors>) -> Result<Json<Tokens>, Problem> {
    let tokens = doors.hive.tokens().await?;
    Ok(Json(Tokens { tokens }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// What it is for.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[A-Za-z0-9]([A-Za-z0-9 ._@+-]*[A-Za-z0-9])?$"
    )]
    name: String,
    /// What its holder may; `operator` where it is left out.
    role: Option<Role>,
    /// For the role `channel`, and only there: its conversations begin so.
    #[schema(min_length = 2, max_length = 64, example = "discord:")]
    prefix: Option<String>,
    /// For the role `agent`, and only there: the agent whose engine's child holds it.
    agent: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct MadeToken {
    #[serde(flatten)]
    info: TokenInfo,
    /// The token itself, shown this once.
    token: String,
}

/// Makes a token.
#[utoipa::path(
    post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    params(IdempotencyKey),
    responses(
        (status = 201, description = "The token.", body = MadeToken),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn create(
    State(doors): State<Doors>,
    permit: Permit,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<NewToken>,
) -> Result<Response, Problem> {
    let name = body.name.as_str();
    if !is_token_name(name) {
        let detail = format!(
            "a token's name has 1 to {TOKEN_NAME_BYTES} letters and digits without accents, and \
             blanks, dots, dashes, _, @ and + between them"
        );
        return Err(Problem::bad_request("invalid_name", detail));
    }
    let role = body.role.unwrap_or(Role::Operator);
    if role != Role::Operator && RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        let detail = format!("{name} means somebody else in rules; give the token another name");
        return Err(Problem::bad_request("invalid_name", detail));
    }
    let grant = Grant {
        role,
        prefix: body.prefix,
        agent: body.agent.as_deref().map(extract::agent).transpose()?,
    };
    let request = key.0.map(|key| format!("{}/{key}", permit.principal()));
    let (info, token) =
        doors.hive.new_token(name, grant, permit.principal(), request.as_deref()).await?;
    Ok((StatusCode::CREATED, Extension(ShowsSecret), Json(MadeToken { info, token }))
        .into_response())
}

/// Makes a token worthless; what it keeps open is closed.
#[utoipa::path(
    delete, path = "/api/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The id of a token.")),
    responses((status = 204, description = "It opens nothing any more."), Missing, NotKept)
)]
pub(crate) async fn revoke(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<StatusCode, Problem> {
    doors.hive.revoke_token(&id, permit.principal()).await?;
    doors.standing.revoke(&Credential::Token { id });
    Ok(StatusCode::NO_CONTENT)
}
