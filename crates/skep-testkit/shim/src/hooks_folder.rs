//! The hooked functions that take a path: open, unlink, rename, link, mkdir.
//! Opening, linking and making folders are not counted; a power loss takes them back all the same.

use std::ffi::{CStr, c_char};

use libc::{AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_TRUNC, c_int, c_uint, mode_t};

use crate::place::{self, Entry};
use crate::setup::watch;
use crate::{faults, raw};

/// # Safety
/// `path` is a C string, as for the function of the C library; so for all functions here.
/// `mode` stands in the register in which a variadic caller puts it.
#[unsafe(no_mangle)]
unsafe extern "C" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: promised by the caller.
    opened(folder, unsafe { CStr::from_ptr(path) }, flags, mode)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: promised by the caller.
    opened(folder, unsafe { CStr::from_ptr(path) }, flags, mode)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: promised by the caller.
    opened(AT_FDCWD, unsafe { CStr::from_ptr(path) }, flags, mode)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: promised by the caller.
    opened(AT_FDCWD, unsafe { CStr::from_ptr(path) }, flags, mode)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    let flags = O_CREAT | O_TRUNC | libc::O_WRONLY;
    // SAFETY: promised by the caller.
    opened(AT_FDCWD, unsafe { CStr::from_ptr(path) }, flags, mode)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { creat(path, mode) }
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: promised by the caller.
    removed(AT_FDCWD, unsafe { CStr::from_ptr(path) }, 0)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: promised by the caller.
    removed(folder, unsafe { CStr::from_ptr(path) }, flags)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: promised by the caller.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    renamed((AT_FDCWD, from), (AT_FDCWD, to), 0)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { renameat2(from_folder, from, to_folder, to, 0) }
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: promised by the caller.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    renamed((from_folder, from), (to_folder, to), flags)
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { linkat(AT_FDCWD, from, AT_FDCWD, to, 0) }
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: promised by the caller.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    made(to_folder, to, false, || raw::linkat((from_folder, from), (to_folder, to), flags))
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { mkdirat(AT_FDCWD, path, mode) }
}

/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: promised by the caller.
    let path = unsafe { CStr::from_ptr(path) };
    made(folder, path, true, || raw::mkdirat(folder, path, mode))
}

fn opened(folder: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let plain = || raw::openat(folder, path, flags, mode);
    if flags & (O_CREAT | O_TRUNC) == 0 {
        return plain();
    }
    let Some(watch) = watch().filter(|watch| watch.journal) else {
        return plain();
    };
    let Some(entry) = place::entry(watch, folder, path) else {
        return plain();
    };
    let mut journal = faults::journal();
    let existed = raw::exists(&entry.path);
    let fd = raw::openat(folder, path, flags & !O_TRUNC, mode);
    if fd < 0 {
        return fd;
    }
    if !existed {
        journal.created(entry, false);
    } else if flags & O_TRUNC != 0 {
        journal.keep(watch, fd, Some(0), u64::MAX);
        raw::ftruncate(fd, 0);
    }
    fd
}

/// Something new that is not opened: a link, a folder.
fn made(folder: c_int, path: &CStr, is_folder: bool, perform: impl FnOnce() -> c_int) -> c_int {
    let Some(watch) = watch().filter(|watch| watch.journal) else {
        return perform();
    };
    let Some(entry) = place::entry(watch, folder, path) else {
        return perform();
    };
    let mut journal = faults::journal();
    let done = perform();
    if done == 0 {
        journal.created(entry, is_folder);
    }
    done
}

fn removed(folder: c_int, path: &CStr, flags: c_int) -> c_int {
    let perform = || raw::unlinkat(folder, path, flags);
    let Some(watch) = watch() else {
        return perform();
    };
    let Some(entry) = place::entry(watch, folder, path) else {
        return perform();
    };
    let mut journal = faults::begin(watch);
    if !watch.journal || flags & AT_REMOVEDIR != 0 {
        return perform();
    }
    let stash = journal.stash(watch, &entry);
    let done = perform();
    match stash {
        Some(stash) if done == 0 => journal.removed(entry, stash),
        Some(stash) => forget(&stash),
        None => {}
    }
    done
}

fn renamed(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_uint) -> c_int {
    let perform = || raw::renameat(from, to, flags);
    let Some(watch) = watch() else {
        return perform();
    };
    let from_entry = place::entry(watch, from.0, from.1);
    let to_entry = place::entry(watch, to.0, to.1);
    let (from_entry, to_entry): (Entry, Entry) = match (from_entry, to_entry) {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return perform(),
        // Across the border of the root: counted, not taken back.
        _ => {
            drop(faults::begin(watch));
            return perform();
        }
    };
    let mut journal = faults::begin(watch);
    if !watch.journal {
        return perform();
    }
    let replaced = journal.stash(watch, &to_entry);
    let done = perform();
    if done == 0 {
        journal.renamed(from_entry, to_entry, replaced);
    } else if let Some(stash) = replaced {
        forget(&stash);
    }
    done
}

/// Keeps the errno of the operation that failed.
fn forget(stash: &CStr) {
    let before = raw::errno();
    raw::unlinkat(AT_FDCWD, stash, 0);
    raw::set_errno(before);
}
