//! Notices that files of a home may have changed. It says that something happened, never what:
//! whoever hears it reads everything again.
//!
//! Folders are watched, not files: editors put a new file in the place of the old one.

use std::collections::HashSet;
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

/// After the last event files rest this long before they are read: a save is several events.
const QUIET: Duration = Duration::from_millis(100);
/// However much goes on, and whoever holds a file open, they are read after this.
const LONGEST: Duration = Duration::from_secs(2);
/// Files held open by writers that are remembered; more are not waited for.
const WRITERS: usize = 256;

pub struct Watch {
    home: Home,
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
    heard: Arc<Heard>,
}

/// What the watcher's thread leaves for the reader: a mark, however many events there were.
#[derive(Default)]
struct Heard {
    mark: Notify,
    /// Files that were written to and not closed since: half-written, most likely. Touched by
    /// the watcher's thread and the reader for a moment each.
    open: Mutex<HashSet<PathBuf>>,
}

impl Watch {
    /// Begins to listen; fails where the machine has no watches left to give.
    pub fn new(home: &Home) -> Result<Self, String> {
        let heard = Arc::new(Heard::default());
        let (root, ears) = (home.root().to_path_buf(), Arc::clone(&heard));
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Ok(event) = event {
                ears.hear(&root, &event);
            }
        });
        let watcher = watcher.map_err(|error| error.to_string())?;
        let mut watch = Self { home: home.clone(), watcher, watched: HashSet::new(), heard };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches the folders as they are now. Called before every reading: what changes in a new
    /// folder after it is heard, what changed before is read.
    pub fn follow(&mut self) -> Result<(), String> {
        let wanted = folders(&self.home);
        let gone: Vec<PathBuf> = self.watched.difference(&wanted).cloned().collect();
        for folder in gone {
            // Mostly it is gone from the disk, and its watch with it.
            let _ = self.watcher.unwatch(&folder);
            self.watched.remove(&folder);
        }
        for folder in wanted {
            // Also those already watched: one made anew under its old name is another folder.
            match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder);
                }
                // It went away just now; the folder above it tells when it comes back.
                Err(_) if !folder.exists() => {}
                Err(error) => return Err(format!("{}: {error}", folder.display())),
            }
        }
        Ok(())
    }

    /// Waits until something happened and has come to rest.
    pub async fn changed(&self) {
        self.heard.mark.notified().await;
        let latest = Instant::now() + LONGEST;
        loop {
            // A pause, not a race with the events: a storm of them costs no more than one.
            tokio::time::sleep(QUIET).await;
            let quiet = self.heard.mark.notified().now_or_never().is_none();
            let late = Instant::now() >= latest;
            if late || (quiet && self.heard.open().is_empty()) {
                // A writer that never closes is waited for once.
                self.heard.open().clear();
                return;
            }
        }
    }

    /// Whether something happened that `changed` has not told of.
    pub fn is_marked(&self) -> bool {
        let marked = self.heard.mark.notified().now_or_never().is_some();
        if marked {
            self.heard.mark.notify_one();
        }
        marked
    }

    /// Something is to be read again though nothing more may happen.
    pub fn again(&self) {
        self.heard.mark.notify_one();
    }
}

impl Heard {
    fn open(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, root: &Path, event: &Event) {
        let about: Vec<&PathBuf> =
            event.paths.iter().filter(|path| is_configuration(root, path)).collect();
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
            // Renamed or removed: whoever wrote it is done with this name.
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
                let mut open = self.open();
                about.iter().for_each(|path| {
                    open.remove(*path);
                });
            }
            _ => {}
        }
        self.mark.notify_one();
    }
}

/// The folders whose entries are configuration.
fn folders(home: &Home) -> HashSet<PathBuf> {
    let mut folders = HashSet::from([home.root().to_path_buf()]);
    folders.extend([home.rules(), home.teams()].into_iter().filter(|folder| folder.is_dir()));
    let agents = std::fs::read_dir(home.teams()).into_iter().flatten().flatten();
    for agent in agents.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let rules = ["org-rules", "team-rules"].map(|name| agent.join(name));
        folders.extend(rules.into_iter().filter(|folder| folder.is_dir()));
        folders.insert(agent);
    }
    folders
}

/// Whether a change at this path can mean something. What agents work on and what editors leave
/// behind does not.
fn is_configuration(root: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(root) else { return false };
    let steps: Vec<&OsStr> = inside.iter().collect();
    let hidden = |step: &&OsStr| step.as_encoded_bytes().starts_with(b".");
    if steps.iter().any(hidden) {
        return false;
    }
    match steps.as_slice() {
        [] => true,
        [first] => ["skep.yaml", "providers.yaml", "channels.yaml", "rules", "teams"]
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
    fn what_can_mean_something() {
        let root = Path::new("/h");
        let cases = [
            ("/h", true),
            ("/h/skep.yaml", true),
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
