//! Disk facts: how much room is left, what lies at a path, and making a directory entry durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Kept free for the hive itself unless it is told otherwise.
pub const FLOOR_BYTES: u64 = 1 << 30;

/// What lies at a path, looked at through the one handle that is then read from: nothing can be
/// put in its place between the look and the reading.
#[derive(Debug)]
pub enum PathEntry {
    File(File),
    Folder,
    /// Not followed.
    Link,
    /// A pipe, a socket or a device. Opening it neither waits nor sends anything.
    Special,
}

/// Opens what lies at a path for reading.
pub fn find(path: &Path) -> io::Result<PathEntry> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags | OFlags::NOCTTY, Mode::empty()) {
        Ok(opened) => File::from(opened),
        // A link also where a link lies further up in a ring; both lead nowhere we go.
        Err(Errno::LOOP) => return Ok(PathEntry::Link),
        // A socket, or a device nobody serves.
        Err(Errno::NXIO) => return Ok(PathEntry::Special),
        Err(error) => return Err(error.into()),
    };
    let kind = opened.metadata()?.file_type();
    Ok(match () {
        () if kind.is_file() => PathEntry::File(opened),
        () if kind.is_dir() => PathEntry::Folder,
        () => PathEntry::Special,
    })
}

/// Bytes an unprivileged process may still write on the file system that holds `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let status = rustix::fs::statvfs(path)?;
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Refuses once less than `floor` bytes are free on the file system that holds `path`. One that
/// does not tell is not in the way: what is written fails by itself when there is no room.
pub fn check_floor(path: &Path, floor: u64) -> Result<(), BelowFloor> {
    match free_bytes(path) {
        Ok(free) if free < floor => Err(BelowFloor { free: free >> 20, floor: floor >> 20 }),
        _ => Ok(()),
    }
}

/// Too little room is left on the disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "disk_floor: {free} MiB are free on the disk of the workspace, and limits.disk_floor_mib keeps \
     {floor} MiB for the hive itself. Nothing was done. Make room on that disk, then try again"
)]
pub struct BelowFloor {
    free: u64,
    floor: u64,
}

/// Whether this process may write into `path`. Asks the kernel and writes nothing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Syncs a directory, so that the names created or removed in it survive a power loss.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a file that only its owner reads; whoever looks sees the old text or the whole new one,
/// also after a power loss.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}
