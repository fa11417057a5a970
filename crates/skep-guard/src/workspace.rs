//! Files beneath an agent's workspace.
//!
//! The kernel resolves every path relative to a handle of the workspace and refuses to leave it,
//! so nothing can be swapped between a check and the use. What is written goes through a handle of
//! the folder it stands in: a new file is made there under a name of its own and then takes the
//! place of the old one, so a link is replaced and never followed.

mod folder;
mod refusal;
mod target;
mod walk;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use folder::{EntryKind, Folder, FolderEntry};
pub use refusal::PathRefusal;
pub use target::{Folders, Target};
pub use walk::{Facts, Walked};

use refusal::{kind_name, refusal};

/// What may be reached: one folder to work in, and folders that may only be read.
#[derive(Debug)]
pub struct Workspace {
    work: Root,
    read_only: Vec<Root>,
    /// Paths that were judged, and where each led then.
    judged: Vec<(String, String)>,
}

/// A folder and the two ways its path may be spelt.
#[derive(Debug)]
struct Root {
    handle: OwnedFd,
    path: PathBuf,
    canonical: PathBuf,
    /// Folders directly in it that may be written all the same.
    governed: &'static [&'static str],
}

/// A file or a folder, opened for reading.
#[derive(Debug)]
pub enum Opened {
    File(File),
    Folder(Folder),
}

/// How often a lookup is repeated that a concurrent rename made undecidable for the kernel.
const RENAME_TRIES: usize = 8;

impl Workspace {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { work: Root::open(path)?, read_only: Vec::new(), judged: Vec::new() })
    }

    /// Adds a folder that may be read by its absolute path and never written: the settings of the
    /// workspace's owner. The workspace may lie inside it.
    pub fn with_read_only(mut self, path: &Path) -> io::Result<Self> {
        self.read_only.push(Root::open(path)?);
        Ok(self)
    }

    /// As [`Self::with_read_only`], but what lies in the folders `governed` can be written.
    pub fn with_settings(
        mut self,
        path: &Path,
        governed: &'static [&'static str],
    ) -> io::Result<Self> {
        self.read_only.push(Root { governed, ..Root::open(path)? });
        Ok(self)
    }

    /// From now on each of these paths leads where [`Self::leads_to`] said, or is refused. Looked
    /// at is what was opened, so that a link put there since is noticed.
    pub fn with_judged(mut self, judged: Vec<(String, String)>) -> Self {
        self.judged = judged;
        self
    }

    /// Whether what was opened for a path, or the folder of a file of this name, is where that path
    /// led when it was judged.
    fn check(&self, requested: &str, opened: &OwnedFd, name: &OsStr) -> Result<(), PathRefusal> {
        let mut judged = self.judged.iter().filter(|(path, _)| path == requested).peekable();
        if judged.peek().is_none() {
            return Ok(());
        }
        let real = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let real = real.map(|real| real.join(name));
        match real
            .is_ok_and(|real| judged.all(|(_, leads)| real == self.work.canonical.join(leads)))
        {
            true => Ok(()),
            false => Err(PathRefusal::Moved { path: requested.to_owned() }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.work.path
    }

    /// Opens a regular file for reading. Never hangs: pipes and devices are refused, not opened
    /// for waiting.
    pub fn open_file(&self, requested: &str) -> Result<File, PathRefusal> {
        match self.open_any(requested)? {
            Opened::File(file) => Ok(file),
            Opened::Folder(_) => Err(PathRefusal::IsDirectory { path: requested.to_owned() }),
        }
    }

    /// Opens a file or a folder for reading, whichever stands there.
    pub fn open_any(&self, requested: &str) -> Result<Opened, PathRefusal> {
        let (root, relative) = self.locate(requested)?;
        let fd = root.resolve(&relative).map_err(|errno| refusal(requested, errno))?;
        self.check(requested, &fd, OsStr::new(""))?;
        let status = rustix::fs::fstat(&fd).map_err(|errno| refusal(requested, errno))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(Opened::File(File::from(fd))),
            FileType::Directory => Ok(Opened::Folder(Folder::new(fd, tidied(&relative)))),
            other => {
                Err(PathRefusal::NotRegular { path: requested.to_owned(), kind: kind_name(other) })
            }
        }
    }

    /// The workspace itself as a folder.
    pub fn folder(&self) -> Result<Folder, PathRefusal> {
        match self.open_any(".")? {
            Opened::Folder(folder) => Ok(folder),
            Opened::File(_) => Err(PathRefusal::NotFound { path: ".".to_owned() }),
        }
    }

    /// A place to write to: in the workspace, or in a governed folder of the settings.
    pub fn target(&self, requested: &str, folders: Folders) -> Result<Target, PathRefusal> {
        let target = self.find_target(requested, folders)?;
        self.check(requested, &target.folder, &target.name)?;
        Ok(target)
    }

    fn find_target(&self, requested: &str, folders: Folders) -> Result<Target, PathRefusal> {
        let (root, relative) = self.locate(requested)?;
        if std::ptr::eq(root, &raw const self.work) {
            return Target::open(root, &relative, requested, folders);
        }
        let settings = || {
            let governed = match root.governed {
                [] => String::new(),
                some => format!(", but for what is in {}/", some.join("/, ")),
            };
            PathRefusal::Settings { path: requested.to_owned(), governed }
        };
        let mut parts = relative.components();
        let within = match parts.next() {
            Some(Component::Normal(name)) => root.governed.iter().find(|part| name == **part),
            _ => None,
        };
        let within = within.ok_or_else(settings)?;
        let rest = parts.as_path();
        if rest.as_os_str().is_empty() && !requested.ends_with('/') {
            return Err(settings());
        }
        // No link, no way back, nothing hidden: what is changed here is what its path says.
        let plain = |part| matches!(part, Component::Normal(name) if !is_hidden(name));
        if !rest.components().all(plain) {
            let why = "settings have plain paths, without `..` and hidden names";
            return Err(PathRefusal::BadPath { path: requested.to_owned(), why });
        }
        let governed = root.below(within, folders).map_err(|errno| refusal(requested, errno))?;
        let target = Target::open(&governed, rest, requested, folders)?;
        Ok(target.in_settings(format!("{within}/{}", rest.to_string_lossy())))
    }

    /// Whether it is in this folder, or is it.
    pub fn lies_in(&self, folder: &str) -> bool {
        self.work.canonical.starts_with(folder)
    }

    /// Where a path leads once links and `..` are followed: relative to the workspace where that
    /// lies in it, else absolute. What does not exist yet leads where it would be made. Nothing
    /// where that cannot be said.
    pub fn leads_to(&self, requested: &str) -> Option<String> {
        if requested.is_empty() || requested.contains('\0') {
            return None;
        }
        let mut real = self.work.canonical.clone();
        let mut parts = Path::new(requested).components();
        while let Some(part) = parts.next() {
            match part {
                Component::Normal(name) => {
                    let next = real.join(name);
                    match next.symlink_metadata() {
                        Ok(found) if found.is_symlink() => real = next.canonicalize().ok()?,
                        Ok(_) => real = next,
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {
                            real = tidied(&next.join(parts.as_path()))
                                .iter()
                                .fold(PathBuf::from("/"), |path, name| path.join(name));
                            break;
                        }
                        Err(_) => return None,
                    }
                }
                Component::ParentDir => drop(real.pop()),
                Component::RootDir => real = PathBuf::from("/"),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        let path = match real.strip_prefix(&self.work.canonical) {
            Ok(inside) if inside.as_os_str().is_empty() => Path::new("."),
            Ok(inside) => inside,
            Err(_) => &real,
        };
        path.to_str().map(str::to_owned)
    }

    /// The root a path belongs to, and the path relative to it. Relative paths start at the
    /// workspace; absolute ones lie inside one of the roots.
    fn locate(&self, requested: &str) -> Result<(&Root, PathBuf), PathRefusal> {
        let bad = |why| PathRefusal::BadPath { path: requested.to_owned(), why };
        if requested.trim().is_empty() {
            return Err(bad("it is empty"));
        }
        if requested.contains('\0') {
            return Err(bad("it holds a zero byte"));
        }
        let path = Path::new(requested);
        if path.is_relative() {
            return Ok((&self.work, path.to_path_buf()));
        }
        std::iter::once(&self.work)
            .chain(&self.read_only)
            .find_map(|root| Some((root, root.inside(path)?)))
            .ok_or_else(|| PathRefusal::OutsideWorkspace { path: requested.to_owned() })
    }
}

impl Root {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        // The kernel knows the path of what is open: one question, where the path alone takes one
        // for each of its folders.
        let of_handle = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        let canonical = of_handle.or_else(|_| path.canonicalize())?;
        Ok(Self { handle, path: std::path::absolute(path)?, canonical, governed: &[] })
    }

    /// The folder of this name directly in this one.
    fn below(&self, name: &str, folders: Folders) -> Result<Self, Errno> {
        if folders == Folders::Create {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let here = self.open_beneath(Path::new("."), flags, ResolveFlags::NO_SYMLINKS)?;
            target::create_folder(&here, name.as_ref())?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let handle = self.open_beneath(Path::new(name), flags, ResolveFlags::NO_SYMLINKS)?;
        let (path, canonical) = (self.path.join(name), self.canonical.join(name));
        Ok(Self { handle, path, canonical, governed: &[] })
    }

    fn inside(&self, absolute: &Path) -> Option<PathBuf> {
        let inside = absolute
            .strip_prefix(&self.path)
            .or_else(|_| absolute.strip_prefix(&self.canonical))
            .ok()?;
        let own = inside.as_os_str().is_empty();
        Some(if own { PathBuf::from(".") } else { inside.to_path_buf() })
    }

    /// Opens for reading whatever stands at the path, following links that stay inside.
    fn resolve(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        // NONBLOCK: opening a pipe without a writer would wait for one.
        self.resolve_as(relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    fn resolve_as(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolved = self.open_beneath(relative, flags, ResolveFlags::empty());
        if matches!(resolved, Err(Errno::XDEV)) {
            return self.resolve_absolute_link(relative, flags);
        }
        resolved
    }

    fn open_beneath(
        &self,
        relative: &Path,
        flags: OFlags,
        extra: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | extra;
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..RENAME_TRIES {
            outcome = rustix::fs::openat2(&self.handle, relative, flags, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }

    /// The kernel refuses every absolute link, also one that points back into the workspace. Such
    /// a target is opened by its own path, without following any link on the way.
    fn resolve_absolute_link(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let target = self.canonical.join(relative).canonicalize().map_err(|_| Errno::XDEV)?;
        let inside = target.strip_prefix(&self.canonical).map_err(|_| Errno::XDEV)?;
        if inside.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(Errno::XDEV);
        }
        self.open_beneath(inside, flags, ResolveFlags::NO_SYMLINKS)
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// The path as it is shown: without `.` and without the folders that `..` takes back.
fn tidied(relative: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => tidy.push(name),
            Component::ParentDir => {
                tidy.pop();
            }
            _ => {}
        }
    }
    tidy
}
