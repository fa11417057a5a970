//! Files of an agent's workspace, to be read.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use skep_runtime::door::WorkspaceItem;
use utoipa::IntoParams;

use crate::door::state::Doors;
use crate::request::{Clash, Missing, Params, Permit, Problem, Segments, extract};
use crate::rest::files::{self, FileContent};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkspaceParams {
    /// From the workspace on; the workspace itself where it is left out.
    #[param(example = "notes/week-47.md")]
    path: Option<String>,
    /// Of a folder: all files below it with this text in their path, in place of its entries.
    filter: Option<String>,
    /// Of a folder: what comes after this entry, by its path.
    after: Option<String>,
}

/// A folder of an agent's workspace, or the text of a file.
///
/// Links are followed as long as they stay in the workspace. Of a text the first 256 KiB, with
/// secrets of the hive replaced by their names. Of a folder 1000 entries; with `cut` more
/// come after the last one.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/workspace", tag = "workspace",
    params(WorkspaceParams),
    responses((status = 200, description = "What is there.", body = WorkspaceItem), Missing, Clash)
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(WorkspaceParams { path, filter, after }): Params<WorkspaceParams>,
) -> Result<Json<WorkspaceItem>, Problem> {
    let agent = extract::agent(&agent)?;
    let path = path.unwrap_or_else(|| ".".to_owned());
    let filter = filter.filter(|text| !text.is_empty());
    Ok(Json(doors.hive.workspace(&agent, path, (filter, after), &permit.sight()).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileParams {
    /// From the workspace on.
    path: String,
}

/// The content of a file of an agent's workspace, of up to 16 MiB.
///
/// Pictures come as what they are; everything else is for saving, never for showing here. Secrets
/// of the hive are replaced in text; another kind of file that has one is not sent.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/workspace/content", tag = "workspace",
    params(FileParams),
    responses(
        (status = 200, description = "The content.", content(
            (FileContent = "application/octet-stream"), (FileContent = "image/png"),
            (FileContent = "image/jpeg"), (FileContent = "image/gif"), (FileContent = "image/webp")
        )),
        Missing, Clash
    )
)]
pub(crate) async fn content(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(FileParams { path }): Params<FileParams>,
) -> Result<Response, Problem> {
    let agent = extract::agent(&agent)?;
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let file = doors.hive.workspace_content(&agent, path, &permit.sight()).await?;
    let picture = file.picture;
    Ok(files::answer(&name, picture, Body::from_stream(file.pieces()), "no-store"))
}
