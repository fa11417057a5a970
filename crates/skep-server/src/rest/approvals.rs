//! Questions to people: calls that wait for a decision.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use skep_core::approval::{ApprovalState, Scope};
use skep_runtime::door::{
    ApprovalInfo, ApprovalPage, ApprovalQuery, Covered, Credential, PinnedFile,
};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{
    BadBody, Clash, DecisionRequest, JsonBody, Missing, NotKept, Params, Permit, Problem, Segments,
    extract, page_size,
};

/// Which approvals.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Listed {
    Open,
    /// Approved, denied, and those that need no answer any more.
    Decided,
    /// Approved, and not run with it: the call was another one by then, or its turn ended.
    Unused,
    Expired,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalParams {
    /// `open` where it is left out.
    #[param(inline)]
    state: Option<Listed>,
    agent: Option<String>,
    /// The `next` of the page before.
    cursor: Option<i64>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Approvals, newest first.
#[utoipa::path(
    get, path = "/api/v1/approvals", tag = "approvals", params(ApprovalParams),
    responses((status = 200, description = "A page.", body = ApprovalPage), Missing)
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<ApprovalParams>,
) -> Result<Json<ApprovalPage>, Problem> {
    let states = match params.state.unwrap_or(Listed::Open) {
        Listed::Open => vec![ApprovalState::Open],
        Listed::Decided => {
            vec![ApprovalState::Approved, ApprovalState::Denied, ApprovalState::Withdrawn]
        }
        Listed::Unused => vec![ApprovalState::Approved],
        Listed::Expired => vec![ApprovalState::Expired],
    };
    let query = ApprovalQuery {
        unused: matches!(params.state, Some(Listed::Unused)),
        states,
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        cursor: params.cursor,
        limit: page_size(params.limit)?,
    };
    Ok(Json(doors.hive.approvals(query, permit.identity(), &permit.sight()).await?))
}

/// One approval, whole.
#[utoipa::path(
    get, path = "/api/v1/approvals/{id}", tag = "approvals",
    responses((status = 200, description = "As it stands.", body = ApprovalInfo), Missing)
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<Json<ApprovalInfo>, Problem> {
    Ok(Json(doors.hive.approval(&id, permit.identity(), &permit.sight()).await?))
}

/// A file that the call names, as it was when the approval was asked for.
///
/// Only files of the workspace up to 1 MiB. 409 `changed` says that it is another one by now.
#[utoipa::path(
    get, path = "/api/v1/approvals/{id}/files/{number}", tag = "approvals",
    params(("number" = usize, Path, description = "Its place in `files`, from 0.")),
    responses(
        (status = 200, description = "Its content.", body = PinnedFile),
        Missing, Clash
    )
)]
pub(crate) async fn file(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((id, number)): Segments<(String, usize)>,
) -> Result<Json<PinnedFile>, Problem> {
    let (by, sight) = (permit.identity(), permit.sight());
    Ok(Json(doors.hive.approval_file(&id, number, by, &sight).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PatternParams {
    /// One pattern, or several as a JSON list of texts; left out: exactly this call.
    #[param(example = r#"["git add", "git push"]"#)]
    patterns: Option<String>,
    /// `session` or `always`; `always` where it is left out.
    #[param(inline)]
    scope: Option<LastingScope>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LastingScope {
    Session,
    Always,
}

/// What a lasting yes with these patterns would cover: this call, other open questions, and how
/// many of the last calls.
#[utoipa::path(
    get, path = "/api/v1/approvals/{id}/covers", tag = "approvals",
    params(PatternParams),
    responses(
        (status = 200, description = "What it comes to.", body = Covered),
        Missing, Clash
    )
)]
pub(crate) async fn covers(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
    Params(params): Params<PatternParams>,
) -> Result<Json<Covered>, Problem> {
    let patterns = params
        .patterns
        .map_or_else(Vec::new, |text| serde_json::from_str(&text).unwrap_or_else(|_| vec![text]));
    let scope = match params.scope {
        Some(LastingScope::Session) => Scope::Session,
        Some(LastingScope::Always) | None => Scope::Always,
    };
    let yes = (scope, patterns.as_slice());
    Ok(Json(doors.hive.covers(&id, yes, permit.identity(), &permit.sight()).await?))
}

/// Decides. The first answer counts; what was shown has to be what would run.
#[utoipa::path(
    post, path = "/api/v1/approvals/{id}/decision", tag = "approvals",
    request_body = DecisionRequest,
    responses(
        (status = 200, description = "Decided; the call goes on by itself.", body = ApprovalInfo),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn decide(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
    JsonBody(body): JsonBody<DecisionRequest>,
) -> Result<Json<ApprovalInfo>, Problem> {
    let from = match permit.credential() {
        Credential::Browser { .. } => "page",
        Credential::Owner => "terminal",
        Credential::Token { .. } => "rest",
    };
    let wish = body.wish(&permit, from);
    Ok(Json(doors.hive.decide_approval(&id, wish, permit.identity(), &permit.sight()).await?))
}

/// Asks again what nobody answered in time; a yes then runs exactly that call.
#[utoipa::path(
    post, path = "/api/v1/approvals/{id}/reopen", tag = "approvals",
    responses(
        (status = 200, description = "Open again.", body = ApprovalInfo),
        Missing, Clash, NotKept
    )
)]
pub(crate) async fn reopen(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(id): Segments<String>,
) -> Result<Json<ApprovalInfo>, Problem> {
    Ok(Json(doors.hive.reopen(&id, permit.identity(), &permit.sight()).await?))
}
