//! A file of one line of fixed length, written over itself: no space is taken, no second name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::disk::file;

/// What such a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineState<T> {
    Missing,
    Unreadable,
    At(T),
}

pub(crate) fn read<T>(path: &Path, parse: impl FnOnce(&str) -> Option<T>) -> LineState<T> {
    // A pipe would be waited for.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return LineState::Unreadable;
    }
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map_or(LineState::Unreadable, LineState::At),
        Err(error) if error.kind() == io::ErrorKind::NotFound => LineState::Missing,
        Err(_) => LineState::Unreadable,
    }
}

/// The open file, for the writer.
pub(crate) struct LineFile(File);

impl LineFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false).mode(0o600);
        // A pipe would be waited for.
        open.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        Ok(Self(open.open(path)?))
    }

    pub fn write(&self, line: &[u8]) -> io::Result<()> {
        self.0.write_all_at(line, 0)
    }

    pub fn write_synced(&self, line: &[u8]) -> io::Result<()> {
        self.write(line)?;
        self.0.sync_data()
    }

    /// Once at a start: from then on the file has its length on the disk, and its name.
    pub fn write_first(&self, line: &[u8], path: &Path) -> io::Result<()> {
        self.write(line)?;
        self.0.set_len(u64::try_from(line.len()).unwrap_or_default())?;
        self.0.sync_all()?;
        path.parent().map_or(Ok(()), file::sync_folder)
    }
}
