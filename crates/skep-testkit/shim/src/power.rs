//! The end of the process: by `kill -9`, or by a power loss that first takes back what no sync
//! has covered.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use libc::{AT_FDCWD, AT_REMOVEDIR, c_int, c_uint};

use crate::journal::{Change, Journal, Undo};
use crate::raw;
use crate::setup::Watch;

pub fn kill_self() -> ! {
    // SAFETY: SIGKILL to ourselves; the loop only covers the instant until it arrives.
    unsafe {
        libc::kill(raw::pid(), libc::SIGKILL);
    }
    loop {
        raw::sleep_ms(1000);
    }
}

/// A forked child stops the process, undoes, then kills it: so no thread sees a half-restored
/// disk or tells a client about it, and whoever waits for the process finds the work done.
pub fn lose(watch: &Watch, journal: &mut Journal) -> ! {
    let parent = raw::pid();
    // SAFETY: the child only makes system calls and reads memory that this thread has locked.
    let child = unsafe { libc::fork() };
    if child == 0 {
        journal.files.sort_unstable_by_key(|file| file.fd);
        close_others(journal);
        stop(parent);
        let dropped = undo_all(journal, watch.page.seed.load(Ordering::SeqCst));
        watch.page.dropped.store(dropped, Ordering::SeqCst);
        // SAFETY: ends the stopped process, then this child, without running exit handlers.
        unsafe {
            libc::kill(parent, libc::SIGKILL);
            libc::_exit(0);
        }
    }
    if child < 0 {
        watch.page.untracked.fetch_add(1, Ordering::SeqCst);
        kill_self();
    }
    loop {
        raw::sleep_ms(1000);
    }
}

/// The child must not hold the process's locks, sockets and pipes open beyond its death.
fn close_others(journal: &Journal) {
    let mut next: c_uint = 0;
    for file in &journal.files {
        let fd = file.fd as c_uint;
        if fd > next {
            raw::close_range(next, fd - 1);
        }
        next = fd + 1;
    }
    raw::close_range(next, c_uint::MAX);
}

/// Returns when every thread is stopped, dead or inside the kernel (a sync under way).
fn stop(process: i32) {
    // SAFETY: a plain signal to our parent.
    unsafe { libc::kill(process, libc::SIGSTOP) };
    let mut path = [0u8; 32];
    for _ in 0..2000 {
        if any_running(process, &mut path) {
            raw::sleep_ms(1);
        } else {
            return;
        }
    }
}

fn any_running(process: i32, path: &mut [u8; 32]) -> bool {
    let Some(tasks) = task_path(process, path) else { return false };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let folder = raw::openat(AT_FDCWD, tasks, flags, 0);
    if folder < 0 {
        return false;
    }
    let mut running = false;
    let mut buffer = [0u8; 8192];
    loop {
        let (at, length) = (buffer.as_mut_ptr(), buffer.len());
        let got = raw::call!(libc::SYS_getdents64, folder, at, length);
        let Ok(got @ 1..) = usize::try_from(got) else { break };
        let mut rest = &buffer[..got.min(buffer.len())];
        // linux_dirent64: inode 8, offset 8, length of the record 2, type 1, name.
        while rest.len() > 19 {
            let record = usize::from(u16::from_ne_bytes([rest[16], rest[17]])).max(19);
            let name = &rest[19..record.min(rest.len())];
            running |= CStr::from_bytes_until_nul(name).is_ok_and(|id| is_running(folder, id));
            rest = rest.get(record..).unwrap_or(&[]);
        }
    }
    raw::close(folder);
    running
}

fn task_path(process: i32, buffer: &mut [u8; 32]) -> Option<&CStr> {
    use std::io::Write;
    buffer.fill(0);
    write!(&mut buffer[..31], "/proc/{process}/task").ok()?;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// The state letter stands after the last parenthesis of `stat`.
fn is_running(tasks: c_int, id: &CStr) -> bool {
    if id.to_bytes().first() == Some(&b'.') {
        return false;
    }
    let task = raw::openat(tasks, id, libc::O_PATH | libc::O_DIRECTORY, 0);
    let stat = raw::openat(task, c"stat", libc::O_RDONLY, 0);
    let mut text = [0u8; 256];
    let got = if stat >= 0 { raw::pread_full(stat, &mut text, 0) } else { 0 };
    raw::close(stat);
    raw::close(task);
    let text = &text[..got];
    let end = text.iter().rposition(|byte| *byte == b')');
    let state = end.and_then(|end| text.get(end + 2));
    matches!(state, Some(b'R' | b'S'))
}

fn undo_all(journal: &Journal, seed: u64) -> u64 {
    let mut dropped = 0;
    let mut dice = Dice(seed);
    for file in &journal.files {
        let survive = dice.survivors(file.changes.len());
        for change in file.changes[survive..].iter().rev() {
            restore(file.fd, change);
            dropped += 1;
        }
    }
    let survive = dice.survivors(journal.folders.len());
    for change in journal.folders[survive..].iter().rev() {
        change.undo.perform();
        dropped += 1;
    }
    dropped
}

fn restore(fd: c_int, change: &Change) {
    let mut done = 0;
    while done < change.bytes.len() {
        let rest = &change.bytes[done..];
        let at = (change.offset + done as u64) as libc::off_t;
        let wrote = raw::pwrite(fd, rest.as_ptr().cast(), rest.len(), at);
        if wrote <= 0 {
            break;
        }
        done += wrote as usize;
    }
    raw::ftruncate(fd, change.length as libc::off_t);
}

impl Undo {
    fn perform(&self) {
        let here = AT_FDCWD;
        match self {
            Undo::Created { path, is_folder } => {
                raw::unlinkat(here, path, if *is_folder { AT_REMOVEDIR } else { 0 });
            }
            Undo::Removed { path, stash } => {
                raw::renameat((here, stash), (here, path), 0);
            }
            Undo::Renamed { from, to, replaced } => {
                raw::renameat((here, to), (here, from), 0);
                if let Some(stash) = replaced {
                    raw::renameat((here, stash), (here, to), 0);
                }
            }
        }
    }
}

struct Dice(u64);

impl Dice {
    /// How many of the oldest `count` operations reached the disk by themselves; seed 0 = none.
    fn survivors(&mut self, count: usize) -> usize {
        if self.0 == 0 {
            return 0;
        }
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^= value >> 31;
        (value % (count as u64 + 1)) as usize
    }
}
