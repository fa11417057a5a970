//! What an agent's calls are decided by, and what is granted for a time.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_runtime::door::{GrantInfo, GrantWish, PolicyInfo, WhyInfo, WhyWish};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{
    BadBody, Clash, JsonBody, Missing, NotKept, Params, Permit, Problem, Segments, extract,
};

/// The rules of an agent, its grants, and what its classes come to.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/policy", tag = "policy",
    responses((status = 200, description = "In force now.", body = PolicyInfo), Missing, Clash)
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
) -> Result<Json<PolicyInfo>, Problem> {
    Ok(Json(doors.hive.policy(&extract::agent(&agent)?).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Imagined {
    #[schema(example = "bash")]
    tool: String,
    #[schema(value_type = Object, example = json!({"command": "ls"}))]
    arguments: Value,
    /// For whom: a principal such as `operator`; you where it is left out.
    who: Option<String>,
}

/// What would be decided about a call, and why every rule matches or does not. Nothing runs.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/why", tag = "policy",
    request_body = Imagined,
    responses(
        (status = 200, description = "The decision.", body = WhyInfo),
        Missing, Clash, BadBody
    )
)]
pub(crate) async fn why(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    JsonBody(body): JsonBody<Imagined>,
) -> Result<Json<WhyInfo>, Problem> {
    let wish = WhyWish {
        agent: extract::agent(&agent)?,
        tool: body.tool,
        arguments: body.arguments,
        who: body.who.unwrap_or_else(|| permit.principal().to_string()),
    };
    Ok(Json(doors.hive.why(wish).await?))
}

/// Something to be allowed for a time.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewGrant {
    /// A tool's name, or a pattern with `*`.
    #[schema(min_length = 1, max_length = 128, example = "bash")]
    tool: String,
    path: Option<String>,
    #[schema(example = "git push")]
    command: Option<String>,
    host: Option<String>,
    /// `any`, `role:ROLE`, `user:NAME`; anyone where it is left out.
    grants: Option<Vec<String>>,
    /// For how long.
    #[schema(minimum = 1, maximum = 10080)]
    minutes: u32,
}

/// Allows something for a time. It answers questions; what is denied stays denied.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/grants", tag = "policy",
    request_body = NewGrant,
    responses(
        (status = 201, description = "Granted.", body = GrantInfo),
        Missing, BadBody, NotKept
    )
)]
pub(crate) async fn grant(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    JsonBody(body): JsonBody<NewGrant>,
) -> Result<Response, Problem> {
    if !(1..=10_080).contains(&body.minutes) {
        let detail = "a grant lasts from 1 to 10080 minutes (a week)";
        return Err(Problem::bad_request("invalid_minutes", detail));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
    if body.tool.is_empty() || body.tool.len() > 128 || !body.tool.chars().all(fits) {
        let detail = "a tool is its name, or a pattern with `*`";
        return Err(Problem::bad_request("invalid_tool", detail));
    }
    let wish = GrantWish {
        agent: extract::agent(&agent)?,
        tool: body.tool,
        path: body.path,
        command: body.command,
        host: body.host,
        grants: body.grants.unwrap_or_default(),
        minutes: body.minutes,
        by: permit.principal().to_string(),
    };
    let made = doors.hive.grant(wish).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GrantParams {
    agent: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Grants {
    grants: Vec<GrantInfo>,
}

/// What is granted now, newest first.
#[utoipa::path(
    get, path = "/api/v1/grants", tag = "policy", params(GrantParams),
    responses((status = 200, description = "In force now.", body = Grants), Missing)
)]
pub(crate) async fn grants(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<GrantParams>,
) -> Result<Json<Grants>, Problem> {
    let agent = params.agent.as_deref().map(extract::agent).transpose()?;
    let grants = doors.hive.grants(agent.as_ref(), &permit.sight()).await?;
    Ok(Json(Grants { grants }))
}

/// Takes a grant back.
#[utoipa::path(
    delete, path = "/api/v1/grants/{id}", tag = "policy",
    params(("id" = String, Path, description = "The id of a grant.")),
    responses((status = 204, description = "It allows nothing any more."), Missing, NotKept)
)]
pub(crate) async fn revoke(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<StatusCode, Problem> {
    doors.hive.revoke_grant(&id, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}
