//! Which file a descriptor or a path means, without keeping track of opens and closes.

use std::ffi::{CStr, CString};

use libc::{AT_FDCWD, O_CLOEXEC, O_DIRECTORY, O_PATH, c_int};

use crate::raw;
use crate::setup::Watch;

const PATH_BYTES: usize = 4096;

/// A file or folder by device and inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Node {
    pub device: u64,
    pub inode: u64,
}

/// An entry of a folder below the root.
pub struct Entry {
    pub path: CString,
    pub folder: Node,
}

impl Node {
    pub fn of(status: &libc::stat) -> Self {
        Node { device: status.st_dev, inode: status.st_ino }
    }
}

/// Asks the kernel each time: a cache would have to follow every close, dup and fork.
/// Takes no lock and allocates nothing, so it may run inside a signal handler.
pub fn covers_fd(watch: &Watch, fd: c_int) -> bool {
    let mut buffer = [0u8; PATH_BYTES];
    fd_path(fd, &mut buffer).is_some_and(|path| watch.covers(path))
}

/// SQLite's index of its log is shared memory, rebuilt after a crash and never synced; taking it
/// back under running threads that map it would only kill them early.
pub fn is_rebuilt(fd: c_int) -> bool {
    let mut buffer = [0u8; PATH_BYTES];
    fd_path(fd, &mut buffer).is_some_and(|path| path.ends_with(b"-shm"))
}

/// The entry that `path` names, when its folder is the root or below it.
pub fn entry(watch: &Watch, folder: c_int, path: &CStr) -> Option<Entry> {
    let path = path.to_bytes();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b"."[..], path),
    };
    let parent = CString::new(parent).ok()?;
    let opened = raw::openat(folder, &parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if opened < 0 {
        return None;
    }
    let mut buffer = [0u8; PATH_BYTES];
    let found = fd_path(opened, &mut buffer).filter(|path| watch.covers(path)).and_then(|real| {
        let status = raw::status(opened)?;
        let path = CString::new([real, b"/", name].concat()).ok()?;
        Some(Entry { path, folder: Node::of(&status) })
    });
    raw::close(opened);
    found
}

/// Opens the file behind a descriptor once more, for reading and writing.
pub fn reopen(fd: c_int) -> Option<c_int> {
    let mut name = [0u8; 32];
    let link = fd_link(fd, &mut name)?;
    let opened = raw::openat(AT_FDCWD, link, libc::O_RDWR | O_CLOEXEC, 0);
    (opened >= 0).then_some(opened)
}

fn fd_path(fd: c_int, buffer: &mut [u8; PATH_BYTES]) -> Option<&[u8]> {
    let mut name = [0u8; 32];
    let link = fd_link(fd, &mut name)?;
    // SAFETY: the buffer is ours and as long as said.
    let length = unsafe {
        libc::readlinkat(AT_FDCWD, link.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
    };
    usize::try_from(length).ok().map(|length| &buffer[..length])
}

/// `/proc/self/fd/N` without allocating.
fn fd_link(fd: c_int, buffer: &mut [u8; 32]) -> Option<&CStr> {
    let prefix = b"/proc/self/fd/";
    let mut number = u32::try_from(fd).ok()?;
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let digits = &digits[first..];
    buffer[..prefix.len()].copy_from_slice(prefix);
    buffer[prefix.len()..prefix.len() + digits.len()].copy_from_slice(digits);
    CStr::from_bytes_until_nul(buffer).ok()
}
