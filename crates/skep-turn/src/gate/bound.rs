//! An answer of bounded size: what is left out stands in a file that the agent can read.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use skep_core::ids::{AgentId, CallId, ItemId, SessionKey, TurnId};
use skep_core::tool::{ToolAnswer, ToolContext};
use skep_guard::work;
use skep_guard::workspace::{Folders, PathRefusal, Workspace};
use skep_store::leases::Lease;

use super::GateParts;

/// The newest answers of a conversation are kept, the others are let go.
const KEPT: usize = 50;
/// And of an agent.
const KEPT_OF_AGENT: usize = 500;
/// The user of the sandbox is another than ours.
const READABLE: u32 = 0o755;

impl GateParts {
    /// Where the long answers of a turn's conversation are kept.
    pub fn outputs_of(&self, lease: &Lease) -> PathBuf {
        self.outputs_for(lease.agent, &lease.session_key)
    }

    fn outputs_for(&self, agent: AgentId, key: &SessionKey) -> PathBuf {
        self.outputs.join(agent.0.to_string()).join(hex(key.as_str(), 16))
    }

    /// Keeps the whole result of a task for whoever gave it. Where that cannot be, nothing.
    pub async fn keep_result(
        &self,
        task: &ItemId,
        agent: AgentId,
        key: &SessionKey,
        text: String,
    ) -> Option<String> {
        let name = format!("task-{}.txt", plain_or_hash(task.as_str()));
        let rest = Rest { folder: self.outputs_for(agent, key), name };
        let path = rest.folder.join(&rest.name).display().to_string();
        let kept = work::spawn(move || keep(&rest, text.as_bytes())).await;
        match kept {
            Ok(Ok(())) => Some(path),
            Ok(Err(refusal)) => {
                tracing::warn!(%refusal, %task, "a long result is kept in its session alone");
                None
            }
            Err(_) => None,
        }
    }
}

/// Where the rest of an answer goes.
pub(crate) struct Rest {
    folder: PathBuf,
    name: String,
}

impl Rest {
    pub fn of(context: &ToolContext) -> Self {
        let name = file_name(&context.turn, &context.call);
        Self { folder: context.outputs.clone(), name }
    }
}

/// The text within `bound`, and what was done about it.
pub(crate) async fn bounded(text: String, bound: usize, rest: Rest) -> (String, String) {
    if text.len() <= bound {
        return (text, "whole".to_owned());
    }
    let work = move || {
        let kept = keep(&rest, text.as_bytes());
        (shortened(&text, bound, &rest.folder.join(&rest.name), &kept), text.len(), kept.is_ok())
    };
    match work::spawn(work).await {
        Ok((shown, whole, true)) => (shown, format!("cut from {whole} bytes; the rest in a file")),
        Ok((shown, whole, false)) => (shown, format!("cut from {whole} bytes; no file")),
        Err(_) => ("[the answer was too long and is lost]".to_owned(), "lost".to_owned()),
    }
}

/// The answer with one more thing for whoever shows it; what the tool says itself stays.
pub(crate) fn with_detail(mut answer: ToolAnswer, name: &str, value: Value) -> ToolAnswer {
    if let ToolAnswer::Done { details, .. } = &mut answer
        && let Value::Object(fields) = details.get_or_insert_with(|| json!({}))
    {
        fields.entry(name).or_insert(value);
    }
    answer
}

/// The beginning and the end, and between them where the rest is.
fn shortened(text: &str, bound: usize, file: &Path, kept: &Result<(), PathRefusal>) -> String {
    let mut head = bound - bound / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - bound / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (left_out, whole) = (tail - head, text.len());
    let rest = match kept {
        Ok(()) => format!("they are in {}", file.display()),
        Err(refusal) => format!("they could not be kept in a file: {refusal}"),
    };
    let note = format!("[{left_out} of {whole} bytes left out; {rest}]");
    format!("{}\n{note}\n{}", &text[..head], &text[tail..])
}

fn keep(rest: &Rest, text: &[u8]) -> Result<(), PathRefusal> {
    let failed = |source| PathRefusal::Io { path: rest.folder.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(READABLE).create(&rest.folder).map_err(failed)?;
    let folder = Workspace::open(&rest.folder).map_err(failed)?;
    folder.target(&rest.name, Folders::MustExist)?.replace(text)?;
    // The answer is kept; old ones that cannot be removed now are tried again with the next.
    let _ = let_go(&rest.folder);
    Ok(())
}

/// Removes the oldest answers of the conversation, and of the agent.
fn let_go(own: &Path) -> io::Result<()> {
    remove_beyond(KEPT, files(own)?);
    let Some(agent) = own.parent() else { return Ok(()) };
    let folders = std::fs::read_dir(agent)?.flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = folders.collect();
    remove_beyond(KEPT_OF_AGENT, folders.iter().flat_map(|one| files(one).unwrap_or_default()));
    for folder in folders.iter().filter(|folder| *folder != own) {
        // One that is not empty stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

type Dated = (SystemTime, PathBuf);

fn files(folder: &Path) -> io::Result<Vec<Dated>> {
    let files = std::fs::read_dir(folder)?.flatten();
    let dated =
        files.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())));
    Ok(dated.collect())
}

fn remove_beyond(kept: usize, files: impl IntoIterator<Item = Dated>) {
    let mut files: Vec<Dated> = files.into_iter().collect();
    files.sort_by(|one, other| other.cmp(one));
    for (_, old) in files.iter().skip(kept) {
        let _ = std::fs::remove_file(old);
    }
}

/// A call's id is the model's own word: it is used as a name only where it is one.
fn file_name(turn: &TurnId, call: &CallId) -> String {
    format!("{turn}-{}.txt", plain_or_hash(call.as_str()))
}

fn plain_or_hash(text: &str) -> String {
    let plain = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if plain { text.to_owned() } else { hex(text, 8) }
}

/// The first bytes of a text's hash.
fn hex(text: &str, bytes: usize) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
