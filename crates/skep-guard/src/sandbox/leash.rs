//! What holds a sandbox that is still being made to this process. Bubblewrap dies with us, and what
//! it has forked dies with it only once the walls stand: until then a pipe of ours is open there,
//! and the kernel kills the whole process group when its other end is closed.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(super) struct Leash {
    /// Kept by us.
    pub held: OwnedFd,
    /// For bubblewrap, which reads the one byte in it when the walls stand, and closes it.
    pub end: OwnedFd,
}

impl Leash {
    pub fn new() -> io::Result<Self> {
        let (end, mut held) = io::pipe()?;
        held.write_all(b"0")?;
        Ok(Self { held: held.into(), end: end.into() })
    }

    pub fn number(&self) -> RawFd {
        self.end.as_raw_fd()
    }
}

/// Runs in the forked child, the leader of its process group: bare system calls only.
pub(super) fn put_on(end: RawFd) -> io::Result<()> {
    // SAFETY: numbers only; the descriptor is one of this process.
    let done = unsafe {
        libc::fcntl(end, libc::F_SETOWN, -libc::getpid()) == 0
            && libc::fcntl(end, F_SETSIG, libc::SIGKILL) == 0
            && libc::fcntl(end, libc::F_SETFL, libc::O_ASYNC) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Linux, the same number everywhere.
const F_SETSIG: libc::c_int = 10;
