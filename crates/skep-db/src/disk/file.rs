//! The database as a file: what can be told about it before SQLite is let near it.
//!
//! Nothing here may run while a connection is open: closing any handle of the file would drop
//! the locks SQLite holds on it for this process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::disk::open_error::OpenError;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Missing,
    Database,
}

const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Is there a database we may write, and is it whole as far as its header tells?
pub(crate) fn examine(database: &Path) -> Result<FileState, OpenError> {
    let read_only = |source: io::Error| OpenError::ReadOnly {
        path: database.to_owned(),
        reason: source.to_string(),
    };
    let damaged = |reason: String| OpenError::Corrupt { path: database.to_owned(), reason };
    if let Some(folder) = database.parent() {
        access(folder, Access::WRITE_OK).map_err(|errno| read_only(errno.into()))?;
    }
    // Opening a pipe would wait for its other end, and SQLite opens these without asking.
    for end in ["", "-wal", "-shm"] {
        let path = beside(database, end);
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(damaged(format!("{} is not a regular file", path.display())));
        }
    }
    let log_bytes = fs::metadata(beside(database, "-wal")).map_or(0, |log| log.len());
    let mut file = match OpenOptions::new().read(true).write(true).open(database) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && log_bytes == 0 => {
            return Ok(FileState::Missing);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("the file is gone, but its -wal file is there".to_owned()));
        }
        Err(error) => return Err(read_only(error)),
    };
    let header = read_header(&mut file).map_err(|error| damaged(error.to_string()))?;
    let bytes = file.metadata().map_err(|error| damaged(error.to_string()))?.len();
    if !header.starts_with(&MAGIC[..MAGIC.len().min(header.len())]) {
        return Err(damaged("it does not begin like an SQLite database".to_owned()));
    }
    if header.len() < HEADER {
        return Err(damaged(format!("it was cut to {bytes} bytes, less than its header")));
    }
    match expected_bytes(&header) {
        // With a log beside it the file may rightly lag behind; the log has the rest.
        Some(expected) if log_bytes == 0 && bytes < expected => Err(damaged(format!(
            "it was cut: its header tells of {expected} bytes, {bytes} are there"
        ))),
        _ => Ok(FileState::Database),
    }
}

fn read_header(file: &mut File) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut header)?;
    Ok(header)
}

/// Page count times page size, where the header's count is valid (SQLite file format, 1.3).
fn expected_bytes(header: &[u8]) -> Option<u64> {
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let page: [u8; 2] = header.get(16..18)?.try_into().ok()?;
    let page_bytes = match u16::from_be_bytes(page) {
        1 => 65536,
        bytes => u64::from(bytes),
    };
    let (changes, valid_for) = (number(24)?, number(92)?);
    let valid = page_bytes.is_power_of_two() && page_bytes >= 512 && changes == valid_for;
    valid.then_some(u64::from(number(28)?) * page_bytes)
}

/// The files SQLite keeps beside the database. Looking at a database can create them.
pub(crate) struct SideFiles {
    log: Option<PathBuf>,
    index: Option<PathBuf>,
}

impl SideFiles {
    pub(crate) fn of(database: &Path) -> Self {
        let absent = |end| Some(beside(database, end)).filter(|path| !path.exists());
        Self { log: absent("-wal"), index: absent("-shm") }
    }

    /// After a refusal: leaves the folder as it was found.
    pub(crate) fn remove_new(&self) {
        let empty = |path: &&PathBuf| fs::metadata(path).is_ok_and(|log| log.len() == 0);
        for path in self.log.iter().filter(empty).chain(&self.index) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Where SQLite keeps the log: beside the file itself, not beside a link to it.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let linked = fs::symlink_metadata(database).is_ok_and(|found| found.is_symlink());
    let file = linked.then(|| fs::canonicalize(database).ok()).flatten();
    beside(file.as_deref().unwrap_or(database), "-wal")
}

/// The same path with `end` after its name.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
