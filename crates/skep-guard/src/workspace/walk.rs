//! Everything below a folder, as the kernel knows it. Links are seen and never followed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;

use super::folder::{EntryKind, Folder};

/// Folders in each other that are gone into.
const DEEPEST: usize = 128;

/// What the kernel knows of one entry. Nobody but the kernel sets `changed_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub kind: EntryKind,
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    pub size: u64,
    /// When content, name count, owner or rights changed last.
    pub changed_ns: i128,
    /// What whoever writes the file says.
    pub modified_ms: i64,
}

impl Facts {
    pub(super) fn of(status: &Stat) -> Self {
        let seconds = i128::from(status.st_ctime);
        let milliseconds = i64::try_from(status.st_mtime_nsec / 1_000_000).unwrap_or(0);
        Self {
            kind: EntryKind::of(FileType::from_raw_mode(status.st_mode)),
            device: status.st_dev,
            inode: status.st_ino,
            mode: status.st_mode,
            size: u64::try_from(status.st_size).unwrap_or(0),
            changed_ns: seconds * 1_000_000_000 + i128::from(status.st_ctime_nsec),
            modified_ms: status.st_mtime.saturating_mul(1000).saturating_add(milliseconds),
        }
    }

    /// Of an open file.
    pub fn of_file(file: &std::fs::File) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    pub fn changed_ms(&self) -> i64 {
        i64::try_from(self.changed_ns / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// Whether a walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    All,
    /// There are more entries, or folders too deep in each other.
    TooMuch,
}

impl Folder {
    /// Shows every entry below the folder, by its path from the workspace: sorted by name, a
    /// folder before what is in it. A folder that may not be read is shown without its entries.
    pub fn walk(&self, most: usize, each: &mut dyn FnMut(&Path, &Facts)) -> io::Result<Walked> {
        let mut left = most;
        self.walk_down(DEEPEST, &mut left, each)
    }

    fn walk_down(
        &self,
        depth: usize,
        left: &mut usize,
        each: &mut dyn FnMut(&Path, &Facts),
    ) -> io::Result<Walked> {
        let mut found = Vec::new();
        for listed in Dir::read_from(self.handle())? {
            let name = listed?.file_name().to_owned();
            if name.as_c_str() == c"." || name.as_c_str() == c".." {
                continue;
            }
            if found.len() >= *left {
                return Ok(Walked::TooMuch);
            }
            found.push(name);
        }
        *left -= found.len();
        found.sort_unstable();
        for name in found {
            let name = OsStr::from_bytes(name.to_bytes());
            let facts = match self.status(name) {
                Ok(status) => Facts::of(&status),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            each(&self.path().join(name), &facts);
            if facts.kind != EntryKind::Folder {
                continue;
            }
            let below = match self.open_folder(name) {
                Ok(_) if depth == 0 => return Ok(Walked::TooMuch),
                Ok(folder) => folder.walk_down(depth - 1, left, each)?,
                // Gone or replaced meanwhile, or not to be read: its own facts stand for it.
                Err(_) => Walked::All,
            };
            if below == Walked::TooMuch {
                return Ok(below);
            }
        }
        Ok(Walked::All)
    }
}
