//! `glob`: files by the pattern of their path, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Subject, Tool, ToolAnswer, ToolContext};
use skep_guard::workspace::{Opened, Workspace};

use crate::blocking::{self, ToolOutcome};
use crate::spec::{self, spec, text};
use crate::walk::{self, FileFilter, Next, WalkEnd};

/// The most paths in one answer.
const MOST_PATHS: usize = 1000;
/// Room left in an answer for the closing note.
const NOTE_BYTES: usize = 256;

#[derive(Debug)]
pub struct GlobTool {
    spec: ToolSpec,
    output_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

impl GlobTool {
    /// `output_bytes` is what the gate lets an answer hold.
    pub fn new(output_bytes: usize) -> Self {
        let description = "Finds files of the workspace by a glob such as `**/*.rs`, `src/*.md` or \
             `*.toml` (without a slash: in any folder), newest first. Hidden files and those that \
             .gitignore or .ignore exclude are left out; to look into a hidden folder, give it as \
             path.";
        let properties = json!({
            "pattern": text("The glob."),
            "path": text("Folder to look in; the pattern starts there. Default: the workspace."),
        });
        let spec = spec("glob", description, properties, &["pattern"]);
        Self { spec, output_bytes }
    }
}

impl Tool for GlobTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::READ
    }

    fn aliases(&self) -> &[&'static str] {
        &["Glob"]
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::beneath(arguments)
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let arguments: Arguments = spec::read(arguments, "glob takes pattern and path (texts)")?;
        if arguments.pattern.is_empty() {
            return Err("pattern is empty; `**/*` finds all files".to_owned());
        }
        let choice = FileFilter::new(Some(&arguments.pattern), None)?;
        let output_bytes = self.output_bytes;
        Ok(blocking::prepared(move |workspace, context| {
            answer(&arguments, &choice, output_bytes, workspace, context)
        }))
    }
}

fn answer(
    arguments: &Arguments,
    choice: &FileFilter,
    output_bytes: usize,
    workspace: &Workspace,
    context: &ToolContext,
) -> ToolOutcome {
    let path = arguments.path.as_deref().unwrap_or(".");
    let start = match workspace.open_any(path).map_err(|refusal| refusal.to_string())? {
        Opened::Folder(folder) => folder,
        Opened::File(_) => return Err(format!("not_a_folder: {path} is a file")),
    };
    // The newest so far, the oldest of them on top: no more is held than can be shown.
    let mut newest: BinaryHeap<(Reverse<i64>, String)> = BinaryHeap::new();
    let mut found = 0;
    let walked = walk::files(workspace, start, choice, &context.cancel, &mut |file| {
        found += 1;
        newest.push((Reverse(file.modified_ms), walk::line(file.path)));
        if newest.len() > MOST_PATHS {
            newest.pop();
        }
        Next::GoOn
    });
    if walked == WalkEnd::Cancelled {
        return Err(blocking::cancelled());
    }
    if found == 0 {
        return Ok(ToolAnswer::ok("[no file matches]"));
    }
    let room = output_bytes.saturating_sub(NOTE_BYTES);
    let mut text = String::new();
    let mut shown = 0;
    for (_, path) in &newest.into_sorted_vec() {
        if text.len() + path.len() + 1 > room {
            break;
        }
        text.push_str(path);
        text.push('\n');
        shown += 1;
    }
    if shown < found {
        text.push_str(&format!("[{shown} of {found} files shown, the newest]\n"));
    }
    if walked == WalkEnd::Part {
        text.push_str("[the workspace is too large or too deep; not all of it was looked at]\n");
    }
    Ok(ToolAnswer::ok(text))
}
