//! Why a store is not opened.

use std::path::PathBuf;

/// Why the database was not opened. Except in `Sql` and `Io`, which can come after the first
/// write, nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the database {path} was written by a newer Skep (schema {found}, this one knows {known}); \
         start that newer Skep, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "the database {path} is damaged: {reason}; nothing was changed. Move it, its -wal file and \
         store.head away and restore a backup in its place"
    )]
    Corrupt { path: PathBuf, reason: String },
    #[error(
        "answered messages are missing in the log {log} of the database: {reason}; nothing was \
         changed. Put back the log or restore a backup, or take the loss: skep up --accept-loss \
         keeps a copy of the files and names what is missing"
    )]
    Lost { log: PathBuf, reason: String },
    #[error("the database {path} cannot be written: {reason}; make it and its folder writable")]
    ReadOnly { path: PathBuf, reason: String },
    #[error("the disk is full, the database {path} could not be prepared; free space, start again")]
    DiskFull { path: PathBuf },
    #[error("the database {path} could not be opened: {reason}")]
    Sql { path: PathBuf, reason: String },
    #[error("{attempt} {path}: {source}")]
    Io { attempt: &'static str, path: PathBuf, source: std::io::Error },
}
