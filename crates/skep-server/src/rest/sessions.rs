//! Sessions of an agent: listing them, what a person does with one, carrying them out and in.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use skep_core::ids::{SessionId, SessionKey};
use skep_guard::random;
use skep_runtime::door::{
    FileChanges, Followed, ForkWish, HistoryForm, ImportReport, Inbound, Receipt, SessionEdit,
    SessionInfo, SessionPage, SessionQuery, Source,
};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{
    BadBody, Clash, IdempotencyKey, JsonBody, LINES, Missing, NoAnswerYet, NotKept, OnClose,
    OptionalJsonBody, Params, Permit, Problem, Segments, extract, only, page_size,
};
use crate::rest::messages::{self, Wait};
use crate::rest::{LINES_FILE, MARKDOWN_FILE, saved_file};
use crate::stream::sse::Sse;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionParams {
    /// `false`: those that are not archived; `true`: those that are. All where it is left out.
    archived: Option<bool>,
    /// What the page before gave as `after`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// The sessions of an agent: the pinned ones first, then the latest.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/sessions", tag = "sessions",
    params(SessionParams),
    responses((status = 200, description = "Those you may see.", body = SessionPage), Missing)
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(params): Params<SessionParams>,
) -> Result<Json<SessionPage>, Problem> {
    let agent = extract::agent(&agent)?;
    let SessionParams { archived, after, limit } = params;
    let query = SessionQuery { archived, after, limit: page_size(limit)? };
    let (credential, sight) = (permit.credential(), permit.sight());
    Ok(Json(doors.hive.sessions(&agent, query, credential, &sight).await?))
}

/// One session.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/sessions/{id}", tag = "sessions",
    responses((status = 200, description = "What is known of it.", body = SessionInfo), Missing)
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
) -> Result<Json<SessionInfo>, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let info = doors.hive.session(&agent, &session, &permit.sight()).await?;
    let cache_breaks = doors.hive.cache_breaks(&info.agent, &session, permit.credential()).await?;
    let attachments = doors.hive.attachments(&session).await?;
    Ok(Json(SessionInfo { cache_breaks, attachments, ..info }))
}

/// What tools changed in files in a session: the diffs of `write` and `edit`, up to 2 MiB, the
/// newest where there are more.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/sessions/{id}/changes", tag = "sessions",
    responses((status = 200, description = "Oldest first.", body = FileChanges), Missing)
)]
pub(crate) async fn changes(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
) -> Result<Json<FileChanges>, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let (credential, sight) = (permit.credential(), permit.sight());
    Ok(Json(doors.hive.changes(&agent, &session, credential, &sight).await?))
}

/// Names, pins or archives a session, or takes that back.
///
/// What is left out stays as it is. Whoever watches hears of it as `session_changed`.
#[utoipa::path(
    patch, path = "/api/v1/agents/{agent}/sessions/{id}", tag = "sessions",
    request_body(content = SessionEdit),
    responses(
        (status = 200, description = "The session as it is now.", body = SessionInfo),
        Missing, BadBody, NotKept
    )
)]
pub(crate) async fn edit(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
    JsonBody(edit): JsonBody<SessionEdit>,
) -> Result<Json<SessionInfo>, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    Ok(Json(doors.hive.edit_session(&agent, &session, edit, &permit.sight()).await?))
}

/// Deletes a session: its messages, their files and notes, and what the search finds of them.
///
/// The audit trail and what was spent stay. Refused while a turn of it runs or waits, or a message
/// for it is queued. Whoever watches hears of it as `session_deleted`.
#[utoipa::path(
    delete, path = "/api/v1/agents/{agent}/sessions/{id}", tag = "sessions",
    responses((status = 204, description = "It is gone."), Missing, Clash, NotKept)
)]
pub(crate) async fn delete(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let (principal, credential) = (permit.principal(), permit.credential());
    let sight = permit.sight();
    doors.hive.delete_session(&agent, &session, principal, credential, &sight).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last message to keep; else all of them. It cannot stand between a tool call and its
    /// result.
    #[schema(minimum = 1)]
    at: Option<i64>,
    /// Leads to the fork from then on; made up where it is left out.
    #[schema(min_length = 1, max_length = 200)]
    session_key: Option<String>,
}

/// A new session that begins as a copy of this one.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/sessions/{id}/fork", tag = "sessions",
    request_body(content = Option<Fork>),
    responses(
        (status = 201, description = "The new session.", body = SessionInfo),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn fork(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
    OptionalJsonBody(body): OptionalJsonBody<Fork>,
) -> Result<Response, Problem> {
    let made_up = random::uuid().simple().to_string();
    let made_up = format!("fork-{}", made_up.get(20..).unwrap_or(&made_up));
    let wish = ForkWish {
        agent: extract::agent(&agent)?,
        from: SessionId::new(session),
        at: body.at,
        session_key: permit.session_key(body.session_key, &made_up)?,
    };
    let info = doors.hive.fork(wish, &permit.sight()).await?;
    Ok((StatusCode::CREATED, Json(info)).into_response())
}

/// Answers the last message of a session anew.
///
/// The message is sent again in a copy of the session that ends before it, so that the model does
/// not see the answer there is. The key leads to the copy from then on; the session is archived.
/// What tools changed stays changed. Refused while a turn of it runs or waits, or a message for it
/// is queued.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/sessions/{id}/regenerate", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of a session that its key leads to now."),
        IdempotencyKey
    ),
    responses(
        (status = 202, description = "Accepted: follow the new item.", body = Receipt),
        Missing, Clash, NotKept
    )
)]
pub(crate) async fn regenerate(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
    IdempotencyKey(key): IdempotencyKey,
) -> Result<(StatusCode, Json<Receipt>), Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let (hive, sight) = (&doors.hive, permit.sight());
    let (principal, credential) = (permit.principal(), permit.credential());
    let receipt = hive.regenerate(&agent, &session, key, principal, credential, &sight).await?;
    Ok((StatusCode::ACCEPTED, Json(receipt)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compact {
    /// What the notes have to hold above all.
    #[schema(max_length = 10000)]
    keep: Option<String>,
}

/// Summarises the older messages for the model, as `/compact` does.
///
/// A turn of the session asks the model for them, so it waits for the one that runs. The history
/// keeps every message.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/sessions/{id}/compact", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of a session that its key leads to now."),
        Wait, IdempotencyKey
    ),
    request_body(content = Option<Compact>),
    responses(
        (status = 200, description = "With `wait`: it has ended. With `stream`: events.",
         content((Followed = "application/json"), (Sse = "text/event-stream"))),
        (status = 202, description = "It is kept and goes on by itself.", body = Receipt),
        Missing, Clash, BadBody, NotKept, NoAnswerYet
    )
)]
pub(crate) async fn compact(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
    Params(wait): Params<Wait>,
    key: IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody<Compact>,
) -> Result<Response, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let info = doors.hive.session(&agent, &session, &permit.sight()).await?;
    if !info.current {
        let detail = format!(
            "the key {} leads to another session now; fork this one to go on with it",
            info.session_key
        );
        return Err(Problem::new(StatusCode::CONFLICT, "not_current", detail));
    }
    let keep = body.keep.unwrap_or_default();
    let inbound = Inbound {
        agent,
        session_key: info.session_key,
        text: format!("/compact {keep}").trim_end().to_owned(),
        attachments: Vec::new(),
        mode: None,
        think: None,
        principal: permit.principal().clone(),
        source: Source::Api { key: key.0 },
    };
    messages::submit(&doors, &permit, wait, OnClose::Keep, (inbound, None)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// `skep` where it is left out.
    #[param(inline)]
    format: Option<HistoryForm>,
}

/// Every message of a session as a file of JSON lines, or of Markdown.
///
/// One message a line, as it is stored. Posted to the sessions of an agent of the same name it
/// becomes the same session again. With the format `seed` a line has `timestamp` (seconds), `role`,
/// `content` and `meta`, and of a tool's result which call it answers. `markdown` is what was said,
/// for people.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/sessions/{id}/export", tag = "sessions",
    params(ExportParams),
    responses(
        (status = 200, description = "Messages, oldest first.",
         content((String = "application/x-ndjson"), (String = "text/markdown"))),
        Missing
    )
)]
pub(crate) async fn export(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, session)): Segments<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let (agent, session) = (extract::agent(&agent)?, SessionId::new(session));
    let form = params.format.unwrap_or_default();
    let (reader, sight) = ((permit.principal(), permit.credential()), permit.sight());
    let pieces = doors.hive.export(&agent, &session, form, reader, &sight).await?;
    let kind = if form == HistoryForm::Markdown { MARKDOWN_FILE } else { LINES_FILE };
    Ok(saved_file(&format!("{agent}-{session}"), kind, pieces))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportParams {
    /// Leads to the session, unless it leads to another one; `import:ID` where it is left out.
    #[param(min_length = 1, max_length = 200)]
    session_key: Option<String>,
}

/// Takes in a session that was exported: all of it, or nothing.
///
/// Ids, numbers and times stay; lines without them (the format `seed`) get some. The same session
/// again changes nothing; one of the same id with other messages is refused.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/sessions", tag = "sessions",
    params(ImportParams),
    request_body(content = String, content_type = "application/x-ndjson",
                 description = "What the export of a session gave."),
    responses(
        (status = 200, description = "What became of it.", body = ImportReport),
        Missing, Clash, BadBody, NotKept
    )
)]
pub(crate) async fn import(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<Json<ImportReport>, Problem> {
    let agent = extract::agent(&agent)?;
    let text = read_lines(request).await?;
    let key = params.session_key.map(SessionKey::new);
    Ok(Json(doors.hive.import(&agent, key, text).await?))
}

async fn read_lines(request: Request) -> Result<String, Problem> {
    let (parts, body) = request.into_parts();
    let kind = only(&parts.headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(LINES) {
        let detail = format!("the body must be JSON lines and say so: Content-Type: {LINES}");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_lines", detail));
    }
    let bytes = extract::read(&parts.headers, body, extract::LINES_BYTES).await?;
    String::from_utf8(bytes.into())
        .map_err(|_| Problem::bad_request("bad_import", "the body is not UTF-8 text"))
}
