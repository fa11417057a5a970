//! `Tool`: a hand of an agent. A failure is an answer, never a crash. Only the gate runs one.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::file::File;
use crate::ids::{AgentName, CallId, TurnId};
use crate::policy::Class;
use crate::provider::ToolSpec;
use crate::settings::SandboxSettings;

pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// What it does to the world, which decides where no rule does.
    fn class(&self) -> Class;

    /// Other names a model may use for it, such as `Read`.
    fn aliases(&self) -> &[&'static str] {
        &[]
    }

    /// Reads the arguments into their type. `Err` says which argument is wrong and what was
    /// expected; nothing has run then.
    fn prepare(&self, arguments: Value) -> Result<Prepared, String>;
}

/// A call whose arguments were understood and that has not run yet.
pub type Prepared = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolAnswer> + Send>;

#[derive(Clone, Debug)]
pub struct ToolContext {
    pub agent: AgentName,
    pub workspace: PathBuf,
    /// The agent's own folder, readable; absent where the agent has none.
    pub folder: Option<PathBuf>,
    pub sandbox: SandboxSettings,
    pub turn: TurnId,
    pub call: CallId,
    /// What was decided, when the call waited for a decision.
    pub decision: Option<Value>,
    pub cancel: CancellationToken,
    /// Ends what outlasts the turn: cancelled when the session is stopped or followed by a new one,
    /// when the agent goes, and when the hive stops. To be held by whatever heeds it.
    pub lasting: Arc<CancellationToken>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    Done {
        text: String,
        is_error: bool,
        details: Option<Value>,
        /// What the model is to see beside the text.
        files: Vec<File>,
    },
    /// The call waits for a decision; it runs again with it.
    Wait { reason: String },
}

impl ToolAnswer {
    pub fn ok(text: impl Into<String>) -> Self {
        Self::Done { text: text.into(), is_error: false, details: None, files: Vec::new() }
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Done { text: text.into(), is_error: true, details: None, files: Vec::new() }
    }
}
