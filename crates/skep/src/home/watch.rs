//! Detects changes of a home's files. It reports whose files changed, never what: the reader loads
//! them again. It watches folders, not files, because editors replace files.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::Instant;

use skep_cli::hive::Home;
use skep_core::ids::AgentName;

/// After the last event files rest this long before they are read: a save is several events.
const QUIET: Duration = Duration::from_millis(100);
/// The longest wait for files to settle, also if a writer keeps one open.
const LONGEST: Duration = Duration::from_secs(2);
/// How many open files of writers are tracked.
const WRITERS: usize = 256;
/// What an agent's folder holds beside its settings.
const GUIDANCE: [&str; 4] = ["org-rules", "team-rules", "skills", "subagents"];
/// Folders of skills that are watched; where there are more, none is read.
const SKILL_FOLDERS: usize = 1000;

pub struct HomeWatcher {
    home: Home,
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
    flag: Arc<ChangeFlag>,
}

/// What has to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// The folders of these agents.
    Agents(BTreeSet<AgentName>),
    /// Everything.
    Home,
}

impl Default for ReadScope {
    fn default() -> Self {
        Self::Agents(BTreeSet::new())
    }
}

impl ReadScope {
    pub fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Agents(names), Self::Agents(more)) => names.extend(more),
            _ => *self = Self::Home,
        }
    }
}

/// Shared by the watcher's thread and the reader: one flag for any number of events.
#[derive(Default)]
struct ChangeFlag {
    mark: Notify,
    /// Files written and not closed yet: probably incomplete. A mutex, because the watcher's own
    /// thread fills it; both sides hold it only briefly.
    open: Mutex<HashSet<PathBuf>>,
    /// What changed since it was taken; as briefly held.
    changed: Mutex<ReadScope>,
}

impl HomeWatcher {
    /// Starts watching; fails if the system has no watches left.
    pub fn new(home: &Home) -> Result<Self, String> {
        let flag = Arc::new(ChangeFlag::default());
        let (root, ears) = (home.root().to_path_buf(), Arc::clone(&flag));
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Ok(event) = event {
                ears.hear(&root, &event);
            }
        });
        let watcher = watcher.map_err(|error| error.to_string())?;
        let mut watch = Self { home: home.clone(), watcher, watched: HashSet::new(), flag };
        watch.follow(&ReadScope::Home)?;
        Ok(watch)
    }

    /// Watches the current folders. Called before every reading: a later change in a new folder is
    /// reported, an earlier one is read.
    pub fn follow(&mut self, scope: &ReadScope) -> Result<(), String> {
        let folders: HashSet<PathBuf> = match scope {
            ReadScope::Agents(names) => {
                let folders = names.iter().map(|name| self.home.agent(name.as_str()));
                folders.flat_map(agent_folders).collect()
            }
            ReadScope::Home => self.watched.iter().cloned().chain(folders(&self.home)).collect(),
        };
        for folder in folders {
            if !folder.is_dir() {
                if self.watched.remove(&folder) {
                    // Usually its watch is gone with it.
                    let _ = self.watcher.unwatch(&folder);
                }
                continue;
            }
            // Watched folders too: a folder recreated under its old name is a different one.
            match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder);
                }
                // The folder just disappeared; its parent reports when it returns.
                Err(_) if !folder.exists() => {}
                Err(error) => return Err(format!("{}: {error}", folder.display())),
            }
        }
        Ok(())
    }

    /// Waits until something changed and the files have settled; says what to read.
    pub async fn changed(&self) -> ReadScope {
        self.flag.mark.notified().await;
        let latest = Instant::now() + LONGEST;
        loop {
            // A pause: many events cost no more than one.
            tokio::time::sleep(QUIET).await;
            let quiet = self.flag.mark.notified().now_or_never().is_none();
            let late = Instant::now() >= latest;
            if late || (quiet && self.flag.open().is_empty()) {
                // A writer that never closes is waited for once.
                self.flag.open().clear();
                return std::mem::take(&mut *self.flag.changed());
            }
        }
    }

    /// Whether there is a change that `changed` has not returned.
    pub fn is_marked(&self) -> bool {
        let marked = self.flag.mark.notified().now_or_never().is_some();
        if marked {
            self.flag.mark.notify_one();
        }
        marked
    }

    /// Requests another reading without a change.
    pub fn again(&self, scope: ReadScope) {
        self.flag.note(scope);
    }
}

impl ChangeFlag {
    fn open(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> MutexGuard<'_, ReadScope> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, scope: ReadScope) {
        self.changed().merge(scope);
        self.mark.notify_one();
    }

    fn hear(&self, root: &Path, event: &Event) {
        let about: Vec<&PathBuf> =
            event.paths.iter().filter(|path| is_configuration(root, path)).collect();
        let mut scope = ReadScope::default();
        about.iter().for_each(|path| scope.merge(scope_of(root, path)));
        // Without a path some events were lost: anything may have happened.
        if about.is_empty() && !event.need_rescan() {
            return;
        }
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                let mut open = self.open();
                about.iter().for_each(|path| {
                    open.remove(*path);
                });
            }
            // Reading files, which we do ourselves, changes nothing.
            EventKind::Access(_) => return,
            EventKind::Modify(ModifyKind::Data(_)) => {
                let mut open = self.open();
                if open.len() < WRITERS {
                    open.extend(about.into_iter().cloned());
                }
            }
            // Renamed or removed: its writer is done.
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
                let mut open = self.open();
                about.iter().for_each(|path| {
                    open.remove(*path);
                });
            }
            _ => {}
        }
        self.note(if event.need_rescan() { ReadScope::Home } else { scope });
    }
}

/// The folders whose entries are configuration.
fn folders(home: &Home) -> HashSet<PathBuf> {
    let mut folders = HashSet::from([home.root().to_path_buf()]);
    folders.extend([home.rules(), home.teams()].into_iter().filter(|folder| folder.is_dir()));
    let agents = std::fs::read_dir(home.teams()).into_iter().flatten().flatten();
    for agent in agents.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        folders.extend(agent_folders(agent).into_iter().filter(|folder| folder.is_dir()));
    }
    folders
}

fn agent_folders(agent: PathBuf) -> Vec<PathBuf> {
    let mut folders = GUIDANCE.map(|name| agent.join(name)).to_vec();
    let skills = std::fs::read_dir(agent.join("skills")).into_iter().flatten().flatten();
    let skills = skills.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.extend(skills.take(SKILL_FOLDERS).map(|entry| entry.path()));
    folders.push(agent);
    folders
}

/// Whose files a path of the configuration belongs to.
fn scope_of(root: &Path, path: &Path) -> ReadScope {
    let inside = path.strip_prefix(root.join("teams")).ok();
    match inside.and_then(|inside| inside.iter().next()).and_then(OsStr::to_str) {
        Some(name) => ReadScope::Agents(BTreeSet::from([AgentName::new(name)])),
        None => ReadScope::Home,
    }
}

/// Whether a change at this path matters. Workspaces and editors' temporary files do not.
fn is_configuration(root: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(root) else { return false };
    let steps: Vec<&OsStr> = inside.iter().collect();
    let hidden = |step: &&OsStr| step.as_encoded_bytes().starts_with(b".");
    if steps.iter().any(hidden) {
        return false;
    }
    match steps.as_slice() {
        [] => true,
        [first] => ["skep.yaml", "providers.yaml", "keys.env", "channels.yaml", "rules", "teams"]
            .iter()
            .any(|name| first == name),
        [first, rest @ ..] if *first == "teams" => rest.get(1).is_none_or(|step| *step != "work"),
        [first, ..] => *first == "rules",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_far_as_it_reaches() {
        let root = Path::new("/h");
        let of = |path: &str| scope_of(root, Path::new(path));
        let main = ReadScope::Agents(BTreeSet::from([AgentName::new("main")]));
        for path in ["/h/teams/main", "/h/teams/main/config.yaml", "/h/teams/main/org-rules/a.md"] {
            assert_eq!(of(path), main, "{path}");
        }
        for path in ["/h", "/h/skep.yaml", "/h/rules/a.md", "/h/teams"] {
            assert_eq!(of(path), ReadScope::Home, "{path}");
        }
        let mut scope = main.clone();
        scope.merge(of("/h/teams/other/config.yaml"));
        assert!(matches!(&scope, ReadScope::Agents(names) if names.len() == 2), "{scope:?}");
        scope.merge(ReadScope::Home);
        scope.merge(main);
        assert_eq!(scope, ReadScope::Home);
    }

    #[test]
    fn what_can_mean_something() {
        let root = Path::new("/h");
        let cases = [
            ("/h", true),
            ("/h/skep.yaml", true),
            ("/h/keys.env", true),
            ("/h/.keys.env.new", false),
            ("/h/.skep.yaml.swp", false),
            ("/h/notes.txt", false),
            ("/h/run/skep.db", false),
            ("/h/run", false),
            ("/h/rules/a.md", true),
            ("/h/teams/main", true),
            ("/h/teams/main/config.yaml", true),
            ("/h/teams/main/work", false),
            ("/h/teams/main/work/a.md", false),
            ("/h/teams/main/team-rules/a.md", true),
            ("/h/teams/.git/x", false),
            ("/elsewhere/skep.yaml", false),
        ];
        for (path, means) in cases {
            assert_eq!(is_configuration(root, Path::new(path)), means, "{path}");
        }
    }
}
