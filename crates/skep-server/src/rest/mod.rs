//! `/api/v1`: one file per noun, each handler a call of the hive and its answer as JSON. `routes`
//! says how a route is declared.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod budgets;
pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod hive;
pub(crate) mod items;
pub(crate) mod logs;
mod message_stream;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod policies;
pub(crate) mod providers;
pub(crate) mod questions;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod vault;
pub(crate) mod workspace;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use skep_runtime::door::DoorError;

use crate::request::LINES;

/// How the name of a file ends, and its content type.
type FileKind = (&'static str, &'static str);
const LINES_FILE: FileKind = ("jsonl", LINES);
const MARKDOWN_FILE: FileKind = ("md", "text/markdown; charset=utf-8");

/// An answer to be kept as a file of this name, which has no quotes in it.
fn saved_file(
    name: &str,
    (ending, kind): FileKind,
    pieces: impl Stream<Item = Result<String, DoorError>> + Send + 'static,
) -> Response {
    let file = format!("attachment; filename=\"{name}.{ending}\"");
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, file.as_str())];
    (headers, Body::from_stream(pieces)).into_response()
}
