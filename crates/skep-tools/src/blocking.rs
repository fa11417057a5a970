//! Work on files, off the async threads.

use skep_core::tool::{Prepared, ToolAnswer, ToolContext};
use skep_guard::work;
use skep_guard::workspace::Workspace;

use crate::governance::GOVERNED;

/// What a tool found out, or the text of its refusal.
pub(crate) type ToolOutcome = Result<ToolAnswer, String>;

/// A call that does `work` with the agent's workspace. The work looks at `context.cancel` itself:
/// a thread cannot be taken away from it.
pub(crate) fn prepared(
    work: impl FnOnce(&Workspace, &ToolContext) -> ToolOutcome + Send + 'static,
) -> Prepared {
    Box::new(move |context| Box::pin(in_workspace(context, work)))
}

async fn in_workspace(
    context: ToolContext,
    work: impl FnOnce(&Workspace, &ToolContext) -> ToolOutcome + Send + 'static,
) -> ToolAnswer {
    let all = move || {
        let workspace = open(&context).map_err(|error| {
            format!("no_workspace: {} cannot be opened: {error}", context.workspace.display())
        })?;
        work(&workspace, &context)
    };
    match work::spawn(all).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(text)) => ToolAnswer::error(text),
        Err(_) => ToolAnswer::error("the tool was broken off"),
    }
}

/// The agent's workspace; to look at, its own folder and the long answers of this conversation.
fn open(context: &ToolContext) -> std::io::Result<Workspace> {
    let mut workspace = Workspace::open(&context.workspace)?.with_judged(context.judged.clone());
    if let Some(outputs) = context.kept_outputs() {
        workspace = workspace.with_read_only(outputs)?;
    }
    match &context.folder {
        Some(folder) => workspace.with_settings(folder, GOVERNED),
        None => Ok(workspace),
    }
}

pub(crate) fn cancelled() -> String {
    "cancelled".to_owned()
}
