//! The single-instance lock: advisory locks on a home and on the folder of its lock file, held as
//! long as the value lives. The file names who holds them.
//!
//! The kernel releases them however the process ends, so a file left behind means nothing. Folders
//! are locked, not the file: to remove the file, or its folder with all that is in it, opens the
//! way to nobody.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Nobody looks for longer.
const LOOK: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);
/// The file is written over: a link there would name another one, and a pipe would wait.
const AS_IT_IS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

#[derive(Debug)]
pub struct InstanceLock {
    // Held for their locks; the descriptors are close-on-exec, so children do not keep them.
    _folders: [File; 2],
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process{} already serves this home", holder_text(*.holder))]
    Held { holder: Option<u32> },
    #[error("cannot lock {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Somebody looks at the home: while this lives, nobody begins to serve it.
#[derive(Debug)]
pub struct Look {
    _folders: [File; 2],
}

impl Look {
    /// Nobody serves the home, or who does. Changes nothing. `path` is that of the file.
    pub fn take(home: &Path, path: &Path) -> Result<Self, LockError> {
        let io_error = |source: io::Error| LockError::Io { path: path.to_path_buf(), source };
        let folders = open_folders(home, path).map_err(io_error)?;
        for folder in &folders {
            match flock(folder, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held { holder: read_holder(path) });
                }
                Err(errno) => return Err(io_error(errno.into())),
            }
        }
        Ok(Self { _folders: folders })
    }
}

impl InstanceLock {
    /// Takes the locks of the home and of the folder in which the file `path` is, or says who has
    /// them. Waits only for somebody who merely looks.
    pub fn acquire(home: &Path, path: &Path) -> Result<Self, LockError> {
        let io_error = |source: io::Error| LockError::Io { path: path.to_path_buf(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(AS_IT_IS)
            .open(path)
            .map_err(io_error)?;
        let folders = open_folders(home, path).map_err(io_error)?;
        let began = Instant::now();
        for folder in &folders {
            while let Err(errno) = flock(folder, FlockOperation::NonBlockingLockExclusive) {
                if errno != rustix::io::Errno::WOULDBLOCK {
                    return Err(io_error(errno.into()));
                }
                if began.elapsed() > LOOK || !is_looked_at(folder) {
                    return Err(LockError::Held { holder: read_holder(path) });
                }
                std::thread::sleep(POLL);
            }
        }
        write_holder(&mut file).map_err(io_error)?;
        Ok(Self { _folders: folders })
    }
}

/// The home first: everybody takes the locks in this order.
fn open_folders(home: &Path, path: &Path) -> io::Result<[File; 2]> {
    Ok([File::open(home)?, File::open(path.parent().unwrap_or(path))?])
}

/// A lock that can be shared has no owner.
fn is_looked_at(folder: &File) -> bool {
    let shared = flock(folder, FlockOperation::NonBlockingLockShared);
    shared.and_then(|()| flock(folder, FlockOperation::Unlock)).is_ok()
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_holder(path: &Path) -> Option<u32> {
    let file = OpenOptions::new().read(true).custom_flags(AS_IT_IS).open(path).ok()?;
    let mut text = String::new();
    // A process id has at most ten digits; the bound keeps a foreign file from being read whole.
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
