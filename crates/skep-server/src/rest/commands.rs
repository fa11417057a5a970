//! What may be typed instead of a message.

use axum::Json;
use serde::Serialize;
use skep_core::slash::{COMMANDS, CommandInfo};
use utoipa::ToSchema;

use crate::request::extract::{Nothing, Params};

#[derive(Serialize, ToSchema)]
pub(crate) struct Commands {
    commands: &'static [CommandInfo],
}

/// The commands every conversation understands, for help and completion.
#[utoipa::path(
    get, path = "/api/v1/commands", tag = "messages",
    responses((status = 200, description = "All of them, in the order of help.", body = Commands))
)]
pub(crate) async fn list(Params(Nothing {}): Params<Nothing>) -> Json<Commands> {
    Json(Commands { commands: COMMANDS })
}
