//! Reads the environment once, when the library is loaded, and takes itself out of it.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::page::{ENV_CONTROL, ENV_ROOT, MAGIC, PAGE_BYTES, Page};
use crate::raw;

pub struct Watch {
    root: Vec<u8>,
    /// Beside the page, outside the root.
    pub stash: Vec<u8>,
    pub page: &'static Page,
    pub journal: bool,
    pid: i32,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

/// The watch of this process; none in processes that merely inherited the library by fork.
pub fn watch() -> Option<&'static Watch> {
    let watch = WATCH.get()?;
    (watch.pid == raw::pid()).then_some(watch)
}

impl Watch {
    /// The log is left out: it is written beside the work, at no certain moment, and nothing
    /// rests on it.
    pub fn covers(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.root.as_slice()).is_some_and(|rest| {
            (rest.is_empty() || rest.first() == Some(&b'/')) && !rest.starts_with(b"/run/logs/")
        })
    }
}

extern "C" fn init() {
    let root = std::env::var_os(ENV_ROOT);
    let control = std::env::var_os(ENV_CONTROL);
    let (Some(root), Some(control)) = (root, control) else { return };
    // Children of the process under test must neither count nor be killed.
    for name in [c"LD_PRELOAD", c"SKEP_SHIM_ROOT", c"SKEP_SHIM_CONTROL"] {
        // SAFETY: runs before main, so no other thread reads the environment.
        unsafe { libc::unsetenv(name.as_ptr()) };
    }
    let control = control.into_vec();
    let folder_end = control.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let stash = control[..folder_end].to_vec();
    let Ok(control) = CString::new(control) else { return };
    let Some(page) = map_page(&control) else {
        complain(b"skep-testkit-shim: the control page cannot be used\n");
        // SAFETY: ends the process at once; a run without its faults would prove nothing.
        unsafe { libc::_exit(99) };
    };
    let mut root = root.into_vec();
    while root.len() > 1 && root.last() == Some(&b'/') {
        root.pop();
    }
    let journal = page.journal.load(Ordering::SeqCst) != 0;
    let watch = Watch { root, stash, page, journal, pid: raw::pid() };
    if WATCH.set(watch).is_ok() {
        page.loaded.store(1, Ordering::SeqCst);
    }
}

fn map_page(path: &CStr) -> Option<&'static Page> {
    let fd = raw::openat(libc::AT_FDCWD, path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return None;
    }
    // SAFETY: a shared mapping of a file the test sized to PAGE_BYTES; checked below.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    let long_enough = raw::status(fd).is_some_and(|status| status.st_size >= PAGE_BYTES as i64);
    raw::close(fd);
    if at == libc::MAP_FAILED || !long_enough {
        return None;
    }
    // SAFETY: the mapping lives as long as the process, is page aligned and holds only atomics.
    let page = unsafe { &*at.cast::<Page>() };
    (page.magic.load(Ordering::SeqCst) == MAGIC).then_some(page)
}

fn complain(text: &[u8]) {
    raw::write(2, text.as_ptr().cast(), text.len());
}
