//! Which names a search passes over, by ripgrep's rules: hidden ones, and what `.gitignore`,
//! `.ignore` and `.rgignore` exclude.
//!
//! The matching is ripgrep's own. The files are read here, through handles: a rule file that is a
//! link would otherwise let its reader learn what stands at the other end, and one that is a pipe
//! would hold the search for ever. Rules from outside the workspace do not count.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use skep_guard::workspace::Folder;

/// The most of a rule file that is read.
const RULES_BYTES: u64 = 256 * 1024;

/// Stands for the workspace in paths that are only compared, never opened.
pub(crate) const ROOT: &str = "/workspace";

/// The rules of a folder and of those above it.
#[derive(Debug, Clone)]
pub(crate) struct Ignores(Arc<Level>);

#[derive(Debug)]
struct Level {
    above: Option<Ignores>,
    /// The strongest first: `.rgignore`, `.ignore`.
    plain: [Gitignore; 2],
    /// `.gitignore`, then `.git/info/exclude`.
    git: [Gitignore; 2],
    /// A repository of its own: git rules from above end here.
    is_repository: bool,
}

impl Ignores {
    pub fn of(folder: &Folder, above: Option<Ignores>) -> Self {
        let rules = |file: Option<std::fs::File>| matcher(folder.path(), file);
        let open = |name: &str| folder.open_file(OsStr::new(name)).ok();
        let git = folder.open_folder(OsStr::new(".git")).ok();
        let info = git.as_ref().and_then(|git| git.open_folder(OsStr::new("info")).ok());
        let exclude = info.and_then(|info| info.open_file(OsStr::new("exclude")).ok());
        Self(Arc::new(Level {
            above,
            plain: [rules(open(".rgignore")), rules(open(".ignore"))],
            git: [rules(open(".gitignore")), rules(exclude)],
            // In a work tree beside its repository `.git` is a file.
            is_repository: git.is_some() || open(".git").is_some(),
        }))
    }

    /// Whether a search passes over `path` (relative to the workspace).
    pub fn passes_over(&self, path: &Path, is_folder: bool) -> bool {
        let full = shown(path);
        let decided = self
            .decide(&full, is_folder, |level| &level.plain[0], Reach::All)
            .or(self.decide(&full, is_folder, |level| &level.plain[1], Reach::All))
            .or(self.decide(&full, is_folder, |level| &level.git[0], Reach::Repository))
            .or(self.decide(&full, is_folder, |level| &level.git[1], Reach::Repository));
        let hidden = path.file_name().is_some_and(|name| name.as_bytes().first() == Some(&b'.'));
        decided.unwrap_or(hidden)
    }

    /// The nearest folder with an opinion has it.
    fn decide(
        &self,
        full: &Path,
        is_folder: bool,
        rules: fn(&Level) -> &Gitignore,
        reach: Reach,
    ) -> Option<bool> {
        let mut level = Some(self);
        while let Some(Ignores(here)) = level {
            match rules(here).matched(full, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return Some(true),
                Match::Whitelist(_) => return Some(false),
            }
            if reach == Reach::Repository && here.is_repository {
                return None;
            }
            level = here.above.as_ref();
        }
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    All,
    Repository,
}

/// A path of the workspace as the matchers know it.
pub(crate) fn shown(relative: &Path) -> PathBuf {
    Path::new(ROOT).join(relative)
}

fn matcher(folder: &Path, file: Option<std::fs::File>) -> Gitignore {
    let Some(file) = file else { return Gitignore::empty() };
    let mut text = Vec::new();
    if file.take(RULES_BYTES).read_to_end(&mut text).is_err() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(shown(folder));
    for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
        // A line that is no rule is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
