//! The single-instance lock: an advisory lock on one file, held as long as the value lives.
//!
//! The kernel releases it however the process ends, so a lock file left behind means nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

#[derive(Debug)]
pub struct InstanceLock {
    // Held for its lock; the descriptor is close-on-exec, so children do not keep it.
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process{} already serves this home", holder_text(*.holder))]
    Held { holder: Option<u32> },
    #[error("cannot lock {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl InstanceLock {
    /// Takes the lock or says who has it. Never waits.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let io_error = |source: io::Error| LockError::Io { path: path.to_path_buf(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(io_error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held { holder: read_holder(&mut file) });
            }
            Err(errno) => return Err(io_error(errno.into())),
        }
        write_holder(&mut file).map_err(io_error)?;
        Ok(Self { _file: file })
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    // A process id has at most ten digits; the bound keeps a foreign file from being read whole.
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
