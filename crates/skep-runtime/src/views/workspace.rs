//! Files of an agent's workspace, and what a conversation changed in files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use skep_core::Millis;
use skep_core::file::{TEXT_BYTES, image_type};
use skep_core::ids::{AgentName, SessionId};
use skep_core::message::{Message, Role};
use skep_guard::workspace::{EntryKind, Facts, Folder, Opened, PathRefusal, Walked, Workspace};
use skep_store::history;
use tokio::sync::Semaphore;

use crate::door::{
    Credential, DoorError, ErrorKind, FileChange, FileChanges, Sight, WorkspaceEntry,
    WorkspaceItem, WorkspaceKind,
};
use crate::hive::{Hive, door_error};
use crate::views::download::Download;

/// Names of one folder that are looked at, and names below it where some are sought.
const MOST_NAMES: usize = 100_000;
/// Entries in an answer.
const MOST_ENTRIES: usize = 1_000;
/// Of a file that is saved elsewhere.
const SAVED_BYTES: u64 = 16 << 20;
/// Bytes that tell text from the rest.
const SNIFF_BYTES: usize = 8 << 10;
/// Looks into workspaces at once; further ones wait.
static LOOKS: Semaphore = Semaphore::const_new(8);
/// Of all diffs in an answer.
const DIFF_BYTES: usize = 2 << 20;

impl Hive {
    /// A folder or a file. With a `filter`: the files below the folder with it in their path. With
    /// `after`: those that come after this one.
    pub async fn workspace(
        &self,
        agent: &AgentName,
        path: String,
        (filter, after): (Option<String>, Option<String>),
        sight: &Sight,
    ) -> Result<WorkspaceItem, DoorError> {
        let look = move |workspace: &Workspace| {
            let item = match workspace.open_any(&path)? {
                Opened::Folder(folder) => list(&folder, filter, after),
                Opened::File(file) => content(file),
            };
            let leads = workspace.leads_to(&path).unwrap_or_else(|| path.clone());
            let item = item.map_err(|source| PathRefusal::Io { path, source })?;
            Ok(WorkspaceItem { path: leads, ..item })
        };
        self.in_workspace(agent, sight, look).await
    }

    /// The content of a file, to be shown as a picture or saved: without secrets of the hive where
    /// it is text, and not at all where it is not and has one.
    pub async fn workspace_content(
        &self,
        agent: &AgentName,
        path: String,
        sight: &Sight,
    ) -> Result<Download, DoorError> {
        let look = move |workspace: &Workspace| {
            let file = workspace.open_file(&path)?;
            let failed = |source| PathRefusal::Io { path: path.clone(), source };
            let bytes = Facts::of_file(&file).map_err(failed)?.size;
            if bytes > SAVED_BYTES {
                return Err(PathRefusal::TooLarge { path, bytes, limit: SAVED_BYTES });
            }
            Download::open(file, SAVED_BYTES).map_err(failed)?.ok_or_else(|| {
                failed(io::Error::other("it is not text and holds a secret of this hive"))
            })
        };
        self.in_workspace(agent, sight, look).await
    }

    /// Runs `look` off the async threads.
    async fn in_workspace<T: Send + 'static>(
        &self,
        agent: &AgentName,
        sight: &Sight,
        look: impl FnOnce(&Workspace) -> Result<T, PathRefusal> + Send + 'static,
    ) -> Result<T, DoorError> {
        let (id, name) = self.shared.read_agent(agent, sight).await?;
        let settings = self.agent_of(id, &name)?;
        let all = move || match Workspace::open(&settings.workspace) {
            Ok(workspace) => look(&workspace).map_err(|refusal| refused(&refusal)),
            Err(_) => {
                let text = format!("The workspace of {name} is not there, or cannot be opened.");
                Err(DoorError::new(ErrorKind::NotFound, "no_workspace", text))
            }
        };
        let _permit = LOOKS.acquire().await.map_err(|_| DoorError::failed())?;
        tokio::task::spawn_blocking(all).await.map_err(|_| DoorError::failed())?
    }

    /// What tools changed in a session, from the diffs in their results.
    pub async fn changes(
        &self,
        agent: &AgentName,
        session: &SessionId,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<FileChanges, DoorError> {
        let (id, agent, _) = self.seen_session(agent, session, sight).await?;
        let settings = self.agent_of(id, &agent).ok();
        let session = session.clone();
        let read = self.shared.store.read_long(credential.name(), async move |conn| {
            let workspace = settings.as_ref().map(|settings| settings.workspace.as_path());
            let (mut changes, mut bytes, mut cut) = (VecDeque::new(), 0, false);
            let (mut seen, mut asked) = (0, 0);
            loop {
                let page = history::page_after(conn, &agent, &session, seen).await?;
                let Some(last) = page.last() else { break };
                seen = last.seq;
                for row in page {
                    if row.body.role == Role::Assistant {
                        asked = row.seq;
                    }
                    let Some(change) = change(&row, asked, workspace) else { continue };
                    bytes += change.diff.len();
                    changes.push_back(change);
                    while bytes > DIFF_BYTES {
                        bytes -= changes.pop_front().map_or(bytes, |oldest| oldest.diff.len());
                        cut = true;
                    }
                }
            }
            Ok(FileChanges { changes: changes.into(), cut })
        });
        read.await.map_err(door_error)
    }
}

fn list(
    folder: &Folder,
    filter: Option<String>,
    after: Option<String>,
) -> io::Result<WorkspaceItem> {
    let mut entries = Vec::new();
    let (mut cut, mut begun) = (false, after.is_none());
    let mut is_next = |path: &Path| {
        let here = begun;
        begun |= after.as_deref().map(Path::new) == Some(path);
        here
    };
    if let Some(filter) = filter.map(|text| text.to_lowercase()) {
        let walked = folder.walk(MOST_NAMES, &mut |path, facts| {
            // By what is shown of it: nobody finds out a secret in a name letter by letter.
            let named = || {
                let path = path.to_string_lossy();
                skep_scrub::known().clean(&path).to_lowercase().contains(&filter)
            };
            let is_meant = facts.kind != EntryKind::Folder && entries.len() <= MOST_ENTRIES;
            if is_meant && named() && is_next(path) {
                entries.push(listed(path, facts.kind, facts.size, facts.modified_ms));
            }
        })?;
        cut = walked == Walked::TooMuch;
    } else {
        let mut found = folder.entries(MOST_NAMES)?;
        found.sort_by_key(|entry| entry.kind != EntryKind::Folder);
        let found = found.iter().map(|entry| (folder.path().join(&entry.name), entry));
        let found = found.filter(|(path, _)| is_next(path)).take(MOST_ENTRIES + 1);
        entries.extend(
            found.map(|(path, entry)| listed(&path, entry.kind, entry.size, entry.modified_ms)),
        );
    }
    cut |= entries.len() > MOST_ENTRIES;
    entries.truncate(MOST_ENTRIES);
    Ok(WorkspaceItem { entries: Some(entries), cut, ..WorkspaceItem::default() })
}

fn listed(path: &Path, kind: EntryKind, size: u64, modified_at: Millis) -> WorkspaceEntry {
    let kind = match kind {
        // It could not be named in a request.
        _ if path.to_str().is_none() => WorkspaceKind::Other,
        EntryKind::Folder => WorkspaceKind::Folder,
        EntryKind::File => WorkspaceKind::File,
        EntryKind::Link => WorkspaceKind::Link,
        EntryKind::Special => WorkspaceKind::Other,
    };
    WorkspaceEntry { path: path.to_string_lossy().into_owned(), kind, size, modified_at }
}

fn content(file: File) -> io::Result<WorkspaceItem> {
    let facts = Facts::of_file(&file)?;
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let picture = image_type(&bytes);
    let is_text = picture.is_none() && !bytes.iter().take(SNIFF_BYTES).any(|byte| *byte == 0);
    let cut = is_text && bytes.len() > TEXT_BYTES;
    bytes.truncate(TEXT_BYTES);
    let text = is_text.then(|| match (String::from_utf8_lossy(&bytes), cut) {
        (text, false) => skep_scrub::known().clean(&text).into_owned(),
        // What may be the first half of a secret stays away with the rest of the file.
        (text, true) => {
            let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
            skep_scrub::Stream::default().push(skep_scrub::known(), text)
        }
    });
    let (size, modified_at) = (Some(facts.size), Some(facts.modified_ms));
    Ok(WorkspaceItem { text, picture, cut, size, modified_at, ..WorkspaceItem::default() })
}

/// The change in a tool's result. Its first line names the file as the model did.
fn change(row: &Message, seq: i64, workspace: Option<&Path>) -> Option<FileChange> {
    let diff = row.body.details.as_ref()?.get("diff")?.as_str()?;
    let named = Path::new(diff.strip_prefix("--- ")?.lines().next()?);
    let inside = workspace.and_then(|folder| named.strip_prefix(folder).ok()).unwrap_or(named);
    let parts = inside.components().filter(|part| *part != Component::CurDir);
    let path = parts.collect::<PathBuf>().to_string_lossy().into_owned();
    Some(FileChange { path, at: row.timestamp, seq, diff: diff.to_owned() })
}

fn refused(refusal: &PathRefusal) -> DoorError {
    let (kind, code) = match refusal {
        PathRefusal::NotFound { .. } => (ErrorKind::NotFound, "unknown_file"),
        PathRefusal::OutsideWorkspace { .. } => (ErrorKind::Forbidden, "outside_workspace"),
        // Nothing can be there.
        PathRefusal::BadPath { .. } => (ErrorKind::NotFound, "bad_path"),
        PathRefusal::IsDirectory { .. } => (ErrorKind::Conflict, "is_directory"),
        PathRefusal::NotRegular { .. } => (ErrorKind::Conflict, "not_a_regular_file"),
        PathRefusal::TooLarge { .. } => (ErrorKind::Conflict, "too_large"),
        _ => (ErrorKind::Conflict, "unreadable"),
    };
    // It begins with a word for the model.
    let text = refusal.to_string();
    DoorError::new(kind, code, text.split_once(": ").map_or(text.as_str(), |(_, why)| why))
}
