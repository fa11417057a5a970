//! The model profiles, without their keys, and a try of one.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use skep_runtime::door::{ProviderInfo, ProviderTry};
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{Missing, Params, Problem, Segments};

#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderList {
    providers: Vec<ProviderInfo>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Look whether something answers at the address of each; no model is asked.
    #[serde(default)]
    check: bool,
}

/// The model profiles: vendor, model, where the key comes from.
///
/// Nothing is dialled, unless `check` asks for it.
#[utoipa::path(
    get, path = "/api/v1/providers", tag = "providers", params(ListParams),
    responses((status = 200, description = "Every profile, by name.", body = ProviderList))
)]
pub(crate) async fn list(
    State(doors): State<Doors>,
    Params(wanted): Params<ListParams>,
) -> Json<ProviderList> {
    let providers = match wanted.check {
        true => doors.hive.providers_reached().await,
        false => doors.hive.providers(),
    };
    Json(ProviderList { providers })
}

/// Asks the model of a profile for a word: a real call, which costs what it says.
#[utoipa::path(
    post, path = "/api/v1/providers/{name}/test", tag = "providers",
    params(("name" = String, Path, description = "A profile, or `vendor:model`.")),
    responses(
        (status = 200, description = "What became of it, good or bad.", body = ProviderTry),
        Missing,
    )
)]
pub(crate) async fn try_out(
    State(doors): State<Doors>,
    Segments(name): Segments<String>,
) -> Result<Json<ProviderTry>, Problem> {
    Ok(Json(doors.hive.try_provider(&name).await?))
}
