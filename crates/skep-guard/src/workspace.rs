//! Files beneath an agent's workspace.
//!
//! The kernel resolves every path relative to a handle of the workspace and refuses to leave it,
//! so nothing can be swapped between a check and the use.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

#[derive(Debug)]
pub struct Workspace {
    root: OwnedFd,
    path: PathBuf,
    canonical: PathBuf,
}

/// Why a path was not opened. The text is for the model: it names the class and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("outside_workspace: {path} is not inside the workspace; use a path below it")]
    OutsideWorkspace { path: String },
    #[error("not_found: there is no {path} in the workspace")]
    NotFound { path: String },
    #[error("is_directory: {path} is a folder, not a file")]
    IsDirectory { path: String },
    #[error("not_a_regular_file: {path} is a {kind}, which cannot be read as a file")]
    NotRegular { path: String, kind: &'static str },
    #[error("no_permission: the system does not let this hive open {path}")]
    NoPermission { path: String },
    #[error("bad_path: {path:?} is not a usable file path ({why})")]
    BadPath { path: String, why: &'static str },
    #[error("io_error: {path} could not be opened: {source}")]
    Io { path: String, source: io::Error },
}

/// How often a lookup is repeated that a concurrent rename made undecidable for the kernel.
const RENAME_TRIES: usize = 8;

impl Workspace {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { root, path: std::path::absolute(path)?, canonical: path.canonicalize()? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for reading. Never hangs: pipes and devices are refused, not opened
    /// for waiting.
    pub fn open_file(&self, requested: &str) -> Result<File, Refusal> {
        let relative = self.relative(requested)?;
        let opened = self.resolve(&relative, ResolveFlags::empty()).or_else(|errno| {
            if errno == Errno::XDEV { self.resolve_absolute_link(&relative) } else { Err(errno) }
        });
        let fd = opened.map_err(|errno| refusal(requested, errno))?;
        let status = rustix::fs::fstat(&fd).map_err(|errno| refusal(requested, errno))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            FileType::Directory => Err(Refusal::IsDirectory { path: requested.to_owned() }),
            other => {
                Err(Refusal::NotRegular { path: requested.to_owned(), kind: kind_name(other) })
            }
        }
    }

    /// The path relative to the workspace: given relative, or absolute and inside it.
    fn relative(&self, requested: &str) -> Result<PathBuf, Refusal> {
        let bad = |why| Refusal::BadPath { path: requested.to_owned(), why };
        if requested.trim().is_empty() {
            return Err(bad("it is empty"));
        }
        if requested.contains('\0') {
            return Err(bad("it holds a zero byte"));
        }
        let path = Path::new(requested);
        if path.is_relative() {
            return Ok(path.to_path_buf());
        }
        let inside = path
            .strip_prefix(&self.path)
            .or_else(|_| path.strip_prefix(&self.canonical))
            .map_err(|_| Refusal::OutsideWorkspace { path: requested.to_owned() })?;
        Ok(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_path_buf() })
    }

    fn resolve(&self, relative: &Path, extra: ResolveFlags) -> Result<OwnedFd, Errno> {
        // NONBLOCK: opening a pipe without a writer would wait for one.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | extra;
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..RENAME_TRIES {
            outcome = rustix::fs::openat2(&self.root, relative, flags, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }

    /// The kernel refuses every absolute link, also one that points back into the workspace. Such
    /// a target is opened by its own path, without following any link on the way.
    fn resolve_absolute_link(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        let target = self.canonical.join(relative).canonicalize().map_err(|_| Errno::XDEV)?;
        let inside = target.strip_prefix(&self.canonical).map_err(|_| Errno::XDEV)?;
        if inside.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(Errno::XDEV);
        }
        self.resolve(inside, ResolveFlags::NO_SYMLINKS)
    }
}

fn refusal(requested: &str, errno: Errno) -> Refusal {
    let path = requested.to_owned();
    match errno {
        Errno::XDEV => Refusal::OutsideWorkspace { path },
        Errno::NOENT | Errno::NOTDIR => Refusal::NotFound { path },
        Errno::ACCESS | Errno::PERM => Refusal::NoPermission { path },
        Errno::LOOP => {
            Refusal::BadPath { path, why: "its links lead in a circle or into the system" }
        }
        Errno::NAMETOOLONG => Refusal::BadPath { path, why: "it is too long" },
        // What opening a socket (NXIO) or a device without a driver (NODEV) answers.
        Errno::NXIO | Errno::NODEV => Refusal::NotRegular { path, kind: "socket or device" },
        other => Refusal::Io { path, source: other.into() },
    }
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Socket => "socket",
        _ => "special file",
    }
}
