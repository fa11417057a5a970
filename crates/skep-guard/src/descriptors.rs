//! Descriptors that a program inherits: a handle of a folder or a socket in a sandbox is a hole in
//! its walls, whoever left it open.

use std::io;

/// The first descriptor behind standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Marks every descriptor but the standard three to be closed when a program is started. Called
/// when this program starts and again in every child before its exec: bare system calls only,
/// nothing allocated, no lock taken.
pub fn keep_from_children() -> io::Result<()> {
    // SAFETY: three numbers; it changes a flag of each descriptor and closes none.
    let marked = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if marked == 0 { Ok(()) } else { one_by_one() }
}

/// For Linux before 5.11.
fn one_by_one() -> io::Result<()> {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let most = most.and_then(|most| i32::try_from(most).ok()).unwrap_or(i32::MAX);
    for number in FIRST.cast_signed()..most {
        // SAFETY: as above; a number that names nothing is refused.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBADF) {
                return Err(error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

    use super::*;

    #[test]
    fn both_ways_mark_what_is_open_and_leave_the_standard_three() {
        for mark in [keep_from_children, one_by_one] {
            let file = File::open("/").unwrap();
            fcntl_setfd(&file, FdFlags::empty()).unwrap();
            mark().unwrap();
            assert_eq!(fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
            assert_eq!(fcntl_getfd(io::stderr().as_fd()).unwrap(), FdFlags::empty());
            drop(file);
        }
    }
}
