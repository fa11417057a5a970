//! A file to write: its folder by handle and its name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use super::refusal::{PathRefusal, kind_name, refusal, write_refusal};
use super::{RENAME_TRIES, Root};
use crate::random;

/// What to do about folders on the way that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folders {
    Create,
    MustExist,
}

#[derive(Debug)]
pub struct Target {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    requested: String,
    /// What stood there when the target was opened.
    before: Option<Stat>,
    /// Its path in the settings, where it belongs to them.
    settings: Option<String>,
}

impl Target {
    pub(super) fn open(
        root: &Root,
        relative: &Path,
        requested: &str,
        folders: Folders,
    ) -> Result<Self, PathRefusal> {
        let path = || requested.to_owned();
        // `a/.` and `a/` name folders; Path would quietly make them `a`.
        if requested.ends_with('/') || requested.ends_with("/.") {
            return Err(PathRefusal::IsDirectory { path: path() });
        }
        let Some(Component::Normal(name)) = relative.components().next_back() else {
            return Err(if relative.components().any(|part| part == Component::ParentDir) {
                PathRefusal::OutsideWorkspace { path: path() }
            } else {
                PathRefusal::IsDirectory { path: path() }
            });
        };
        let parent = relative.parent().unwrap_or(Path::new(""));
        let folder = open_parent(root, parent, folders).map_err(|errno| match errno {
            // A file stands where a folder is needed.
            Errno::NOTDIR => PathRefusal::BadPath { path: path(), why: "a part of it is a file" },
            errno => refusal(requested, errno),
        })?;
        let before = look(&folder, name, requested)?;
        Ok(Self { folder, name: name.to_owned(), requested: path(), before, settings: None })
    }

    pub(super) fn in_settings(mut self, path: String) -> Self {
        self.settings = Some(path);
        self
    }

    /// The path below the settings; nothing for a file of the workspace.
    pub fn settings(&self) -> Option<&str> {
        self.settings.as_deref()
    }

    pub fn exists(&self) -> bool {
        self.before.is_some()
    }

    /// Bytes of what stood there when the target was opened.
    pub fn bytes(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| u64::try_from(before.st_size).unwrap_or(0))
    }

    /// The content that would be replaced; `NotFound` when there is none.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, PathRefusal> {
        let path = || self.requested.clone();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|errno| refusal(&self.requested, errno))?;
        let failed = |source| PathRefusal::Io { path: path(), source };
        let status = rustix::fs::fstat(&fd).map_err(|errno| failed(errno.into()))?;
        let kind = FileType::from_raw_mode(status.st_mode);
        if kind != FileType::RegularFile {
            return Err(PathRefusal::NotRegular { path: path(), kind: kind_name(kind) });
        }
        let bytes = u64::try_from(status.st_size).unwrap_or(u64::MAX);
        if bytes > limit {
            return Err(PathRefusal::TooLarge { path: path(), bytes, limit });
        }
        // As large as it is: a vector that grows by doubling would hold it three times.
        let mut content = Vec::with_capacity(usize::try_from(bytes + 1).unwrap_or(0));
        File::from(fd).take(limit + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > limit {
            return Err(PathRefusal::TooLarge { path: path(), bytes: content.len() as u64, limit });
        }
        Ok(content)
    }

    /// Puts `content` in the file's place: after a crash either the old or the new stands there.
    pub fn replace(&self, content: &[u8]) -> Result<(), PathRefusal> {
        let failed = |source| write_refusal(&self.requested, source);
        let temporary = OsString::from(format!(".skep-{}.tmp", random::uuid()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let fd = rustix::fs::openat(&self.folder, &temporary, flags | OFlags::CLOEXEC, mode)
            .map_err(|errno| failed(errno.into()))?;
        let placed = self.fill(File::from(fd), content).and_then(|()| {
            Ok(rustix::fs::renameat(&self.folder, &temporary, &self.folder, &self.name)?)
        });
        if placed.is_err() {
            // The failure is what counts; the temporary file may even be gone with its folder.
            let _ = rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        placed.map_err(failed)?;
        rustix::fs::fsync(&self.folder).map_err(|errno| failed(errno.into()))
    }

    fn fill(&self, mut file: File, content: &[u8]) -> io::Result<()> {
        match &self.before {
            Some(before) => {
                // Only the permissions: a file that is rewritten does not stay set-uid.
                let mode = Mode::from_raw_mode(before.st_mode) & Mode::from_raw_mode(0o777);
                rustix::fs::fchmod(&file, mode)?;
                give(&file, before)?;
            }
            None => give(&file, &rustix::fs::fstat(&self.folder)?)?,
        }
        file.write_all(content)?;
        file.sync_all()
    }
}

/// What stands at the name now, if it may be replaced.
fn look(folder: &OwnedFd, name: &OsStr, requested: &str) -> Result<Option<Stat>, PathRefusal> {
    let path = requested.to_owned();
    let status = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(refusal(requested, errno)),
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(Some(status)),
        FileType::Directory => Err(PathRefusal::IsDirectory { path }),
        FileType::Symlink => {
            let leads_to = rustix::fs::readlinkat(folder, name, Vec::new())
                .map(|target| String::from_utf8_lossy(target.to_bytes()).into_owned())
                .unwrap_or_else(|_| "another place".to_owned());
            Err(PathRefusal::IsLink { path, leads_to })
        }
        other => Err(PathRefusal::NotRegular { path, kind: kind_name(other) }),
    }
}

/// Running as root, what we make belongs to whoever owns the place it stands in.
fn give(file: impl AsFd, like: &Stat) -> io::Result<()> {
    let own = rustix::process::geteuid();
    if own.is_root() && like.st_uid != own.as_raw() {
        let (user, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        rustix::fs::fchown(file, Some(user), Some(group))?;
    }
    Ok(())
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

fn open_parent(root: &Root, parent: &Path, folders: Folders) -> Result<OwnedFd, Errno> {
    let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match root.resolve_as(here, FOLDER) {
        Err(Errno::NOENT) if folders == Folders::Create => create_folders(root, parent),
        other => other,
    }
}

/// Makes the missing part of a path, folder by folder, each inside the handle of the one before.
fn create_folders(root: &Root, parent: &Path) -> Result<OwnedFd, Errno> {
    // `..` behind a folder that does not exist leads nowhere.
    if parent.components().any(|part| part == Component::ParentDir) {
        return Err(Errno::NOENT);
    }
    let mut folder = root.resolve_as(Path::new("."), FOLDER)?;
    let mut reached = PathBuf::new();
    for part in parent.components() {
        let Component::Normal(name) = part else { continue };
        reached.push(name);
        folder = match root.resolve_as(&reached, FOLDER) {
            Err(Errno::NOENT) => create_folder(&folder, name)?,
            other => other?,
        };
    }
    Ok(folder)
}

pub(super) fn create_folder(within: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let made = match rustix::fs::mkdirat(within, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut outcome = Err(Errno::AGAIN);
    for _ in 0..RENAME_TRIES {
        outcome =
            rustix::fs::openat2(within, name, FOLDER | OFlags::CLOEXEC, Mode::empty(), resolve);
        if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    let folder = outcome?;
    if made {
        let like = rustix::fs::fstat(within)?;
        give(&folder, &like).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        rustix::fs::fsync(within)?;
    }
    Ok(folder)
}
