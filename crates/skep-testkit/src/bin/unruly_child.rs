//! A child that is spoken to in lines and does what it should not. The first argument says what.
//! Whatever it gets that it must not get is a line beginning with `escaped`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::process::ExitCode;
use std::ptr;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo"] => echo(),
        ["given"] => given(),
        ["spy", terces, pids @ ..] => {
            // Turned round, so that it is not found in the command that looks for it.
            let secret: String = terces.chars().rev().collect();
            pids.iter().for_each(|pid| spy(pid.parse().unwrap()));
            search(&secret);
            say("done");
        }
        ["flood", "lines"] => flood(io::stdout(), b"a line of many\n"),
        ["flood", "line"] => flood(io::stdout(), &[b'x'; 4096]),
        ["flood", "errors"] => {
            // More than is kept, before anybody is told of it.
            eprint!("{}", "an error of many\n".repeat(2000));
            say("errors");
            flood(io::stderr(), b"an error of many\n");
        }
        ["hang"] => wait_forever(),
        ["deaf"] => {
            ignore_signals();
            say("deaf");
            wait_forever();
        }
        ["half", text] => {
            print!("whole\n{text}");
            io::stdout().flush().unwrap();
            eprint!("last words");
            return ExitCode::from(3);
        }
        ["daemon"] => daemon(),
        ["memory"] => memory(),
        ["disk"] => disk(),
        other => panic!("unknown mode {other:?}"),
    }
    ExitCode::SUCCESS
}

fn say(line: &str) {
    // Nobody listens: nothing is left to do.
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

fn escaped(how: &str) {
    say(&format!("escaped: {how}"));
}

/// Every line comes back; what was said stays in memory.
fn echo() {
    let mut heard = Vec::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        say(&line);
        heard.push(line);
    }
    eprintln!("heard {} lines", heard.len());
}

/// What it was given: variables, descriptors, and what stands in the one that `GIVEN` names.
fn given() {
    let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    names.sort();
    say(&names.join(" "));
    let mut open: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The folder that was just read stands in it too and is closed again.
    // SAFETY: plain numbers.
    open.retain(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0);
    let number: RawFd = std::env::var("GIVEN").unwrap().parse().unwrap();
    open.retain(|other| *other > 2 && *other != number);
    say(&format!("{open:?}"));
    let mut text = String::new();
    // SAFETY: given to this process, and nobody else here has it.
    unsafe { fs::File::from_raw_fd(number) }.read_to_string(&mut text).unwrap();
    say(&text);
}

/// Another child, by the number the host knows it under.
fn spy(pid: i32) {
    if pid == std::process::id().cast_signed() {
        return;
    }
    // SAFETY: plain system calls; the only memory handed over is a local buffer of its own length.
    unsafe {
        if libc::kill(pid, 0) == 0 {
            escaped(&format!("found process {pid}"));
        }
        if libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) == 0 {
            escaped(&format!("traced process {pid}"));
        }
        let mut buffer = [0_u8; 16];
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 16 };
        let remote = libc::iovec { iov_base: 0x40_0000 as *mut _, iov_len: 16 };
        if libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) > 0 {
            escaped(&format!("read the memory of process {pid}"));
        }
        let handle = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if handle >= 0 {
            escaped(&format!("opened a handle of process {pid}"));
            for number in 0..16 {
                if libc::syscall(libc::SYS_pidfd_getfd, handle, number, 0) >= 0 {
                    escaped(&format!("took descriptor {number} of process {pid}"));
                }
            }
        }
    }
    for file in ["mem", "environ", "maps", "fd/0", "fd/1", "fd/2", "root/", "cwd/"] {
        if fs::File::open(format!("/proc/{pid}/{file}")).is_ok() {
            escaped(&format!("opened {file} of process {pid}"));
        }
    }
}

/// Looks for the secret in all that can be seen of processes other than this one.
fn search(secret: &str) {
    let holds = |text: &[u8]| text.windows(secret.len()).any(|part| part == secret.as_bytes());
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid == own || pid.parse::<i32>().is_err() {
            continue;
        }
        for file in ["environ", "cmdline", "maps", "mountinfo"] {
            if fs::read(entry.path().join(file)).is_ok_and(|text| holds(&text)) {
                escaped(&format!("saw the secret in {pid}/{file}"));
            }
        }
        let pipes = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        for pipe in pipes.filter(|pipe| {
            let to = fs::read_link(pipe.path()).unwrap_or_default();
            to.to_string_lossy().starts_with("pipe:")
        }) {
            // Its own three are those of whoever started it.
            let own = (0..3).any(|number| {
                fs::read_link(format!("/proc/self/fd/{number}")).ok()
                    == fs::read_link(pipe.path()).ok()
            });
            if !own {
                escaped(&format!("found the pipe {:?}", pipe.path()));
            }
        }
    }
}

fn flood(mut stream: impl Write, piece: &[u8]) {
    while stream.write_all(piece).is_ok() {}
}

fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn ignore_signals() {
    // SAFETY: numbers only; those that cannot be ignored are refused.
    unsafe {
        for signal in 1..64 {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// What would do harm outside.
fn only_in_a_sandbox() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert_eq!(host.trim(), "skep", "only to be run inside the sandbox");
}

/// Leaves session, group and parent behind, keeps the pipes open, and goes on after the first
/// process has ended.
fn daemon() {
    // SAFETY: the children call async-signal-safe functions and then wait.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                ignore_signals();
                fs::write("daemon-runs", "yes").unwrap();
                wait_forever();
            }
            libc::_exit(0);
        }
    }
    while !fs::exists("daemon-runs").unwrap() {
        std::thread::yield_now();
    }
    say("left a daemon");
}

/// Many processes, each far below its own limit.
fn memory() {
    const PIECE: usize = 16 << 20;
    only_in_a_sandbox();
    for _ in 0..30 {
        // SAFETY: the child maps, writes within the mapping and waits.
        unsafe {
            if libc::fork() == 0 {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
                let memory = libc::mmap(ptr::null_mut(), PIECE, protection, flags, -1, 0);
                if memory != libc::MAP_FAILED {
                    ptr::write_bytes(memory.cast::<u8>(), 1, PIECE);
                }
                wait_forever();
            }
        }
    }
    wait_forever();
}

fn disk() {
    only_in_a_sandbox();
    let piece = vec![1_u8; 8 << 20];
    for number in 0.. {
        if fs::write(format!("flood{number}"), &piece).is_err() {
            say("the disk is full");
            wait_forever();
        }
    }
}
