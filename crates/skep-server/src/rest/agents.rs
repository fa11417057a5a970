//! Agents, their history, and ending what they do.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::ids::SessionId;
use skep_core::message::View;
use skep_runtime::door::{HistoryPage, HistoryQuery, SessionChoice};

use crate::doors::Doors;
use crate::extract::{self, OptionalJsonBody, Params, Segments};
use crate::problem::Problem;

const USUAL_PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;

/// No parameters, and none accepted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

pub(crate) async fn list(
    State(doors): State<Doors>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Json<Value>, Problem> {
    let agents = doors.hive.agents().await?;
    Ok(Json(json!({ "agents": agents })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryParams {
    session: Option<String>,
    session_key: Option<String>,
    #[serde(default)]
    view: View,
    before: Option<i64>,
    limit: Option<u32>,
}

pub(crate) async fn history(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
    Params(params): Params<HistoryParams>,
) -> Result<Json<HistoryPage>, Problem> {
    let session = match (params.session, params.session_key) {
        (Some(_), Some(_)) => {
            let detail = "give either session (an id) or session_key, not both";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        (Some(id), None) => SessionChoice::Id(SessionId::new(id)),
        (None, key) => SessionChoice::Key(extract::session_key(key, "main")),
    };
    let query = HistoryQuery {
        agent: extract::agent(&agent)?,
        session,
        view: params.view,
        before: params.before,
        limit: page_size(params.limit)?,
    };
    Ok(Json(doors.hive.history(query).await?))
}

pub(crate) fn page_size(given: Option<u32>) -> Result<u32, Problem> {
    match given.unwrap_or(USUAL_PAGE) {
        size @ 1..=LARGEST_PAGE => Ok(size),
        _ => {
            let detail = format!("limit must be between 1 and {LARGEST_PAGE}");
            Err(Problem::bad_request("invalid_query", detail))
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    session_key: Option<String>,
}

pub(crate) async fn stop(
    State(doors): State<Doors>,
    Segments(agent): Segments<String>,
    Params(Nothing {}): Params<Nothing>,
    OptionalJsonBody(body): OptionalJsonBody<Stop>,
) -> Result<Json<Value>, Problem> {
    let agent = extract::agent(&agent)?;
    let key = extract::session_key(body.session_key, "main");
    let turn = doors.hive.stop(&agent, &key).await?;
    Ok(Json(json!({ "stopped": turn.is_some(), "turn": turn })))
}
