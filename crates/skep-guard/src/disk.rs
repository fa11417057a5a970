//! Disk facts: how much room is left, and making a directory entry durable.

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes an unprivileged process may still write on the file system that holds `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let status = rustix::fs::statvfs(path)?;
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Whether this process may write into `path`. Asks the kernel and writes nothing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Syncs a directory, so that the names created or removed in it survive a power loss.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
