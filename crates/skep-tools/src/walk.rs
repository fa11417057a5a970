//! Walks the workspace through folder handles: no link is followed, so nothing that is swapped
//! meanwhile leads out.

use std::fs::File;
use std::path::{Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use skep_guard::workspace::{EntryKind, Folder, FolderEntry, Opened, Workspace};
use tokio_util::sync::CancellationToken;

use crate::ignores::{self, Ignores};

/// Names looked at in one walk; a walk that meets more says so.
const MOST_NAMES: usize = 1_000_000;
/// Folders within folders. Each level holds a handle.
const DEEPEST: usize = 128;
/// Names held in memory, of all folders that are open: at most 45 MiB where all are long.
const MOST_HELD: usize = 150_000;

/// Which files a walk gives.
#[derive(Debug)]
pub(crate) struct FileFilter {
    glob: Override,
    types: Types,
}

/// A file that was found, still to be opened.
pub(crate) struct FoundFile<'a> {
    folder: &'a Folder,
    name: &'a std::ffi::OsStr,
    pub path: &'a Path,
    pub modified_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    All,
    /// The receiver had enough.
    Stopped,
    /// The workspace is larger or deeper than a walk goes.
    Part,
    Cancelled,
}

impl FileFilter {
    /// `glob` in the syntax of ripgrep's `-g`, matched from the start of the walk on; `kind` one of
    /// its file types. Both narrow what the ignore rules leave; unlike with ripgrep, a glob brings
    /// back nothing that is ignored.
    pub fn new(glob: Option<&str>, kind: Option<&str>) -> Result<Self, String> {
        let mut globs = OverrideBuilder::new(ignores::ROOT);
        if let Some(glob) = glob {
            check_pattern(glob)?;
            globs.add(glob).map_err(|error| format!("bad_glob: {error}"))?;
        }
        let mut types = TypesBuilder::new();
        if let Some(kind) = kind {
            types.add_defaults();
            if kind == "all" || !types.definitions().iter().any(|known| known.name() == kind) {
                return Err(format!("unknown_type: {kind:?}; types are rust, py, js, md and such"));
            }
            types.select(kind);
        }
        Ok(Self {
            glob: globs.build().map_err(|error| format!("bad_glob: {error}"))?,
            types: types.build().map_err(|error| format!("unknown_type: {error}"))?,
        })
    }

    /// `path` is relative to the start of the walk.
    fn takes(&self, path: &Path) -> bool {
        !self.is_left_out(path, false)
            && !self.types.matched(ignores::shown(path), false).is_ignore()
    }

    /// By what is shown of the path: nobody finds out a secret in it letter by letter.
    fn is_left_out(&self, path: &Path, is_folder: bool) -> bool {
        if self.glob.is_empty() {
            return false;
        }
        let path = path.to_string_lossy();
        let clean = skep_scrub::known().clean(&path);
        self.glob.matched(ignores::shown(Path::new(&*clean)), is_folder).is_ignore()
    }

    /// A glob such as `!target` keeps the walk out of a folder.
    fn enters(&self, path: &Path) -> bool {
        !self.is_left_out(path, true)
    }
}

/// The name of a secret in brackets would be read as any one of its letters.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    match skep_scrub::known().is_marked(pattern) {
        true => Err("secret_in_arguments: the pattern holds a secret, which is replaced by its \
                     name before anything looks for it; look for something else"
            .to_owned()),
        false => Ok(()),
    }
}

impl FoundFile<'_> {
    pub fn open(&self) -> std::io::Result<File> {
        self.folder.open_file(self.name)
    }
}

/// Gives every file below `start` that is neither ignored nor left out by `choice`, folder by
/// folder in the order of their names.
pub(crate) fn files(
    workspace: &Workspace,
    start: Folder,
    choice: &FileFilter,
    cancel: &CancellationToken,
    receive: &mut dyn FnMut(FoundFile<'_>) -> Next,
) -> WalkEnd {
    let above = rules_above(workspace, start.path());
    let from = start.path().to_path_buf();
    let mut walk = Walk { choice, from, cancel, receive, names: 0, held: 0, cut: false };
    match walk.folder(&start, above, 0) {
        Some(ended) => ended,
        None if walk.cut => WalkEnd::Part,
        None => WalkEnd::All,
    }
}

struct Walk<'a> {
    choice: &'a FileFilter,
    from: PathBuf,
    cancel: &'a CancellationToken,
    receive: &'a mut dyn FnMut(FoundFile<'_>) -> Next,
    names: usize,
    held: usize,
    cut: bool,
}

impl Walk<'_> {
    /// `Some` ends the whole walk.
    fn folder(&mut self, folder: &Folder, above: Option<Ignores>, depth: usize) -> Option<WalkEnd> {
        if self.cancel.is_cancelled() {
            return Some(WalkEnd::Cancelled);
        }
        // A folder that cannot be listed (permissions, gone meanwhile) is passed over.
        let room = MOST_HELD - self.held;
        let Ok(mut entries) = folder.entries(room + 1) else { return None };
        if entries.len() > room {
            entries.truncate(room);
            self.cut = true;
        }
        let held = entries.len();
        self.held += held;
        let rules = Ignores::of(folder, above);
        let ended = self.entries(folder, entries, &rules, depth);
        self.held -= held;
        ended
    }

    fn entries(
        &mut self,
        folder: &Folder,
        entries: Vec<FolderEntry>,
        rules: &Ignores,
        depth: usize,
    ) -> Option<WalkEnd> {
        for entry in entries {
            self.names += 1;
            if self.names >= MOST_NAMES {
                self.cut = true;
                return Some(WalkEnd::Part);
            }
            if self.names.is_multiple_of(256) && self.cancel.is_cancelled() {
                return Some(WalkEnd::Cancelled);
            }
            let path = folder.path().join(&entry.name);
            let is_folder = entry.kind == EntryKind::Folder;
            if rules.passes_over(&path, is_folder) {
                continue;
            }
            let below = path.strip_prefix(&self.from).unwrap_or(&path);
            match entry.kind {
                EntryKind::File if self.choice.takes(below) => {
                    let (name, modified_ms) = (&entry.name, entry.modified_ms);
                    let found = FoundFile { folder, name, path: &path, modified_ms };
                    if (self.receive)(found) == Next::Stop {
                        return Some(WalkEnd::Stopped);
                    }
                }
                EntryKind::Folder if self.choice.enters(below) => {
                    if depth >= DEEPEST {
                        self.cut = true;
                        continue;
                    }
                    // Swapped for a link since it was listed: passed over like any link.
                    let Ok(inner) = folder.open_folder(&entry.name) else { continue };
                    let ended = self.folder(&inner, Some(rules.clone()), depth + 1);
                    if ended.is_some() {
                        return ended;
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The rules of the folders between the workspace and the start of a walk.
fn rules_above(workspace: &Workspace, start: &Path) -> Option<Ignores> {
    let mut rules = None;
    let mut reached = PathBuf::new();
    for part in start.components() {
        let path = if reached.as_os_str().is_empty() { Path::new(".") } else { &reached };
        if let Ok(Opened::Folder(folder)) = workspace.open_any(&path.to_string_lossy()) {
            rules = Some(Ignores::of(&folder, rules));
        }
        reached.push(part);
    }
    rules
}

/// A path as one line of an answer: control characters are written out, so that a name cannot
/// pass for several lines.
pub(crate) fn line(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    text.chars()
        .flat_map(|letter| {
            let written = letter.is_control().then(|| letter.escape_default().to_string());
            written.unwrap_or_else(|| letter.to_string()).chars().collect::<Vec<_>>()
        })
        .collect()
}
