//! Limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files and sockets as it may. The soft limit of most systems is
/// a relic that a few hundred clients reach. Returns the limit now in force.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(open_files())
}

/// How many files and sockets this process can have open; nothing where that has no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The lowest: such a thread works when nobody else wants to.
pub const LOWEST_PRIORITY: i32 = 19;

/// Of this thread from now on, 1 to 19, by which others come first.
pub fn lower_priority_of_thread(by: i32) {
    // None is the calling thread. One that may not be lowered works as before.
    let _ = rustix::process::setpriority_process(None, by);
}

/// How long a thread may run before another has its turn. One with a short slice that has something
/// to do takes the place of one with a long slice at once, instead of at the end of that slice.
#[derive(Clone, Copy)]
pub enum Slice {
    Short,
    Usual,
}

/// For this thread and those it starts, threads and programs alike.
#[cfg(target_os = "linux")]
pub fn set_slice_of_thread(slice: Slice) {
    // SAFETY: a struct of numbers, for which zero is a value.
    let mut attributes = unsafe { std::mem::zeroed::<libc::sched_attr>() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_nice = rustix::process::getpriority_process(None).unwrap_or(0);
    // Nanoseconds. A tenth of it wakes no thread sooner and costs a twentieth of the time of a
    // stream. Zero is the usual one, three or four times as long.
    attributes.sched_runtime = match slice {
        Slice::Short => 1_000_000,
        Slice::Usual => 0,
    };
    // SAFETY: the kernel reads as many bytes as the struct says it has. A kernel that refuses, or
    // is too old to know slices, lets the thread run as before.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub fn set_slice_of_thread(_: Slice) {}

/// Who gives way to whom on a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// It waits for its turn when it wakes: it takes no thread's place.
    Batch,
    /// It runs where nothing else wants to, however many of its kind there are.
    Idle,
}

/// For this process from now on, and all below it. A bare system call, nothing allocated.
#[cfg(target_os = "linux")]
pub fn set_precedence(precedence: Precedence) {
    let policy = match precedence {
        Precedence::Batch => libc::SCHED_BATCH,
        Precedence::Idle => libc::SCHED_IDLE,
    };
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the struct. Zero is the calling thread; one that may not change
    // runs as before.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const none) };
}

#[cfg(not(target_os = "linux"))]
pub fn set_precedence(_: Precedence) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files().ok(), Some(hard));
    }

    /// Nanoseconds, as the kernel tells them of the calling thread; an old one has no slices.
    #[cfg(target_os = "linux")]
    fn slice() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("se.slice"))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_short_slice_is_handed_down_until_it_is_the_usual_one_again() {
        let nice = rustix::process::getpriority_process(None);
        let usual = slice();
        set_slice_of_thread(Slice::Short);
        let below = std::thread::spawn(|| {
            let inherited = slice();
            set_slice_of_thread(Slice::Usual);
            (inherited, slice())
        });
        let (inherited, back) = below.join().unwrap_or_default();
        assert_eq!((inherited, back), (slice(), usual));
        assert!(inherited < usual || usual.is_none());
        assert_eq!(rustix::process::getpriority_process(None), nice);
    }
}
