//! The model profiles, without their keys, a try of one, a new one and its removal.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use skep_runtime::door::{ProfileDraft, ProviderInfo, ProviderTry};
use skep_scrub::Secret;
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{Clash, JsonBody, Missing, NotKept, Params, Permit, Problem, Segments};

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

/// A model profile to be saved.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewProfile {
    /// `anthropic`, `openai`, `openai-responses` or `ollama`.
    #[schema(max_length = 500)]
    provider: String,
    /// The model's name at the vendor.
    #[schema(max_length = 500)]
    model: String,
    /// Base address of a compatible server. Left out: the one it has, else the vendor's own.
    #[schema(max_length = 500)]
    api_url: Option<String>,
    /// Kept in `keys.env` and never shown again. Left out, the key that is there stays.
    #[schema(min_length = 8, max_length = 4096)]
    api_key: Option<String>,
}

/// Tries a model profile and saves it if its model answers.
///
/// One that was written by hand is not changed. A key goes with the address it was given for: for
/// another address it is given again. The new profile is in force when this returns.
#[utoipa::path(
    put, path = "/api/v1/providers/{name}", tag = "providers", request_body = NewProfile,
    params(("name" = String, Path, description = "`default`, or another name for the profile.")),
    responses(
        (status = 200, description = "It is saved; what the try used.", body = ProviderTry),
        Clash, NotKept,
    )
)]
pub(crate) async fn save(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(name): Segments<String>,
    JsonBody(body): JsonBody<NewProfile>,
) -> Result<Json<ProviderTry>, Problem> {
    let NewProfile { provider, model, api_url, api_key } = body;
    let key = api_key.map(|key| Secret::new(format!("{name}.api_key"), key));
    let draft = ProfileDraft { name, provider, model, api_url, key };
    Ok(Json(doors.hive.set_profile(draft, permit.principal()).await?))
}

/// Removes a model profile that no agent uses.
///
/// One that was written by hand is not touched. Its key is removed from `keys.env` where no other
/// profile uses it.
#[utoipa::path(
    delete, path = "/api/v1/providers/{name}", tag = "providers",
    params(("name" = String, Path, description = "The name of a profile.")),
    responses((status = 204, description = "It is gone."), Missing, Clash, NotKept)
)]
pub(crate) async fn remove(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(name): Segments<String>,
) -> Result<StatusCode, Problem> {
    doors.hive.remove_profile(&name, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}
