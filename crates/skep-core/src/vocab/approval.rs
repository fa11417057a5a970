//! Words of approvals: a person's decision on one call.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::vocab::words::words;

words! {
    /// open → approved | denied | withdrawn | expired; an expired one can be opened again.
    ApprovalState {
        Open = "open",
        Approved = "approved",
        Denied = "denied",
        /// Nobody decided in time. The agent sees that, and it is not a denial.
        Expired = "expired",
        /// Its turn ended first.
        Withdrawn = "withdrawn",
    }
    /// What waits for the decision.
    ApprovalKind {
        /// The call itself.
        Call = "call",
        /// Nobody: the call has its answer, and runs by itself once it is approved.
        Shape = "shape",
    }
    /// The scope of an approval.
    Scope {
        /// This call.
        Once = "once",
        /// Calls like it in this session.
        Session = "session",
        /// Calls like it from now on: a rule of the agent.
        Always = "always",
    }
}

/// The kind of an entry that stands for a workspace.
pub const WORKSPACE: &str = "workspace";

/// A file or folder that a call names or may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedFile {
    /// As the call names it; `.` is the workspace.
    pub path: String,
    /// Where it leads, when that is another path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// `file`, `folder`, `other`; `written` of a file that a redirection writes; `workspace` where
    /// it stands for everything in there.
    pub kind: String,
    /// Of a file's content, absent where it is not read; of a folder, over path, inode, size and
    /// time of change of everything in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
}

/// Which files a yes is tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Those the call names.
    Named,
    /// Everything in the workspace.
    Workspace,
    /// None: there are too many.
    Nothing,
}

impl Bound {
    /// As the files of a question tell it.
    pub fn of(files: &[NamedFile]) -> Self {
        match files.iter().find(|file| file.kind == WORKSPACE) {
            None => Self::Named,
            Some(NamedFile { sha256: Some(_), .. }) => Self::Workspace,
            Some(_) => Self::Nothing,
        }
    }
}
