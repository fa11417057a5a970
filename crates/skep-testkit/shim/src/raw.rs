//! System calls made directly, so that the library never runs into its own hooks.
//! The `*at` forms only: they exist on every architecture.

use std::ffi::{CStr, c_void};

use libc::{SYS_close, SYS_fdatasync, SYS_fsync, SYS_ftruncate, SYS_getpid, SYS_linkat};
use libc::{SYS_mkdirat, SYS_openat, SYS_pwrite64, SYS_renameat2, SYS_unlinkat, SYS_write};
use libc::{c_int, c_long, c_uint, mode_t, off_t, size_t, ssize_t};

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {
        // SAFETY: arguments are passed on as the caller of the hooked function gave them, or point
        // to buffers owned by this library for the length of the call.
        unsafe { libc::syscall($number $(, $argument)*) }
    };
}
pub(crate) use call;

pub fn pid() -> i32 {
    call!(SYS_getpid) as i32
}

pub fn openat(folder: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    call!(SYS_openat, folder, path.as_ptr(), flags | libc::O_LARGEFILE, mode as c_uint) as c_int
}

pub fn close(fd: c_int) {
    call!(SYS_close, fd);
}

pub fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
    call!(SYS_write, fd, from, length) as ssize_t
}

pub fn pwrite(fd: c_int, from: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    call!(SYS_pwrite64, fd, from, length, offset) as ssize_t
}

pub fn fsync(fd: c_int) -> c_int {
    call!(SYS_fsync, fd) as c_int
}

pub fn fdatasync(fd: c_int) -> c_int {
    call!(SYS_fdatasync, fd) as c_int
}

pub fn ftruncate(fd: c_int, length: off_t) -> c_int {
    call!(SYS_ftruncate, fd, length) as c_int
}

pub fn unlinkat(folder: c_int, path: &CStr, flags: c_int) -> c_int {
    call!(SYS_unlinkat, folder, path.as_ptr(), flags) as c_int
}

pub fn mkdirat(folder: c_int, path: &CStr, mode: mode_t) -> c_int {
    call!(SYS_mkdirat, folder, path.as_ptr(), mode as c_uint) as c_int
}

pub fn linkat(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_int) -> c_int {
    call!(SYS_linkat, from.0, from.1.as_ptr(), to.0, to.1.as_ptr(), flags) as c_int
}

pub fn renameat(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_uint) -> c_int {
    call!(SYS_renameat2, from.0, from.1.as_ptr(), to.0, to.1.as_ptr(), flags) as c_int
}

pub fn close_range(first: c_uint, last: c_uint) {
    let number: c_long = libc::SYS_close_range;
    call!(number, first, last, 0 as c_uint);
}

pub fn status(fd: c_int) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the whole struct when it returns 0.
    unsafe { (libc::fstat(fd, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

pub fn exists(path: &CStr) -> bool {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the struct is only written to, never read.
    unsafe { libc::lstat(path.as_ptr(), status.as_mut_ptr()) == 0 }
}

/// Reads as much as there is, up to the length of the buffer.
pub fn pread_full(fd: c_int, into: &mut [u8], offset: u64) -> usize {
    let mut filled = 0;
    while filled < into.len() {
        let rest = &mut into[filled..];
        let at = (offset + filled as u64) as off_t;
        // SAFETY: the buffer is ours and as long as said.
        let got = unsafe { libc::pread(fd, rest.as_mut_ptr().cast(), rest.len(), at) };
        if got <= 0 {
            break;
        }
        filled += got as usize;
    }
    filled
}

pub fn errno() -> c_int {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(value: c_int) {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = value };
}

pub fn sleep_ms(milliseconds: u64) {
    let mut left = libc::timespec {
        tv_sec: (milliseconds / 1000) as libc::time_t,
        tv_nsec: ((milliseconds % 1000) * 1_000_000) as c_long,
    };
    // SAFETY: both pointers are to our own value; interrupted sleeps go on with what is left.
    unsafe {
        let left: *mut libc::timespec = &mut left;
        while libc::nanosleep(left, left) == -1 && errno() == libc::EINTR {}
    }
}
