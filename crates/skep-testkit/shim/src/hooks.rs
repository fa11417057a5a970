//! The hooked functions that take a descriptor: writes, truncates, syncs.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use libc::{c_int, iovec, off_t, size_t, ssize_t};

use crate::raw::{self, call};
use crate::setup::{Watch, watch};
use crate::{faults, place};

/// Where a write goes.
#[derive(Clone, Copy)]
enum Position {
    At(off_t),
    Current,
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
    written(fd, Position::Current, length, || raw::write(fd, from, length))
}

#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, from: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    written(fd, Position::At(offset), length, || raw::pwrite(fd, from, length, offset))
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, from: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    pwrite(fd, from, length, offset)
}

/// # Safety
/// `parts` points to `count` parts, as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: promised by the caller.
    let length = unsafe { total(parts, count) };
    written(fd, Position::Current, length, || call!(libc::SYS_writev, fd, parts, count) as ssize_t)
}

/// # Safety
/// As `writev`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: promised by the caller.
    let length = unsafe { total(parts, count) };
    written(fd, Position::At(offset), length, || {
        call!(libc::SYS_pwritev, fd, parts, count, offset, 0) as ssize_t
    })
}

/// # Safety
/// As `writev`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: promised by the caller.
    unsafe { pwritev(fd, parts, count, offset) }
}

/// # Safety
/// `to_offset`, when not null, points to an offset.
#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    // SAFETY: promised by the caller.
    let position = match unsafe { to_offset.as_ref() } {
        Some(offset) => Position::At(*offset),
        None => Position::Current,
    };
    written(to, position, length, || {
        let number = libc::SYS_copy_file_range;
        call!(number, from, from_offset, to, to_offset, length, flags) as ssize_t
    })
}

#[unsafe(no_mangle)]
extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t {
    written(to, Position::Current, length, || {
        call!(libc::SYS_sendfile, to, from, offset, length) as ssize_t
    })
}

#[unsafe(no_mangle)]
extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t {
    sendfile(to, from, offset, length)
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    let Some(watch) = watched(fd) else { return raw::ftruncate(fd, length) };
    let mut journal = match faults::begin(watch) {
        Ok(journal) => journal,
        Err(error) => return fail(error) as c_int,
    };
    let size = raw::status(fd).map_or(0, |status| status.st_size);
    if length > size
        && let Some(error) = faults::write_fault(watch.page)
    {
        return fail(error) as c_int;
    }
    if watch.journal {
        let cut = size.saturating_sub(length).max(0);
        journal.keep(watch, fd, Some(length.max(0) as u64), cut as u64);
    }
    raw::ftruncate(fd, length)
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    ftruncate(fd, length)
}

#[unsafe(no_mangle)]
extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    let reached = (length.max(0)) as size_t;
    let done = written(fd, Position::At(offset), reached, || {
        call!(libc::SYS_fallocate, fd, mode, offset, length) as ssize_t
    });
    done as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    fallocate(fd, mode, offset, length)
}

/// Returns the error instead of setting it.
#[unsafe(no_mangle)]
extern "C" fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int {
    if fallocate(fd, 0, offset, length) == 0 { 0 } else { raw::errno() }
}

#[unsafe(no_mangle)]
extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int {
    posix_fallocate(fd, offset, length)
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd, raw::fsync)
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, raw::fdatasync)
}

fn watched(fd: c_int) -> Option<&'static Watch> {
    let before = raw::errno();
    let found = watch().filter(|watch| place::covers_fd(watch, fd));
    raw::set_errno(before);
    found
}

fn written(
    fd: c_int,
    position: Position,
    length: size_t,
    perform: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(watch) = watched(fd) else { return perform() };
    let mut journal = match faults::begin(watch) {
        Ok(journal) => journal,
        Err(error) => return fail(error),
    };
    if let Some(error) = faults::write_fault(watch.page) {
        return fail(error);
    }
    if !watch.journal {
        drop(journal);
        return perform();
    }
    // The write happens under the lock: its place in the journal is its place on the disk.
    journal.keep(watch, fd, offset_of(fd, position), length as u64);
    perform()
}

/// The lock is not held while the disk works: other files go on being written meanwhile.
fn synced(fd: c_int, perform: fn(c_int) -> c_int) -> c_int {
    let Some(watch) = watched(fd) else { return perform(fd) };
    let began = match faults::begin(watch) {
        Ok(journal) => journal.now(),
        Err(error) => return fail(error) as c_int,
    };
    if let Some(error) = faults::sync_fault(watch.page) {
        return fail(error) as c_int;
    }
    let done = perform(fd);
    if done == 0 {
        if watch.journal {
            faults::journal().synced(fd, began);
        }
        watch.page.synced.fetch_add(1, Ordering::SeqCst);
    }
    done
}

/// None means the end of the file.
fn offset_of(fd: c_int, position: Position) -> Option<u64> {
    // SAFETY: asks for the flags and the position of a descriptor.
    let (flags, current) = unsafe { (libc::fcntl(fd, libc::F_GETFL), libc::lseek(fd, 0, 1)) };
    if flags & libc::O_APPEND != 0 {
        return None;
    }
    let offset = match position {
        Position::At(offset) => offset,
        Position::Current => current,
    };
    u64::try_from(offset).ok()
}

unsafe fn total(parts: *const iovec, count: c_int) -> size_t {
    let Ok(count) = usize::try_from(count) else { return 0 };
    if parts.is_null() {
        return 0;
    }
    // SAFETY: promised by the caller.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    parts.iter().map(|part| part.iov_len).sum()
}

pub fn fail(error: c_int) -> ssize_t {
    raw::set_errno(error);
    -1
}
