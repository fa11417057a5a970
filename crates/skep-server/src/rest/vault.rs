//! The vault: names, hosts and uses of its entries. A value comes in and never goes out.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use skep_core::ids::AgentName;
use skep_runtime::door::{SecretScan, VaultInfo, VaultRotation, VaultWish};
use skep_scrub::Secret;
use utoipa::{IntoParams, ToSchema};

use crate::door::state::Doors;
use crate::request::{
    BadBody, Clash, JsonBody, Missing, NotKept, OnlyNew, Params, Permit, Problem, Segments, extract,
};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VaultParams {
    /// The agent that the entry belongs to; the whole hive where it is left out.
    agent: Option<String>,
}

/// The vault without its values.
///
/// Looks for a key that was missing: entries that open with it are usable when this returns.
#[utoipa::path(
    get, path = "/api/v1/vault", tag = "vault",
    responses((status = 200, description = "Its key and its entries.", body = VaultInfo))
)]
pub(crate) async fn show(State(doors): State<Doors>) -> Json<VaultInfo> {
    Json(doors.hive.vault().await)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEntry {
    /// Left out, the value that is there stays.
    #[schema(min_length = 8, max_length = 16384)]
    value: Option<String>,
    /// Hosts that `web_fetch` may send it to, such as `api.example.org` or `*.example.org:8443`.
    /// Left out, those that are there stay; with none it is not sent anywhere.
    hosts: Option<Vec<String>>,
}

/// Sets an entry of the vault, or its hosts.
///
/// Profiles that name it use it when this returns. With `If-None-Match: *` an entry that is there
/// already stays as it is, and the answer is 409 `vault_exists`.
#[utoipa::path(
    put, path = "/api/v1/vault/entries/{name}", tag = "vault", request_body = NewEntry,
    params(("name" = String, Path, pattern = "^[A-Za-z][A-Za-z0-9_.-]{0,63}$",
            description = "Letters, digits, dashes, dots, underscores; the first is a letter."),
           VaultParams, OnlyNew),
    responses((status = 204, description = "It is set."), Missing, Clash, BadBody, NotKept)
)]
pub(crate) async fn set(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(name): Segments<String>,
    Params(VaultParams { agent }): Params<VaultParams>,
    OnlyNew(is_new): OnlyNew,
    JsonBody(NewEntry { value, hosts }): JsonBody<NewEntry>,
) -> Result<StatusCode, Problem> {
    let agent = agent.as_deref().map(extract::agent).transpose()?;
    let value = value.map(|value| Secret::new(&name, value));
    let wish = VaultWish { name, agent, value, hosts, is_new };
    doors.hive.set_vault_entry(wish, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes an entry of the vault.
#[utoipa::path(
    delete, path = "/api/v1/vault/entries/{name}", tag = "vault",
    params(("name" = String, Path, description = "The name of an entry."), VaultParams),
    responses((status = 204, description = "It is gone."), Missing, Clash, NotKept)
)]
pub(crate) async fn remove(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(name): Segments<String>,
    Params(VaultParams { agent }): Params<VaultParams>,
) -> Result<StatusCode, Problem> {
    // An agent that is gone is listed by its id.
    let agent = agent.map(|agent| match agent.starts_with("id:") {
        true => Ok(AgentName(agent)),
        false => extract::agent(&agent),
    });
    let agent = agent.transpose()?;
    doors.hive.remove_vault_entry(agent.as_ref(), &name, permit.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a new key and seals every entry with it.
///
/// The old key stays in its file: another home or a backup may need it.
#[utoipa::path(
    post, path = "/api/v1/vault/rotate", tag = "vault",
    responses(
        (status = 200, description = "The new key and how much it seals.", body = VaultRotation),
        Clash, NotKept
    )
)]
pub(crate) async fn rotate(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Json<VaultRotation>, Problem> {
    Ok(Json(doors.hive.rotate_vault(permit.principal()).await?))
}

#[derive(Serialize, ToSchema)]
pub(crate) struct MovedSecrets {
    /// The entries that hold them now.
    entries: Vec<String>,
}

/// Moves `keys.env` and secrets written out in `providers.yaml` into the vault.
#[utoipa::path(
    post, path = "/api/v1/vault/move", tag = "vault",
    responses(
        (status = 200, description = "The names of the entries.", body = MovedSecrets),
        Clash, NotKept
    )
)]
pub(crate) async fn move_in(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Json<MovedSecrets>, Problem> {
    let entries = doors.hive.move_secrets(permit.principal()).await?;
    Ok(Json(MovedSecrets { entries }))
}

/// Looks for secrets in the clear, in the files of the home and in the rows of the database.
///
/// Names each with its place and who can make it void, never its value. May take a while.
#[utoipa::path(
    post, path = "/api/v1/secrets/scan", tag = "vault",
    responses((status = 200, description = "What was found.", body = SecretScan), NotKept)
)]
pub(crate) async fn scan(State(doors): State<Doors>) -> Result<Json<SecretScan>, Problem> {
    Ok(Json(doors.hive.scan_secrets().await?))
}
