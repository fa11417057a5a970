//! What an approval is bound to: the call exactly as it was shown, and the files it names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use skep_core::ids::AgentId;
use skep_core::policy::shell::{Line, Part, Word};
use skep_core::tool::{Subject, ToolContext};
use skep_guard::workspace::{Opened, Workspace};

/// Bytes of one file that are read for its hash; a longer one is known by its beginning and size.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of all of them.
const MOST_TOGETHER: u64 = 256 << 20;
/// Names looked at; a command of the longest size has fewer.
const MOST_NAMES: usize = 50_000;

/// A file or folder of the workspace that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedFile {
    /// As the call names it.
    pub path: String,
    /// Where it leads, when that is another path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// `file`, `folder` or `other`.
    pub kind: String,
    /// Of a file; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
}

/// A call tied down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub cwd: String,
    pub files: Vec<NamedFile>,
    pub hash: String,
}

/// Reads files; blocks.
pub(super) fn bind(
    agent: AgentId,
    context: &ToolContext,
    tool: &str,
    arguments: &Value,
    subject: &Subject,
) -> Binding {
    let folder = context.workspace.as_path();
    let cwd = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let cwd = cwd.to_string_lossy().into_owned();
    let mut files = Vec::new();
    let mut missing = Vec::new();
    if let Ok(workspace) = Workspace::open(folder) {
        let mut left = MOST_TOGETHER;
        for path in names(subject) {
            match look(&workspace, &path, &mut left) {
                Some(file) => files.push(file),
                // What is made under this name later is something nobody has seen.
                None => missing.push(path),
            }
        }
    }
    let whole = json!({
        "agent": agent.0, "name": context.agent, "made": context.folder.as_deref().map(made),
        "sandbox": context.sandbox.level.as_str(), "tool": tool, "arguments": arguments,
        "cwd": cwd, "files": files, "missing": missing,
    });
    Binding { cwd, files, hash: hex(&Sha256::digest(whole.to_string().as_bytes())) }
}

/// Tells an agent's folder from another one that was made in its place.
fn made(folder: &Path) -> String {
    match folder.metadata() {
        Ok(found) => format!("{} {} {:?}", found.dev(), found.ino(), found.created().ok()),
        Err(error) => error.kind().to_string(),
    }
}

/// Every name in the call that may be a file's, once.
fn names(subject: &Subject) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut add = |name: String| {
        if names.len() < MOST_NAMES && !name.is_empty() && seen.insert(name.clone()) {
            names.push(name);
        }
    };
    for path in subject.paths.iter().filter_map(|named| named.path.clone()) {
        add(path);
    }
    let Some(command) = &subject.command else { return names };
    let line = Line::parse(command);
    let folders = folders(&line);
    // Of a line that is not understood, whatever may be a word.
    let unread = line.0.iter().any(|part| matches!(part, Part::Unknown { .. }));
    let apart = |c: char| c.is_whitespace() || ";|&<>(){}'\"`$\\".contains(c);
    let rest = command.split(apart).filter(|_| unread);
    for word in line.words().chain(rest) {
        // `--file=NAME` names a file too.
        for part in std::iter::once(word).chain(word.split_once('=').map(|(_, value)| value)) {
            add(part.to_owned());
            for folder in &folders {
                add(format!("{folder}/{part}"));
            }
        }
    }
    names
}

/// Where the command goes before it runs the rest.
fn folders(line: &Line) -> Vec<String> {
    let gone = line.0.iter().filter_map(|part| match part {
        Part::Command(simple) => match simple.words.as_slice() {
            [Word::Plain(first), Word::Plain(folder), ..] if first == "cd" || first == "pushd" => {
                Some(folder.clone())
            }
            _ => None,
        },
        Part::Unknown { .. } => None,
    });
    gone.take(8).collect()
}

fn look(workspace: &Workspace, path: &str, left: &mut u64) -> Option<NamedFile> {
    let opened = workspace.open_any(path);
    let tidy = path.trim_start_matches("./").trim_end_matches('/');
    let target = workspace.leads_to(path).filter(|target| target != tidy);
    let mut named = NamedFile {
        path: path.to_owned(),
        target,
        kind: "other".to_owned(),
        sha256: None,
        bytes: None,
    };
    match opened {
        Ok(Opened::File(file)) => {
            named.kind = "file".to_owned();
            named.bytes = file.metadata().ok().map(|found| found.len());
            named.sha256 = hash(file, left);
        }
        Ok(Opened::Folder(_)) => named.kind = "folder".to_owned(),
        Err(_) => {
            let there = workspace.path().join(path).symlink_metadata().is_ok();
            if !there || Path::new(path).is_absolute() {
                return None;
            }
        }
    }
    Some(named)
}

fn hash(file: File, left: &mut u64) -> Option<String> {
    let most = MOST_BYTES.min(*left);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut reader = file.take(most);
    loop {
        let count = reader.read(&mut buffer).ok()?;
        if count == 0 {
            break;
        }
        *left = left.saturating_sub(count as u64);
        hasher.update(&buffer[..count]);
    }
    Some(hex(&hasher.finalize()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
