//! Files of an agent's workspace, and what a conversation changed in files.

use serde::Serialize;
use skep_core::Millis;
use utoipa::ToSchema;

/// A folder or a file of an agent's workspace.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct WorkspaceItem {
    /// From the workspace on, links followed; `.` for the workspace itself.
    pub path: String,
    /// Of a folder: folders first, each kind by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<WorkspaceEntry>>,
    /// Of a text, without secrets of the hive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of a picture: its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<&'static str>,
    /// There is more than these entries or this text.
    pub cut: bool,
    /// Of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Millis>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkspaceEntry {
    /// From the workspace on.
    pub path: String,
    pub kind: WorkspaceKind,
    pub size: u64,
    pub modified_at: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    Folder,
    File,
    Link,
    /// Cannot be opened: a pipe, a socket, a device, or a name that is not UTF-8.
    Other,
}

/// What `write` and `edit` changed in a conversation. What commands changed is not known.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FileChanges {
    /// Oldest first.
    pub changes: Vec<FileChange>,
    /// There are older ones.
    pub cut: bool,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FileChange {
    /// From the workspace on; absolute for a file elsewhere.
    pub path: String,
    pub at: Millis,
    /// The message that asked for it.
    pub seq: i64,
    /// As a unified diff.
    pub diff: String,
}
