//! The database as files, beneath SQLite: the file itself, its write-ahead log, and the one-line
//! files beside it. Nothing here runs a statement.

pub(crate) mod file;
pub(crate) mod floor;
pub(crate) mod line_file;
pub(crate) mod log_reader;
pub(crate) mod open_error;
