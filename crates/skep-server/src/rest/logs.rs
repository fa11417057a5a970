//! What the hive noted, for operators elsewhere: `skep logs --url`.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use skep_runtime::logs::{LogLine, LogQuery, MOST_LINES};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{Params, Problem};

const USUAL_LINES: usize = 100;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// This level and above: error, warn, info, debug, trace.
    #[param(example = "warn")]
    level: Option<String>,
    agent: Option<String>,
    turn: Option<String>,
    /// Milliseconds since 1970.
    since: Option<i64>,
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// `next` of an earlier answer.
    after: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Noted {
    /// In the order in which they were written.
    lines: Vec<LogLine>,
    /// Where the next lines will be: give it as `after`.
    next: Option<String>,
}

/// The newest lines of the log, or those after a place in it.
#[utoipa::path(
    get, path = "/api/v1/logs", tag = "hive", params(LogParams),
    responses((status = 200, description = "Lines of the log.", body = Noted))
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    Params(asked): Params<LogParams>,
) -> Result<Json<Noted>, Problem> {
    let invalid = |detail: String| Problem::bad_request("invalid_query", detail);
    let limit = asked.limit.unwrap_or(USUAL_LINES);
    if !(1..=MOST_LINES).contains(&limit) {
        return Err(invalid(format!("limit is 1 to {MOST_LINES}")));
    }
    let query = LogQuery {
        level: asked.level.map(|word| word.parse()).transpose().map_err(invalid)?,
        agent: asked.agent,
        turn: asked.turn,
        since: asked.since,
        limit,
        after: asked.after.map(|place| place.parse()).transpose().map_err(invalid)?,
    };
    let page = doors.hive.logs(query).await?;
    let next = page.next.map(|place| place.to_string());
    Ok(Json(Noted { lines: page.lines, next }))
}
