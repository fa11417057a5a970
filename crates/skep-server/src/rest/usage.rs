//! What model calls used, by hour or by day.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use skep_core::spend::Span;
use skep_runtime::usage::{UsagePage, UsageWish};
use utoipa::IntoParams;

use crate::door::state::Doors;
use crate::request::{Missing, Params, Problem, extract};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageParams {
    /// How finely: `hour` (of the present day), or `day` (the last thirty), which is what is
    /// meant without it, in UTC.
    #[param(inline)]
    by: Option<Span>,
    agent: Option<String>,
    /// Only what was asked of this profile.
    profile: Option<String>,
    /// Milliseconds since 1970: from the hour or day this is in. At most 14 days ago by hour, 366
    /// by day.
    since: Option<i64>,
}

/// What model calls used, by agent and model, and what it cost.
#[utoipa::path(
    get, path = "/api/v1/usage", tag = "hive", params(UsageParams),
    responses((status = 200, description = "The sums.", body = UsagePage), Missing)
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    Params(params): Params<UsageParams>,
) -> Result<Json<UsagePage>, Problem> {
    let wish = UsageWish {
        by: params.by.unwrap_or(Span::Day),
        agent: params.agent.as_deref().map(extract::agent).transpose()?,
        profile: params.profile,
        since: params.since,
    };
    Ok(Json(doors.hive.usage(wish).await?))
}
