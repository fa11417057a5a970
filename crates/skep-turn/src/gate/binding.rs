//! What an approval is bound to: the call exactly as it was shown, and the files it may use. Of a
//! plain line these are the files it names; of any other line, everything in the workspace.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use skep_core::Millis;
use skep_core::approval::{NamedFile, WORKSPACE};
use skep_core::policy::Class;
use skep_core::policy::network::NetworkRules;
use skep_core::settings::{SandboxLevel, SandboxNetwork};
use skep_core::tool::{Subject, ToolContext};
use skep_guard::workspace::{EntryKind, Facts, Folder, Opened, Walked, Workspace};
use skep_shell::line::{Cover, Part};
use skep_shell::plain::{Access, Plain, Redirect, joined};

use super::plain::Around;

/// Bytes that are read for hashes. What is longer, alone or together, is known by what the kernel
/// says of it: that costs no reading and changes with every write.
const MOST_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 200_000;
/// Changed entries that are named.
const MOST_CHANGED: usize = 5;
/// Letters of one dash that may stand before a name (`-fmk`, `-xzfname`).
const MOST_LETTERS: usize = 8;

/// A call tied down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub cwd: String,
    pub files: Vec<NamedFile>,
    pub hash: String,
    /// Entries that changed at the given time or later, where that is told by their times.
    pub changed: Vec<String>,
    /// The newest time of change that it goes by.
    pub newest: Millis,
}

/// The kernel's clock for changes moves in steps of at most 10 ms.
const STEP_MS: Millis = 20;

impl Binding {
    /// Whether every change after the time at which it was made has another time of change.
    pub fn is_settled(&self, begun: Millis) -> bool {
        self.newest.saturating_add(STEP_MS) <= begun
    }
}

/// The call to be tied down.
pub(super) struct Bind {
    pub tool: String,
    pub class: Class,
    pub arguments: Value,
    pub subject: Subject,
    pub context: ToolContext,
}

/// Bytes of a file that is shown to whoever decides.
const MOST_PINNED: u64 = 1 << 20;

/// Why the content of a file of a question is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinnedError {
    /// It is no file of the workspace with known content.
    NotShown,
    TooLarge,
    /// It is not what it was when the question was asked.
    Changed,
}

/// The content of a file of a question, exactly as it was judged. Blocks.
pub fn pinned(workspace: &Path, file: &NamedFile) -> Result<Vec<u8>, PinnedError> {
    let Some(sha256) = file.sha256.as_ref().filter(|_| file.kind == "file") else {
        return Err(PinnedError::NotShown);
    };
    if file.target.as_ref().unwrap_or(&file.path).starts_with('/') {
        return Err(PinnedError::NotShown);
    }
    if file.bytes.is_none_or(|bytes| bytes > MOST_PINNED) {
        return Err(PinnedError::TooLarge);
    }
    let workspace = Workspace::open(workspace).map_err(|_| PinnedError::Changed)?;
    let opened = workspace.open_file(&file.path).map_err(|_| PinnedError::Changed)?;
    let mut content = Vec::new();
    let read = opened.take(MOST_PINNED + 1).read_to_end(&mut content);
    match read.is_ok() && hex(&Sha256::digest(&content)) == *sha256 {
        true => Ok(content),
        false => Err(PinnedError::Changed),
    }
}

/// What a command of a plain line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Named {
    /// Where it runs: relative to the workspace, or absolute.
    folder: String,
    words: Vec<String>,
    /// Files it reads by a redirection, relative to the workspace.
    read: Vec<String>,
    /// Where these lead counts, not what is there: a file that a redirection writes (`written`),
    /// the folder that `cd` goes to (`folder`).
    places: Vec<(String, &'static str)>,
}

impl Bind {
    /// Changes from `since` on are named. Reads files; blocks.
    pub fn bind(&self, since: Millis) -> Binding {
        let context = &self.context;
        let folder = context.workspace.as_path();
        let cwd = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let cwd = cwd.to_string_lossy().into_owned();
        let mut eye = Eye::new(since);
        if let Ok(workspace) = reachable(context) {
            self.look(&mut eye, &workspace);
        }
        let Eye { files, missing, facts, changed, newest, .. } = eye;
        let whole = json!({
            "agent": context.agent_id.0, "name": context.agent,
            "made": context.folder.as_deref().map(made),
            "sandbox": context.sandbox.level.as_str(),
            "network": context.sandbox.reached().as_str(), "hosts": self.hosts(),
            "tool": self.tool, "arguments": self.arguments, "cwd": cwd, "files": files,
            "missing": missing, "facts": facts,
        });
        let hash = hex(&Sha256::digest(whole.to_string().as_bytes()));
        Binding { cwd, files, hash, changed, newest }
    }

    /// The lists that bound what it reaches, where it reaches anything.
    fn hosts(&self) -> Option<&NetworkRules> {
        let reaches = match self.class {
            Class::Run => self.context.sandbox.reached() == SandboxNetwork::Proxy,
            Class::Reach => true,
            Class::Read | Class::Write | Class::Shape => false,
        };
        reaches.then_some(&*self.context.network)
    }

    fn look(&self, eye: &mut Eye, workspace: &Workspace) {
        for path in self.subject.paths.iter().filter_map(|named| named.path.as_deref()) {
            eye.file(workspace, path, Look::Content);
        }
        let Some(line) = &self.subject.command else { return };
        match named(line, &self.context) {
            Some(commands) => commands.iter().for_each(|command| eye.command(workspace, command)),
            None => {
                eye.whole(workspace);
                // For people, and for what lies elsewhere: whatever may be a path.
                for path in tokens(line).collect::<BTreeSet<_>>() {
                    eye.file(workspace, path, Look::Content);
                }
            }
        }
    }
}

/// What a call can reach of what may change: on the host everything, else its own settings.
fn reachable(context: &ToolContext) -> io::Result<Workspace> {
    let folder = context.workspace.as_path();
    let more = match context.sandbox.level {
        SandboxLevel::Host => Some(Path::new("/")),
        SandboxLevel::Confined => context.folder.as_deref(),
    };
    let wider = more.map(|more| Workspace::open(folder)?.with_read_only(more));
    wider.and_then(Result::ok).map_or_else(|| Workspace::open(folder), Ok)
}

/// What the commands of a plain line name. Nothing where the line is not plain, and where a part
/// of it is text that some program runs: then it may use any file.
fn named(line: &str, context: &ToolContext) -> Option<Vec<Named>> {
    let around = Around::open(&context.workspace, context.sandbox.level)?;
    let judged = Plain::read(line).ok()?.judge(&around).ok()?;
    let is_text = |part: &Part| match part {
        Part::Command(simple) => simple.cover != Cover::Words,
        Part::Unknown { .. } => true,
    };
    if judged.line().0.iter().any(is_text) {
        return None;
    }
    let mut all = Vec::new();
    for (command, folder) in judged.commands.iter().zip(&judged.folders) {
        let values = command.assigns.iter().map(|(_, value)| value);
        let words: Vec<String> = command.words.iter().chain(values).cloned().collect();
        let has_text = command.redirects.iter().any(|it| matches!(it, Redirect::Body(_)));
        if has_text || words.iter().any(|word| word.contains(CODE)) {
            return None;
        }
        let mut named = Named { folder: folder.clone(), words, ..Named::default() };
        if let [cd, to] = named.words.as_slice()
            && cd == "cd"
        {
            named.places.push((joined(folder, to), "folder"));
            named.words.clear();
        }
        all.push(named);
    }
    let (mut read, mut places) = (Vec::new(), Vec::new());
    for (access, path) in judged.targets {
        match access {
            Access::Read => read.push(path),
            Access::Write | Access::Append | Access::WriteBoth => places.push((path, "written")),
        }
    }
    all.push(Named { read, places, ..Named::default() });
    Some(all)
}

/// Signs that stand in programs and seldom in names.
const CODE: &[char] = &['(', ')', ';', '|', '&', '$', '`', '<', '>', '\'', '"', '\n'];

/// How closely a file is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// What is in it, where it is a file.
    Content,
    /// What is in it, whatever it is.
    Tree,
}

/// What was seen of the files of a call.
struct Eye {
    since: Millis,
    /// Bytes that may still be read.
    left: u64,
    seen: HashSet<String>,
    files: Vec<NamedFile>,
    /// What is made under these names later, or where they lead, is something nobody has seen.
    missing: Vec<(String, Option<String>)>,
    /// What the kernel says of files that are not read.
    facts: Vec<String>,
    changed: Vec<String>,
    newest: Millis,
    /// Names in folders that were listed.
    listed: HashMap<String, Vec<String>>,
}

impl Eye {
    fn new(since: Millis) -> Self {
        Self {
            since,
            left: MOST_BYTES,
            seen: HashSet::new(),
            files: Vec::new(),
            missing: Vec::new(),
            facts: Vec::new(),
            changed: Vec::new(),
            newest: 0,
            listed: HashMap::new(),
        }
    }

    fn command(&mut self, workspace: &Workspace, command: &Named) {
        for (path, kind) in &command.places {
            let (path, kind) = (path.clone(), (*kind).to_owned());
            let target = workspace.leads_to(&path).filter(|target| *target != path);
            self.files.push(NamedFile { path, target, kind, sha256: None, bytes: None });
        }
        for path in &command.read {
            self.file(workspace, path, Look::Content);
        }
        for name in command.words.iter().flat_map(|word| candidates(word)) {
            let path = joined(&command.folder, &name);
            if !self.seen.contains(&path) {
                self.file(workspace, &path, Look::Tree);
                self.with_endings(workspace, &path);
            }
        }
    }

    /// What was looked at once is not looked at again.
    fn file(&mut self, workspace: &Workspace, path: &str, look: Look) {
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        let tidy = path.trim_start_matches("./").trim_end_matches('/');
        let target = workspace.leads_to(path);
        let outside = target.as_ref().filter(|target| target.starts_with('/'));
        let opened = workspace.open_any(outside.map_or(path, String::as_str));
        let (mut kind, mut sha256, mut bytes) = ("other", None, None);
        match opened {
            Ok(Opened::File(file)) => {
                kind = "file";
                bytes = file.metadata().ok().map(|found| found.len());
                sha256 = self.content(path, file);
            }
            Ok(Opened::Folder(folder)) => {
                kind = "folder";
                if look == Look::Tree && outside.is_none() {
                    sha256 = self.stamp(&folder);
                    // Too much to know all of it: nothing is bound.
                    kind = if sha256.is_some() { kind } else { WORKSPACE };
                }
            }
            Err(_) if outside.is_some() || !is_there(workspace, path) => {
                self.missing.push((path.to_owned(), target));
                return;
            }
            Err(_) => {}
        }
        let target = target.filter(|target| target != tidy);
        let (path, kind) = (path.to_owned(), kind.to_owned());
        self.files.push(NamedFile { path, target, kind, sha256, bytes });
    }

    /// `run` of `-m run` is `run.py`: every file of that name, whatever its ending.
    fn with_endings(&mut self, workspace: &Workspace, path: &str) {
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => (folder, name),
            None => (".", path),
        };
        if name.is_empty() {
            return;
        }
        let names = self.listed.entry(folder.to_owned()).or_insert_with(|| {
            let entries = match workspace.open_any(folder) {
                Ok(Opened::Folder(folder)) => folder.entries(MOST_ENTRIES).unwrap_or_default(),
                _ => Vec::new(),
            };
            entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect()
        });
        let start = format!("{name}.");
        let fits: Vec<String> = names.iter().filter(|n| n.starts_with(&start)).cloned().collect();
        for name in fits {
            let path = if folder == "." { name } else { format!("{folder}/{name}") };
            self.file(workspace, &path, Look::Content);
        }
    }

    /// Everything in the workspace.
    fn whole(&mut self, workspace: &Workspace) {
        let folder = workspace.folder().ok();
        let sha256 = folder.and_then(|folder| self.stamp(&folder));
        let (path, kind) = (".".to_owned(), WORKSPACE.to_owned());
        self.files.push(NamedFile { path, target: None, kind, sha256, bytes: None });
    }

    /// Over path, inode, size and time of change of everything in a folder. Of folders in it only
    /// that they are the same: what comes and goes in them is seen by itself.
    fn stamp(&mut self, folder: &Folder) -> Option<String> {
        let mut hasher = Sha256::new();
        let walked = folder.walk(MOST_ENTRIES, &mut |path, facts| {
            hasher.update(path.as_os_str().as_encoded_bytes());
            hasher.update(self.told(path, facts));
        });
        match walked {
            Ok(Walked::All) => Some(hex(&hasher.finalize())),
            Ok(Walked::TooMuch) | Err(_) => None,
        }
    }

    /// What the kernel says of an entry, and whether that is news.
    fn told(&mut self, path: &Path, facts: &Facts) -> String {
        let Facts { kind, device, inode, mode, size, changed_ns, .. } = facts;
        if *kind == EntryKind::Folder {
            return format!("\0{device} {inode} {mode}\n");
        }
        let changed = facts.changed_ms();
        self.newest = self.newest.max(changed);
        // The kernel's time of change may lag behind the clock by a step.
        let is_news = changed.saturating_add(STEP_MS) > self.since;
        if is_news && self.changed.len() < MOST_CHANGED {
            self.changed.push(path.to_string_lossy().into_owned());
        }
        format!("\0{device} {inode} {mode} {size} {changed_ns}\n")
    }

    fn content(&mut self, path: &str, file: File) -> Option<String> {
        let facts = Facts::of_file(&file).ok();
        if let Some(facts) = facts.filter(|facts| facts.size > self.left) {
            let told = self.told(Path::new(path), &facts);
            self.facts.push(format!("{path}{told}"));
            return None;
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        let mut reader = file.take(self.left);
        loop {
            let count = reader.read(&mut buffer).ok()?;
            if count == 0 {
                break;
            }
            self.left = self.left.saturating_sub(count as u64);
            hasher.update(&buffer[..count]);
        }
        Some(hex(&hasher.finalize()))
    }
}

/// Also where it cannot be opened.
fn is_there(workspace: &Workspace, path: &str) -> bool {
    workspace.path().join(path).symlink_metadata().is_ok()
}

/// Tells an agent's folder from another one that was made in its place.
fn made(folder: &Path) -> String {
    match folder.metadata() {
        Ok(found) => format!("{} {} {:?}", found.dev(), found.ino(), found.created().ok()),
        Err(error) => error.kind().to_string(),
    }
}

/// Every name in a word that may be a file's: the word, its parts (`--file=NAME`, `a:b`, `@NAME`),
/// what stands behind the letters of an option (`-fNAME`), and a module (`a.b` is `a/b`).
fn candidates(word: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = tokens(word).map(str::to_owned).collect();
    names.insert(word.to_owned());
    if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        let starts = letters.char_indices().skip(1).take(MOST_LETTERS);
        names.extend(starts.map(|(at, _)| letters[at..].to_owned()));
    }
    let modules = names.iter().filter(|name| !name.starts_with('.') && !name.contains('/'));
    let modules = modules.filter(|name| name.contains('.'));
    let modules: Vec<String> = modules.map(|name| name.replace('.', "/")).collect();
    names.extend(modules);
    names.retain(|name| !name.is_empty());
    names
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let within = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "_./~+%^-".contains(c);
    text.split(move |c| !within(c)).filter(|token| !token.is_empty())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "binding_tests.rs"]
mod tests;
