//! `write`: puts a whole file in place, atomically.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::workspace::{Folders, PathRefusal, Workspace};

use crate::blocking::{self, ToolOutcome};
use crate::diff;
use crate::governance::{self, Governance};
use crate::spec::{self, FILE_PATH, spec, text};

#[derive(Debug)]
pub struct WriteTool {
    spec: ToolSpec,
    governance: Option<Arc<Governance>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    content: String,
}

impl WriteTool {
    /// Without `governance` the settings stay as they are.
    pub fn new(governance: Option<Arc<Governance>>) -> Self {
        let description = "Writes a whole file of the workspace, replacing what was there. Folders \
             on the way are made. To change part of a file use edit.";
        let properties = json!({
            "file_path": text(FILE_PATH),
            "content": text("The file's whole content."),
        });
        let spec = spec("write", description, properties, &["file_path", "content"]);
        Self { spec, governance }
    }
}

impl Tool for WriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, arguments: &Value, of: AgentReach<'_>) -> Manner {
        Manner::effect(governance::class(arguments, of.folder))
    }

    fn aliases(&self) -> &[&'static str] {
        &["Write"]
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let arguments: Arguments =
            spec::read(arguments, "write takes file_path and content (texts)")?;
        let governance = self.governance.clone();
        Ok(blocking::prepared(move |workspace, context| {
            answer(&arguments, governance.as_deref(), workspace, context)
        }))
    }
}

fn answer(
    arguments: &Arguments,
    governance: Option<&Governance>,
    workspace: &Workspace,
    context: &ToolContext,
) -> ToolOutcome {
    if context.cancel.is_cancelled() {
        return Err(blocking::cancelled());
    }
    let (path, content) = (&arguments.file_path, arguments.content.as_bytes());
    let refused = |refusal: PathRefusal| refusal.to_string();
    let target = workspace.target(path, Folders::Create).map_err(refused)?;
    let before = match target.exists().then(|| target.read(diff::DIFFED_BYTES)) {
        None => Some(Vec::new()),
        Some(Ok(before)) => Some(before),
        // It is replaced all the same; only the diff is missing then.
        Some(Err(PathRefusal::TooLarge { .. } | PathRefusal::NoPermission { .. })) => None,
        Some(Err(refusal)) => return Err(refused(refusal)),
    };
    let commit =
        governance::put("write", governance, workspace, context, (&target, path), content)?;
    let done = if target.exists() { "replaced" } else { "created" };
    let diff = before.and_then(|before| diff::unified(path, &before, content));
    Ok(ToolAnswer::Done {
        text: format!("{done} {path}: {} bytes{}", content.len(), governance::note(&commit)),
        is_error: false,
        files: Vec::new(),
        details: Some(json!({ "bytes": content.len(), "diff": diff, "commit": commit })),
    })
}
