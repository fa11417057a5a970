//! What the store stands on: its database and its log, at the places where the next start looks
//! for them. A file that is removed or moved stays open and takes writes that nobody would ever
//! find again, so this is looked at after each commit and before anybody is told of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Stat, stat};
use rustix::io::Errno;

use crate::disk::file;

#[derive(Debug)]
pub(crate) struct Floor {
    database: Place,
    log: Place,
    /// What is no longer there. It stays so until the next start: commits were made that nobody
    /// was told of.
    gone: OnceLock<&'static str>,
}

/// A file and where it was.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Floor {
    /// Of a store that is open.
    pub fn of(database: &Path) -> io::Result<Self> {
        let place = |path: PathBuf| {
            let Stat { st_dev: device, st_ino: inode, .. } = stat(&path)?;
            io::Result::Ok(Place { path, device, inode })
        };
        let log = place(file::log_of(database))?;
        Ok(Self { database: place(database.to_owned())?, log, gone: OnceLock::new() })
    }

    /// What is gone, as far as it is known already.
    pub fn known(&self) -> Result<(), &'static str> {
        self.gone.get().map_or(Ok(()), |gone| Err(*gone))
    }

    pub fn check(&self) -> Result<(), &'static str> {
        self.known()?;
        let gone = match () {
            () if !self.database.is_there() => "database",
            () if !self.log.is_there() => "log",
            () => return Ok(()),
        };
        Err(self.gone.get_or_init(|| gone))
    }

    pub fn has_database(&self) -> bool {
        self.database.is_there()
    }
}

impl Place {
    /// Where it cannot be told, nothing speaks against it.
    fn is_there(&self) -> bool {
        match stat(&self.path) {
            Ok(found) => found.st_dev == self.device && found.st_ino == self.inode,
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(_) => true,
        }
    }
}
