//! What has to be undone if the power went now: the state before every operation that no sync
//! has covered since.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use libc::c_int;

use crate::place::{self, Entry, Node};
use crate::raw;
use crate::setup::Watch;

pub struct Journal {
    /// Orders operations against syncs: a sync covers what began before it.
    clock: u64,
    pub files: Vec<TrackedFile>,
    pub folders: Vec<FolderChange>,
    stashed: u64,
}

pub struct TrackedFile {
    node: Node,
    /// Our own descriptor. Never closed: closing it would drop the POSIX locks that the process
    /// holds on the file, and while it is open the inode number is not given out again.
    pub fd: c_int,
    /// Oldest first.
    pub changes: Vec<Change>,
}

/// The bytes from `offset` and the length of the file, as they were.
pub struct Change {
    clock: u64,
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub length: u64,
}

pub struct FolderChange {
    clock: u64,
    folder: Node,
    pub undo: Undo,
}

pub enum Undo {
    Created { path: CString, is_folder: bool },
    Removed { path: CString, stash: CString },
    Renamed { from: CString, to: CString, replaced: Option<CString> },
}

impl Journal {
    pub const fn new() -> Self {
        Journal { clock: 0, files: Vec::new(), folders: Vec::new(), stashed: 0 }
    }

    pub fn now(&self) -> u64 {
        self.clock
    }

    /// Keeps `length` bytes from `offset` (or from the end) before they are overwritten or cut.
    pub fn keep(&mut self, watch: &Watch, fd: c_int, offset: Option<u64>, length: u64) {
        if place::is_rebuilt(fd) {
            return;
        }
        let Some(status) = raw::status(fd) else { return };
        let size = status.st_size as u64;
        let offset = offset.unwrap_or(size);
        self.clock += 1;
        let clock = self.clock;
        let Some(file) = self.file(Node::of(&status), fd) else {
            watch.page.untracked.fetch_add(1, Ordering::SeqCst);
            return;
        };
        let kept = length.min(size.saturating_sub(offset)) as usize;
        let mut bytes = vec![0; kept];
        let got = raw::pread_full(file.fd, &mut bytes, offset);
        if got < kept {
            watch.page.untracked.fetch_add(1, Ordering::SeqCst);
        }
        file.changes.push(Change { clock, offset, bytes, length: size });
    }

    pub fn created(&mut self, entry: Entry, is_folder: bool) {
        self.change(entry.folder, Undo::Created { path: entry.path, is_folder });
    }

    pub fn removed(&mut self, entry: Entry, stash: CString) {
        self.change(entry.folder, Undo::Removed { path: entry.path, stash });
    }

    pub fn renamed(&mut self, from: Entry, to: Entry, replaced: Option<CString>) {
        let undo = Undo::Renamed { from: from.path, to: to.path, replaced };
        self.change(to.folder, undo);
    }

    /// Gives a file a second name beside the page, so that a removal can be taken back.
    pub fn stash(&mut self, watch: &Watch, entry: &Entry) -> Option<CString> {
        self.stashed += 1;
        let name = format!("/removed-{}-{}", raw::pid(), self.stashed);
        let stash = CString::new([watch.stash.as_slice(), name.as_bytes()].concat()).ok()?;
        let here = libc::AT_FDCWD;
        (raw::linkat((here, &entry.path), (here, &stash), 0) == 0).then_some(stash)
    }

    /// A sync of this file or folder that began at `clock` has succeeded.
    pub fn synced(&mut self, fd: c_int, clock: u64) {
        let Some(status) = raw::status(fd) else { return };
        let node = Node::of(&status);
        if let Some(file) = self.files.iter_mut().find(|file| file.node == node) {
            file.changes.retain(|change| change.clock > clock);
        }
        self.folders.retain(|change| {
            let stays = change.folder != node || change.clock > clock;
            if !stays {
                change.undo.forget();
            }
            stays
        });
    }

    fn change(&mut self, folder: Node, undo: Undo) {
        self.clock += 1;
        self.folders.push(FolderChange { clock: self.clock, folder, undo });
    }

    fn file(&mut self, node: Node, fd: c_int) -> Option<&mut TrackedFile> {
        if let Some(at) = self.files.iter().position(|file| file.node == node) {
            return self.files.get_mut(at);
        }
        let fd = place::reopen(fd)?;
        self.files.push(TrackedFile { node, fd, changes: Vec::new() });
        self.files.last_mut()
    }
}

impl Undo {
    /// The change is on disk: what was kept for taking it back may go.
    fn forget(&self) {
        let stash = match self {
            Undo::Created { .. } => None,
            Undo::Removed { stash, .. } => Some(stash),
            Undo::Renamed { replaced, .. } => replaced.as_ref(),
        };
        if let Some(stash) = stash {
            raw::unlinkat(libc::AT_FDCWD, stash, 0);
        }
    }
}
