//! The hooked functions that take a path: open, unlink, rename, link, mkdir.
//! Opening, linking and making folders are not counted; a power loss takes them back all the same.

use std::ffi::{CStr, c_char};

use libc::{AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_TRUNC, c_int, c_uint, mode_t};

use crate::hooks::fail;
use crate::place::{self, Entry};
use crate::setup::watch;
use crate::{faults, raw};

type Path = *const c_char;

/// `name(arguments) [paths] => body;`: the function of the C library, with its paths as [`CStr`].
macro_rules! hooks {
    ($($name:ident($($argument:ident: $type:ty),+) [$($path:ident),+] => $body:expr;)+) => {$(
        /// # Safety
        /// Paths are C strings, as for the function of the C library. `mode` stands in the
        /// register in which a variadic caller puts it.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),+) -> c_int {
            // SAFETY: promised by the caller.
            $(let $path = unsafe { CStr::from_ptr($path) };)+
            $body
        }
    )+};
}

hooks! {
    openat(folder: c_int, path: Path, flags: c_int, mode: mode_t) [path] =>
        opened(folder, path, flags, mode);
    openat64(folder: c_int, path: Path, flags: c_int, mode: mode_t) [path] =>
        opened(folder, path, flags, mode);
    open(path: Path, flags: c_int, mode: mode_t) [path] => opened(AT_FDCWD, path, flags, mode);
    open64(path: Path, flags: c_int, mode: mode_t) [path] => opened(AT_FDCWD, path, flags, mode);
    creat(path: Path, mode: mode_t) [path] => opened(AT_FDCWD, path, CREATE, mode);
    creat64(path: Path, mode: mode_t) [path] => opened(AT_FDCWD, path, CREATE, mode);
    unlink(path: Path) [path] => removed(AT_FDCWD, path, 0);
    unlinkat(folder: c_int, path: Path, flags: c_int) [path] => removed(folder, path, flags);
    rename(from: Path, to: Path) [from, to] => renamed((AT_FDCWD, from), (AT_FDCWD, to), 0);
    renameat(from_folder: c_int, from: Path, to_folder: c_int, to: Path) [from, to] =>
        renamed((from_folder, from), (to_folder, to), 0);
    renameat2(from_folder: c_int, from: Path, to_folder: c_int, to: Path, flags: c_uint)
        [from, to] => renamed((from_folder, from), (to_folder, to), flags);
    link(from: Path, to: Path) [from, to] => linked((AT_FDCWD, from), (AT_FDCWD, to), 0);
    linkat(from_folder: c_int, from: Path, to_folder: c_int, to: Path, flags: c_int)
        [from, to] => linked((from_folder, from), (to_folder, to), flags);
    mkdir(path: Path, mode: mode_t) [path] =>
        made(AT_FDCWD, path, true, || raw::mkdirat(AT_FDCWD, path, mode));
    mkdirat(folder: c_int, path: Path, mode: mode_t) [path] =>
        made(folder, path, true, || raw::mkdirat(folder, path, mode));
}

/// The flags of `creat`.
const CREATE: c_int = O_CREAT | O_TRUNC | libc::O_WRONLY;

fn opened(folder: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let plain = || raw::openat(folder, path, flags, mode);
    if flags & (O_CREAT | O_TRUNC) == 0 {
        return plain();
    }
    let Some(watch) = watch().filter(|watch| watch.journal) else { return plain() };
    let Some(entry) = place::entry(watch, folder, path) else { return plain() };
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

fn linked(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_int) -> c_int {
    made(to.0, to.1, false, || raw::linkat(from, to, flags))
}

/// Something new that is not opened: a link, a folder.
fn made(folder: c_int, path: &CStr, is_folder: bool, perform: impl FnOnce() -> c_int) -> c_int {
    let Some(watch) = watch().filter(|watch| watch.journal) else { return perform() };
    let Some(entry) = place::entry(watch, folder, path) else { return perform() };
    let mut journal = faults::journal();
    let done = perform();
    if done == 0 {
        journal.created(entry, is_folder);
    }
    done
}

fn removed(folder: c_int, path: &CStr, flags: c_int) -> c_int {
    let perform = || raw::unlinkat(folder, path, flags);
    let Some(watch) = watch() else { return perform() };
    let Some(entry) = place::entry(watch, folder, path) else { return perform() };
    let mut journal = match faults::begin(watch) {
        Ok(journal) => journal,
        Err(error) => return fail(error) as c_int,
    };
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
    let Some(watch) = watch() else { return perform() };
    let from_entry = place::entry(watch, from.0, from.1);
    let to_entry = place::entry(watch, to.0, to.1);
    let (from_entry, to_entry): (Entry, Entry) = match (from_entry, to_entry) {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return perform(),
        // Across the border of the root: counted, not taken back.
        _ => {
            return match faults::begin(watch) {
                Ok(journal) => {
                    drop(journal);
                    perform()
                }
                Err(error) => fail(error) as c_int,
            };
        }
    };
    let mut journal = match faults::begin(watch) {
        Ok(journal) => journal,
        Err(error) => return fail(error) as c_int,
    };
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
