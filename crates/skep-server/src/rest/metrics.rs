//! `/metrics`: the counts of the hive and its doors, in the OpenMetrics text form.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::door::state::Doors;
use crate::request::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts, for a system that watches the hive.
#[utoipa::path(
    get, path = "/metrics", tag = "hive",
    responses((status = 200, description = "OpenMetrics text.", body = String,
               content_type = "application/openmetrics-text"))
)]
pub(crate) async fn show(State(doors): State<Doors>) -> Result<Response, Problem> {
    let metrics = &doors.metrics;
    metrics.look(&doors.hive, doors.hub.sockets()).await?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.text()?).into_response())
}
