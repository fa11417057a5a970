//! Search over what was said.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use skep_runtime::door::{SearchPage, SearchWish};
use utoipa::IntoParams;

use crate::door::state::Doors;
use crate::request::{Missing, Params, Permit, Problem, extract};

const USUAL_PAGE: u32 = 20;
const LARGEST_PAGE: u32 = 100;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// Words that must all be there; `"a phrase"`, `start*`, `-without`, `this OR that`.
    #[param(min_length = 1, max_length = 400)]
    q: String,
    /// Only what was said to and by this agent.
    agent: Option<String>,
    /// What the page before gave as `before`.
    before: Option<i64>,
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
}

/// Messages of people and agents with these words, newest first.
///
/// Case and accents do not matter. Thinking, tool calls and their results are not searched.
#[utoipa::path(
    get, path = "/api/v1/search", tag = "history", params(SearchParams),
    responses(
        (status = 200, description = "Of the sessions you may see.", body = SearchPage), Missing
    )
)]
pub(crate) async fn search(
    State(doors): State<Doors>,
    permit: Permit,
    Params(params): Params<SearchParams>,
) -> Result<Json<SearchPage>, Problem> {
    let limit = params.limit.unwrap_or(USUAL_PAGE);
    if limit == 0 || limit > LARGEST_PAGE {
        let detail = format!("limit must be between 1 and {LARGEST_PAGE}");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let wish = SearchWish {
        query: params.q,
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        before: params.before,
        limit,
    };
    let reader = (permit.principal(), permit.credential());
    Ok(Json(doors.hive.search(wish, reader, &permit.sight()).await?))
}
