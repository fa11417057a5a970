//! A folder by its handle: what it lists and what is opened from it stays what it is, whatever is
//! renamed or linked meanwhile.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::walk::Facts;

#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

/// One name in a folder. Links are listed as what they are, never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    pub name: OsString,
    pub kind: EntryKind,
    pub size: u64,
    pub modified_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link,
    Special,
}

impl EntryKind {
    pub(super) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

impl Folder {
    pub(super) fn new(handle: OwnedFd, path: PathBuf) -> Self {
        Self { handle, path }
    }

    /// Relative to the root it was opened from; empty for the root itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// At most `most` entries, sorted by name. What vanishes while being listed is left out.
    pub fn entries(&self, most: usize) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for listed in Dir::read_from(&self.handle)?.take(most.saturating_add(2)) {
            let listed = listed?;
            if let Some(entry) = self.entry(listed.file_name())? {
                entries.push(entry);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Opens a folder in this one. A link is refused.
    pub fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Self::new(self.open_here(name, flags)?, self.path.join(name)))
    }

    /// Opens a regular file in this folder. A link is refused, a pipe too, and neither is waited
    /// for.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let fd = self.open_here(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let status = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    /// Removes a name that is no folder. A link goes itself, never what it leads to.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        if name.as_bytes().contains(&b'/') {
            return Err(Errno::XDEV.into());
        }
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Gives the folder and all below it that belongs to us to another user. Links are not
    /// followed; a file with a second name is left alone, for that name may stand elsewhere.
    pub(crate) fn give_to(&self, user: Uid, group: Gid) -> io::Result<()> {
        let own = rustix::process::geteuid();
        for entry in self.entries(usize::MAX - 2)? {
            let status = match self.status(&entry.name) {
                Ok(status) => status,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if entry.kind == EntryKind::Folder {
                self.open_folder(&entry.name)?.give_to(user, group)?;
            } else if status.st_uid == own.as_raw() && status.st_nlink == 1 {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(&self.handle, &entry.name, Some(user), Some(group), flags)?;
            }
        }
        // Last, so that a giving cut short is seen by the folder's owner and done again.
        if rustix::fs::fstat(&self.handle)?.st_uid == own.as_raw() {
            rustix::fs::fchown(&self.handle, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// Lets a group read the folder and all below it that belongs to us, but for the folder
    /// `except`. Links are not followed; a file with a second name is left alone.
    pub(crate) fn show_to(&self, group: Gid, except: &Path) -> io::Result<()> {
        let except = rustix::fs::stat(except)?;
        self.show_all_to(group, &except)
    }

    fn show_all_to(&self, group: Gid, except: &rustix::fs::Stat) -> io::Result<()> {
        let own = rustix::process::geteuid();
        for entry in self.entries(usize::MAX - 2)? {
            match entry.kind {
                EntryKind::Folder => {
                    let folder = self.open_folder(&entry.name)?;
                    let status = rustix::fs::fstat(&folder.handle)?;
                    if (status.st_dev, status.st_ino) != (except.st_dev, except.st_ino) {
                        folder.show_all_to(group, except)?;
                    }
                }
                EntryKind::File => {
                    let file = self.open_file(&entry.name)?;
                    let status = rustix::fs::fstat(&file)?;
                    if status.st_uid == own.as_raw() && status.st_nlink == 1 {
                        show(&file, &status, group, Mode::RGRP)?;
                    }
                }
                EntryKind::Link | EntryKind::Special => {}
            }
        }
        let status = rustix::fs::fstat(&self.handle)?;
        match status.st_uid == own.as_raw() {
            true => show(&self.handle, &status, group, Mode::RGRP | Mode::XGRP),
            false => Ok(()),
        }
    }

    fn entry(&self, name: &CStr) -> io::Result<Option<FolderEntry>> {
        if name == c"." || name == c".." {
            return Ok(None);
        }
        let name = OsStr::from_bytes(name.to_bytes());
        let status = match self.status(name) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let Facts { kind, size, modified_ms, .. } = Facts::of(&status);
        Ok(Some(FolderEntry { name: name.to_owned(), kind, size, modified_ms }))
    }

    pub(super) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    pub(super) fn status(&self, name: &OsStr) -> Result<rustix::fs::Stat, Errno> {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// `name` comes from a listing or is checked to be one part; then NOFOLLOW is all it needs.
    fn open_here(&self, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        if name.as_bytes().contains(&b'/') || name == ".." {
            return Err(Errno::XDEV.into());
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.handle, name, flags, Mode::empty())?)
    }
}

/// Others' rights do not grow; the group's do, and it is one that only the sandbox has.
fn show(file: impl AsFd, status: &rustix::fs::Stat, group: Gid, rights: Mode) -> io::Result<()> {
    let mode = Mode::from_raw_mode(status.st_mode);
    if status.st_gid == group.as_raw() && mode.contains(rights) {
        return Ok(());
    }
    rustix::fs::fchown(&file, None, Some(group))?;
    // What the former group could do is not handed to the new one.
    let kept = mode & (Mode::RWXU | Mode::RWXO);
    rustix::fs::fchmod(&file, kept | rights)?;
    Ok(())
}
