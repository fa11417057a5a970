//! An answer of bounded size: what is left out stands in a file that the agent can read.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use skep_core::ids::{CallId, TurnId};
use skep_core::tool::ToolContext;
use skep_guard::workspace::{Entry, EntryKind, Folders, Opened, Refusal, Workspace};

/// Where whole answers are kept, below the workspace.
const FOLDER: &str = ".skep/output";
/// The newest answers are kept, the others are let go.
const KEPT: usize = 50;
/// Nobody means to commit what tools said.
const IGNORES: (&str, &[u8]) = (".skep/.gitignore", b"*\n");

/// Where the rest of an answer goes.
pub(crate) struct Rest {
    workspace: PathBuf,
    file: String,
}

impl Rest {
    pub fn of(context: &ToolContext) -> Self {
        let file = format!("{FOLDER}/{}", file_name(&context.turn, &context.call));
        Self { workspace: context.workspace.clone(), file }
    }
}

/// The text within `bound`, and what was done about it.
pub(crate) async fn bounded(text: String, bound: usize, rest: Rest) -> (String, String) {
    if text.len() <= bound {
        return (text, "whole".to_owned());
    }
    let work = move || {
        let kept = keep(&rest, text.as_bytes());
        (shortened(&text, bound, &rest.file, &kept), text.len(), kept.is_ok())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok((shown, whole, true)) => (shown, format!("cut from {whole} bytes; the rest in a file")),
        Ok((shown, whole, false)) => (shown, format!("cut from {whole} bytes; no file")),
        Err(_) => ("[the answer was too long and is lost]".to_owned(), "lost".to_owned()),
    }
}

/// The beginning and the end, and between them where all of it is.
fn shortened(text: &str, bound: usize, file: &str, kept: &Result<(), Refusal>) -> String {
    let mut head = bound - bound / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - bound / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (left_out, whole) = (tail - head, text.len());
    let all = match kept {
        Ok(()) => format!("all of it is in {file}"),
        Err(refusal) => format!("it could not be kept in a file: {refusal}"),
    };
    let note = format!("[{left_out} of {whole} bytes left out; {all}]");
    format!("{}\n{note}\n{}", &text[..head], &text[tail..])
}

fn keep(rest: &Rest, text: &[u8]) -> Result<(), Refusal> {
    let unopened = |source| Refusal::Io { path: rest.file.clone(), source };
    let workspace = Workspace::open(&rest.workspace).map_err(unopened)?;
    workspace.target(&rest.file, Folders::Create)?.replace(text)?;
    let ignores = workspace.target(IGNORES.0, Folders::MustExist)?;
    if !ignores.exists() {
        ignores.replace(IGNORES.1)?;
    }
    // The answer is kept; old ones that cannot be removed now are tried again with the next.
    let _ = let_go(&workspace);
    Ok(())
}

fn let_go(workspace: &Workspace) -> Result<(), Refusal> {
    let Opened::Folder(folder) = workspace.open_any(FOLDER)? else { return Ok(()) };
    let failed = |source| Refusal::Io { path: FOLDER.to_owned(), source };
    let mut files: Vec<Entry> = folder.entries(KEPT * 20).map_err(failed)?;
    files.retain(|entry| {
        let is_text = Path::new(&entry.name).extension().is_some_and(|kind| kind == "txt");
        entry.kind == EntryKind::File && is_text
    });
    files.sort_by_key(|entry| std::cmp::Reverse(entry.modified_ms));
    for old in files.iter().skip(KEPT) {
        folder.remove_file(&old.name).map_err(failed)?;
    }
    Ok(())
}

/// A call's id is the model's own word: it is used as a name only where it is one.
fn file_name(turn: &TurnId, call: &CallId) -> String {
    let plain = |text: &str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let call = match plain(call.as_str()) {
        true => call.to_string(),
        false => {
            let hash = Sha256::digest(call.as_str().as_bytes());
            hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
        }
    };
    format!("{turn}-{call}.txt")
}
