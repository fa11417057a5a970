//! Agents, teams made of templates, their history, their settings, and ending what they do.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use skep_core::ids::{AgentName, SessionId, TurnId};
use skep_core::message::View;
use skep_core::role::Action;
use skep_runtime::door::{
    AgentFile, AgentInfo, FileCheck, HistoryPage, HistoryQuery, MadeTeam, SessionChoice, TeamDraft,
    TemplateInfo,
};
use skep_runtime::guidance::{GuidanceInfo, PromptInfo};
use skep_runtime::{AgentDraft, LifeCycle};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{
    BadBody, Clash, IdempotencyKey, JsonBody, Missing, NotKept, OptionalJsonBody, Params, Permit,
    Problem, Segments, extract, page_size,
};

#[derive(Serialize, ToSchema)]
pub(crate) struct Agents {
    agents: Vec<AgentInfo>,
}

/// Agents with their engine, model, capabilities and status.
#[utoipa::path(
    get, path = "/api/v1/agents", tag = "agents",
    responses((status = 200, description = "Every agent you may see.", body = Agents))
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Json<Agents>, Problem> {
    // Whoever sees every agent need not see what others have it do.
    let watched = permit.other(Action::Watch).map(|watch| watch.sight());
    let sight = watched.unwrap_or_else(|_| permit.identity().own.clone());
    Ok(Json(Agents { agents: doors.hive.agents(&sight).await? }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentBody {
    #[schema(min_length = 1, max_length = 64, pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    name: String,
    /// The agent whose team it belongs to; absent for a root of the tree.
    parent: Option<String>,
    /// What it is for, in a sentence.
    #[serde(default)]
    description: String,
    engine: Option<String>,
    profile: Option<String>,
    /// Those that every agent has, where it is left out.
    allowed_tools: Option<Vec<String>>,
    /// Keywords of work that it takes.
    #[serde(default)]
    scope_accepts: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct MadeAgent {
    agent: AgentName,
}

/// Makes an agent: its folder and its place in the tree, all of it or nothing.
#[utoipa::path(
    post, path = "/api/v1/agents", tag = "agents",
    request_body = AgentBody, params(IdempotencyKey),
    responses(
        (status = 201, description = "It is there.", body = MadeAgent),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn create(
    State(doors): State<Doors>,
    permit: Permit,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<AgentBody>,
) -> Result<Response, Problem> {
    // The hive says what is wrong with it.
    let name = AgentName::new(&body.name);
    let parent = body.parent.as_deref().map(extract::agent).transpose()?;
    let draft = AgentDraft {
        name: name.clone(),
        parent,
        description: body.description,
        engine: body.engine,
        profile: body.profile,
        allowed_tools: body.allowed_tools,
        context: None,
    };
    let (by, key) = (permit.principal(), key.0.as_deref());
    doors.hive.make_agent(draft, body.scope_accepts, by, key).await?;
    Ok((StatusCode::CREATED, Json(MadeAgent { agent: name })).into_response())
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Templates {
    templates: Vec<TemplateInfo>,
}

/// Teams that are ready to use, with the agents of each and a first task.
#[utoipa::path(
    get, path = "/api/v1/templates", tag = "agents",
    responses((status = 200, description = "Every template.", body = Templates), Clash)
)]
pub(crate) async fn templates(State(doors): State<Doors>) -> Result<Json<Templates>, Problem> {
    Ok(Json(Templates { templates: doors.hive.templates()?.to_vec() }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TeamBody {
    /// Of the lead; the other names begin with it. The template's where it is left out.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    name: Option<String>,
    /// The agent whose team the lead belongs to; absent for a root of the tree.
    parent: Option<String>,
}

/// Makes a team of a template: every agent of it, or none.
#[utoipa::path(
    post, path = "/api/v1/templates/{template}", tag = "agents",
    params(("template" = String, Path, description = "The name of a template.")),
    request_body(content = Option<TeamBody>),
    responses(
        (status = 201, description = "They are there.", body = MadeTeam),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn make_team(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(template): Segments<String>,
    OptionalJsonBody(body): OptionalJsonBody<TeamBody>,
) -> Result<Response, Problem> {
    let parent = body.parent.as_deref().map(extract::agent).transpose()?;
    let draft = TeamDraft { template, name: body.name, parent };
    let made = doors.hive.make_team(draft, permit.principal()).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveParams {
    /// Everybody below it too; refused without it where there are any.
    #[serde(default)]
    cascade: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedAgents {
    removed: Vec<String>,
}

/// Removes an agent for good: its work ends, its folder and its secrets go. History stays.
#[utoipa::path(
    delete, path = "/api/v1/agents/{agent}", tag = "agents",
    params(RemoveParams, IdempotencyKey),
    responses(
        (status = 200, description = "Who is gone.", body = RemovedAgents),
        Missing, Clash, NotKept
    )
)]
pub(crate) async fn remove(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(params): Params<RemoveParams>,
    key: IdempotencyKey,
) -> Result<Json<RemovedAgents>, Problem> {
    let agent = extract::agent(&agent)?;
    let (by, key) = (permit.principal(), key.0.as_deref());
    let removed = doors.hive.remove_agent(&agent, params.cascade, by, key).await?;
    Ok(Json(RemovedAgents { removed }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryParams {
    /// The id of a session.
    session: Option<String>,
    /// The key that leads to one; `main` where neither is given.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    session_key: Option<String>,
    #[serde(default)]
    view: View,
    /// Messages before this `seq` only: the page before.
    before: Option<i64>,
    /// Messages after this `seq` only, oldest first; not together with `before`.
    after: Option<i64>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// A page of a conversation, its newest messages unless asked otherwise.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/history", tag = "history",
    params(HistoryParams),
    responses((status = 200, description = "Messages, oldest first.", body = HistoryPage), Missing)
)]
pub(crate) async fn history(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(params): Params<HistoryParams>,
) -> Result<Response, Problem> {
    let session = match (params.session, params.session_key) {
        (Some(_), Some(_)) => {
            let detail = "give either session (an id) or session_key, not both";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        (Some(id), None) => SessionChoice::Id(SessionId::new(id)),
        (None, key) => SessionChoice::Key(permit.session_key(key, "main")?),
    };
    if params.before.is_some() && params.after.is_some() {
        let detail = "give either before or after, not both";
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let query = HistoryQuery {
        agent: extract::agent(&agent)?,
        session,
        view: params.view,
        before: params.before,
        after: params.after,
        limit: page_size(params.limit)?,
    };
    let page = doors.hive.history(query, permit.credential(), &permit.sight()).await?;
    let json = page.to_json()?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    /// `main` where it is left out.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    session_key: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Stopped {
    stopped: bool,
    turn: Option<TurnId>,
}

/// Ends the running or waiting turn of a conversation. What is queued goes on.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/stop", tag = "messages",
    request_body(content = Option<Stop>),
    responses(
        (status = 200, description = "Whether there was something to end.", body = Stopped),
        Missing, BadBody, NotKept
    )
)]
pub(crate) async fn stop(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    OptionalJsonBody(body): OptionalJsonBody<Stop>,
) -> Result<Json<Stopped>, Problem> {
    let agent = extract::agent(&agent)?;
    let key = permit.session_key(body.session_key, "main")?;
    let turn = doors.hive.stop(&agent, &key).await?;
    Ok(Json(Stopped { stopped: turn.is_some(), turn }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeOfLife {
    action: LifeCycle,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ChangedLife {
    /// It was otherwise before.
    changed: bool,
}

/// Pauses, stops, starts or restarts an agent. What is queued for it stays.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/life", tag = "agents",
    request_body = ChangeOfLife,
    responses(
        (status = 200, description = "Whether it was otherwise before.", body = ChangedLife),
        Missing, BadBody, NotKept
    )
)]
pub(crate) async fn life(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    JsonBody(body): JsonBody<ChangeOfLife>,
) -> Result<Json<ChangedLife>, Problem> {
    let agent = extract::agent(&agent)?;
    let changed = doors.hive.change_life(&agent, body.action, permit.principal()).await?;
    Ok(Json(ChangedLife { changed }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PromptParams {
    /// One of its subagents: the prompt of that one.
    #[param(min_length = 1, max_length = 64)]
    subagent: Option<String>,
}

/// What stands before the messages in the agent's next request, part by part, with its tokens.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/prompt", tag = "agents",
    params(PromptParams),
    responses(
        (status = 200, description = "As its engine sees it.", body = PromptInfo),
        Missing, Clash
    )
)]
pub(crate) async fn prompt(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
    Params(params): Params<PromptParams>,
) -> Result<Json<PromptInfo>, Problem> {
    Ok(Json(doors.hive.prompt(&extract::agent(&agent)?, params.subagent.as_deref())?))
}

/// The skills and subagents of an agent, and which files are left out.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/skills", tag = "agents",
    responses((status = 200, description = "In force now.", body = GuidanceInfo), Missing, Clash)
)]
pub(crate) async fn skills(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
) -> Result<Json<GuidanceInfo>, Problem> {
    Ok(Json(doors.hive.guidance(&extract::agent(&agent)?)?))
}

/// The text of an agent's `config.yaml`, and the settings in force.
///
/// Secrets in it are replaced; such a file has no `hash`, and is changed on the disk alone.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/settings", tag = "agents",
    responses(
        (status = 200, description = "The file, and what new turns use.", body = AgentFile),
        Missing, Clash
    )
)]
pub(crate) async fn settings(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
) -> Result<Json<AgentFile>, Problem> {
    Ok(Json(doors.hive.agent_file(&extract::agent(&agent)?).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WishedText {
    /// The whole file.
    #[schema(max_length = 262_144)]
    text: String,
}

/// Whether another text of an agent's `config.yaml` could be applied, and what differs.
///
/// Nothing is changed.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/settings/check", tag = "agents",
    request_body = WishedText,
    responses(
        (status = 200, description = "Its problems, and a diff.", body = FileCheck),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn check_settings(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
    JsonBody(body): JsonBody<WishedText>,
) -> Result<Json<FileCheck>, Problem> {
    Ok(Json(doors.hive.check_agent_file(&extract::agent(&agent)?, body.text).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplacedText {
    /// The whole file.
    #[schema(max_length = 262_144)]
    text: String,
    /// The `hash` of the text that it replaces.
    #[schema(min_length = 64, max_length = 64)]
    hash: String,
}

/// Replaces an agent's `config.yaml`.
///
/// The text is checked as the hive reads every file, and committed to the history of settings. It
/// is in force when this returns. Refused with `settings_changed` where the file is not the one
/// with this `hash` any more.
#[utoipa::path(
    put, path = "/api/v1/agents/{agent}/settings", tag = "agents",
    request_body = ReplacedText,
    responses(
        (status = 200, description = "The file, and what new turns use.", body = AgentFile),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn save_settings(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    JsonBody(body): JsonBody<ReplacedText>,
) -> Result<Json<AgentFile>, Problem> {
    let ReplacedText { text, hash } = body;
    let (agent, by) = (extract::agent(&agent)?, permit.principal());
    Ok(Json(doors.hive.save_agent_file(&agent, text, hash, by).await?))
}
