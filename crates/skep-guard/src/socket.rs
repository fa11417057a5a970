//! The local socket in `run/`: bound and reached through a directory handle, because a socket
//! address holds 108 bytes and a home may lie deeper than that.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
#[cfg(target_os = "linux")]
use tokio::net::TcpStream;
use tokio::net::{UnixListener, UnixStream};

/// The socket's file name inside `run/`.
pub const SOCKET_NAME: &str = "skep.sock";

/// Enough for a burst of CLI calls; more wait in `connect`.
const BACKLOG: i32 = 128;

/// Binds `run/skep.sock`, readable and writable for its owner alone.
///
/// The caller holds the instance lock: a socket already there belongs to nobody and is removed.
pub fn bind(run: &Path) -> io::Result<UnixListener> {
    let path = run.join(SOCKET_NAME);
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(&path)?,
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is in the way and is no socket", path.display()),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let directory = open_directory(run)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The mode of the unbound socket becomes the mode of the file, so the file is never open to
    // others, not even between bind and chmod. (The umask would do it too, but for all threads.)
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(short_path(&directory))?)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}

/// The user id that owns a path; the local socket serves the owner of the home and no one else.
pub fn owner(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.uid())
}

/// Whether the process at the other end runs as `uid`. The kernel vouches for the answer.
pub fn peer_is(stream: &UnixStream, uid: u32) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == uid)
}

/// Bounds what the kernel keeps of a TCP connection's data that it cannot send yet. Data under way
/// is not counted, so that a far reader gets it as fast as before.
#[cfg(target_os = "linux")]
pub fn keep_little_unsent(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the call, and the option takes one number of this length.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            std::ptr::from_ref(&bytes).cast(),
            length,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// A path to the socket that fits a socket address; valid while `directory` is open.
pub(crate) fn short_path(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_NAME}", directory.as_raw_fd()))
}
