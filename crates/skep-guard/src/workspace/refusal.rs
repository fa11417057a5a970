//! Why something in the workspace was not opened or written.

use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

/// The text is for the model: it begins with the class and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PathRefusal {
    #[error("outside_workspace: {path} is not inside the workspace; use a path below it")]
    OutsideWorkspace { path: String },
    #[error("not_found: there is no {path} in the workspace")]
    NotFound { path: String },
    #[error("is_directory: {path} is a folder, not a file")]
    IsDirectory { path: String },
    #[error("is_link: {path} is a link to {leads_to}; write to the file itself")]
    IsLink { path: String, leads_to: String },
    #[error(
        "moved: {path} leads elsewhere than when the rules were asked about it; nothing was read \
         or written, call again"
    )]
    Moved { path: String },
    #[error("not_a_regular_file: {path} is a {kind}, which cannot be used as a file")]
    NotRegular { path: String, kind: &'static str },
    #[error("settings_read_only: {path} belongs to the settings, which can only be read{governed}")]
    Settings { path: String, governed: String },
    #[error("too_large: {path} has {bytes} bytes; the most is {limit}")]
    TooLarge { path: String, bytes: u64, limit: u64 },
    #[error("no_permission: the system does not let this hive open {path}")]
    NoPermission { path: String },
    #[error("bad_path: {path:?} is not a usable file path ({why})")]
    BadPath { path: String, why: &'static str },
    #[error("io_error: {path} could not be opened: {source}")]
    Io { path: String, source: io::Error },
    #[error("io_error: {path} could not be written: {source}")]
    Write { path: String, source: io::Error },
}

pub(super) fn refusal(requested: &str, errno: Errno) -> PathRefusal {
    let path = requested.to_owned();
    match errno {
        Errno::XDEV => PathRefusal::OutsideWorkspace { path },
        Errno::NOENT | Errno::NOTDIR => PathRefusal::NotFound { path },
        Errno::ACCESS | Errno::PERM | Errno::ROFS => PathRefusal::NoPermission { path },
        Errno::LOOP => {
            PathRefusal::BadPath { path, why: "its links lead in a circle or into the system" }
        }
        Errno::NAMETOOLONG => PathRefusal::BadPath { path, why: "it is too long" },
        // What opening a socket (NXIO) or a device without a driver (NODEV) answers.
        Errno::NXIO | Errno::NODEV => PathRefusal::NotRegular { path, kind: "socket or device" },
        other => PathRefusal::Io { path, source: other.into() },
    }
}

/// The same for a failure after the place was opened.
pub(super) fn write_refusal(requested: &str, source: io::Error) -> PathRefusal {
    let path = requested.to_owned();
    match Errno::from_io_error(&source) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => PathRefusal::NoPermission { path },
        Some(Errno::ISDIR) => PathRefusal::IsDirectory { path },
        Some(Errno::NAMETOOLONG) => PathRefusal::BadPath { path, why: "it is too long" },
        _ => PathRefusal::Write { path, source },
    }
}

pub(super) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Socket => "socket",
        _ => "special file",
    }
}
