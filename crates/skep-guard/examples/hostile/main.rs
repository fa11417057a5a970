//! A program that tries to get out of the sandbox. The wall tests copy it into a workspace and run
//! it there. Whatever it manages to do is a line beginning with `escaped`; the last line is `done`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod first;
mod growth;
mod network;

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::ptr;

fn main() {
    // Started by mistake outside the sandbox it would do harm.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert_eq!(host.trim(), "skep", "only to be run inside the sandbox");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["files", paths @ ..] => paths.iter().for_each(|path| files(path)),
        // Turned round, so that it is not found in the command that looks for it.
        ["server", pid, terces] => {
            let secret: String = terces.chars().rev().collect();
            server(pid.parse().unwrap(), &secret);
        }
        ["sockets", port, path, name] => sockets(port.parse().unwrap(), path, name),
        ["network", port, path] => network::network(port.parse().unwrap(), path),
        ["privileges"] => privileges(),
        ["first"] => first::first(),
        ["outlive"] => first::outlive(),
        ["descriptors"] => descriptors(),
        ["memory", "forked"] => memory_of_many(),
        ["memory", "tables"] => tables(),
        ["sockets-full", kind] => full_sockets(kind),
        ["buffers"] => buffers(),
        ["handles"] => handles(),
        ["lent-rights"] => lent_rights(),
        ["memory", kind] => memory(kind),
        ["disk"] => disk(),
        ["disk-unseen"] => disk_unseen(),
        ["grow"] => growth::grow(),
        ["names", count] => growth::names(count.parse().unwrap()),
        ["forks"] => forks(),
        ["daemon"] => daemon(),
        other => panic!("unknown attack {other:?}"),
    }
    println!("done");
}

fn escaped(how: &str) {
    println!("escaped: {how}");
}

fn files(path: &str) {
    let mut spellings = vec![path.to_owned()];
    let roots = [
        "/proc/self/root",
        "/proc/1/root",
        "/proc/1/cwd",
        "/proc/self/cwd",
        "/proc/thread-self/root",
    ];
    let up = "/..".repeat(24);
    for root in roots {
        spellings.push(format!("{root}{path}"));
        spellings.push(format!("{root}{up}{path}"));
    }
    // Whatever handles were left open lead to their own file system.
    for pid in ["self", "1", "2"] {
        for number in 0..64 {
            spellings.push(format!("/proc/{pid}/fd/{number}{up}{path}"));
        }
    }
    for spelling in &spellings {
        let path = Path::new(spelling);
        if fs::read(path).is_ok() {
            escaped(&format!("read {spelling}"));
        }
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            escaped(&format!("listed {spelling}"));
        }
        if fs::OpenOptions::new().append(true).open(path).is_ok() {
            escaped(&format!("opened {spelling} for writing"));
        }
        if fs::hard_link(path, "linked").is_ok() {
            escaped(&format!("linked {spelling}"));
        }
    }
}

/// What was left open by those who started us, tried as a folder, a file, a socket and a pipe.
fn descriptors() {
    let own = format!("/proc/{}/fd", std::process::id());
    let mut numbers: Vec<i32> = fs::read_dir(own)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    // The folder that was just read stands in it too and is closed again.
    // SAFETY: plain numbers.
    numbers.retain(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0);
    println!("open: {numbers:?}");
    for number in 3..1024 {
        // SAFETY: a local buffer of its own length; what the numbers name is not ours to spare.
        unsafe {
            let mut byte = 0_u8;
            let buffer = (&raw mut byte).cast::<libc::c_void>();
            if libc::openat(number, c".".as_ptr(), libc::O_RDONLY) >= 0 || libc::fchdir(number) == 0
            {
                escaped(&format!("entered the folder {number}"));
            }
            if libc::pread(number, buffer, 1, 0) >= 0 {
                escaped(&format!("read the file {number}"));
            }
            if libc::send(number, buffer, 1, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) >= 0 {
                escaped(&format!("spoke through the socket {number}"));
            }
            if libc::write(number, buffer, 1) >= 0 {
                escaped(&format!("wrote to {number}"));
            }
        }
    }
    for (pid, number) in ["self", "1", "2"].iter().flat_map(|pid| (3..64).map(move |n| (pid, n))) {
        let path = format!("/proc/{pid}/fd/{number}");
        let leads_to = fs::read_link(&path).map(|to| to.to_string_lossy().into_owned());
        // Bubblewrap's own, by which it learns of the end; and the folder that lists them.
        if leads_to.is_ok_and(|to| to != "anon_inode:[eventfd]" && !to.starts_with("/proc/")) {
            escaped(&format!("found {path}"));
        }
    }
}

fn server(pid: i32, secret: &str) {
    // SAFETY: plain system calls; the only memory handed over is a local buffer of its own length.
    unsafe {
        if libc::kill(pid, 0) == 0 {
            escaped("found the server by its pid");
        }
        libc::kill(pid, libc::SIGKILL);
        libc::kill(-pid, libc::SIGKILL);
        if libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) == 0 {
            escaped("traced the server");
        }
        let mut buffer = [0_u8; 16];
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 16 };
        let remote = libc::iovec { iov_base: 0x40_0000 as *mut _, iov_len: 16 };
        if libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) > 0 {
            escaped("read the server's memory");
        }
        if libc::syscall(libc::SYS_pidfd_open, pid, 0) >= 0 {
            escaped("opened a handle of the server");
        }
    }
    let holds = |text: &[u8]| text.windows(secret.len()).any(|part| part == secret.as_bytes());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for file in ["environ", "cmdline", "mounts", "mountinfo"] {
            if fs::read(entry.path().join(file)).is_ok_and(|text| holds(&text)) {
                escaped(&format!("saw the secret in {:?}/{file}", entry.path()));
            }
        }
    }
    for variable in std::env::vars_os() {
        let name = variable.0.to_string_lossy().into_owned();
        let minimal = ["PATH", "HOME", "LANG", "TERM", "TZ", "PWD", "SHLVL", "_", "OLDPWD"];
        if !minimal.contains(&name.as_str()) {
            escaped(&format!("got the variable {name}"));
        }
    }
    for file in ["/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/vsock", "/dev/vda"] {
        if fs::File::open(file).is_ok() {
            escaped(&format!("opened {file}"));
        }
    }
}

fn sockets(port: u16, path: &str, name: &str) {
    for host in ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1", "127.1.2.3"] {
        if TcpStream::connect((host, port)).is_ok() {
            escaped(&format!("connected to {host}:{port}"));
        }
        let udp = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0"));
        let _ = udp.map(|socket| socket.send_to(b"hello", (host, port)));
    }
    if UnixStream::connect(path).is_ok() {
        escaped("connected to the hive's socket");
    }
    let address = SocketAddr::from_abstract_name(name).unwrap();
    if UnixStream::connect_addr(&address).is_ok() {
        escaped("connected to an abstract socket");
    }
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET];
    let ours = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    for family in (0..64).filter(|family| !ours.contains(family)) {
        for kind in kinds {
            // SAFETY: a plain system call without memory.
            if unsafe { libc::socket(family, kind, 0) } >= 0 {
                escaped(&format!("opened a socket of family {family}, kind {kind}"));
            }
        }
    }
    for family in [libc::AF_INET, libc::AF_INET6] {
        // SAFETY: as above.
        if unsafe { libc::socket(family, libc::SOCK_RAW, libc::IPPROTO_ICMP) } >= 0 {
            escaped("opened a raw socket");
        }
    }
    let interfaces = fs::read_dir("/sys/class/net").map_or(0, Iterator::count);
    if interfaces > 1 || fs::read_to_string("/proc/net/dev").unwrap().lines().count() > 3 {
        escaped("saw interfaces beside loopback");
    }
    // SAFETY: parameters are zero bytes of the size the kernel writes (120).
    let ring = unsafe {
        let mut parameters = [0_u8; 120];
        libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr())
    };
    if ring >= 0 {
        escaped("made an io_uring");
    }
}

fn privileges() {
    let nothing = ptr::null::<libc::c_void>();
    // SAFETY: system calls with constant strings; each is expected to be refused.
    let tried = unsafe {
        [
            ("setuid", libc::setuid(0)),
            ("setgid", libc::setgid(0)),
            ("setgroups", libc::setgroups(0, ptr::null())),
            ("user namespace", libc::unshare(libc::CLONE_NEWUSER)),
            ("mount namespace", libc::unshare(libc::CLONE_NEWNS)),
            (
                "mount",
                libc::mount(c"none".as_ptr(), c"/tmp".as_ptr(), c"tmpfs".as_ptr(), 0, nothing),
            ),
            (
                "remount",
                libc::mount(
                    ptr::null(),
                    c"/usr".as_ptr(),
                    ptr::null(),
                    libc::MS_REMOUNT | libc::MS_BIND,
                    nothing,
                ),
            ),
            ("umount", libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH)),
            ("chroot", libc::chroot(c"/proc/1/root".as_ptr())),
            ("device", libc::mknod(c"device".as_ptr(), libc::S_IFBLK | 0o666, 0xfc00)),
            ("host name", libc::sethostname(c"evil".as_ptr(), 4)),
        ]
    };
    for (what, answer) in tried {
        if answer == 0 {
            escaped(what);
        }
    }
    for call in [libc::SYS_keyctl, libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd]
    {
        // SAFETY: refused before any argument is looked at.
        if unsafe { libc::syscall(call, 0, 0, 0, 0, 0) } >= 0 {
            escaped(&format!("system call {call}"));
        }
    }
    for file in ["/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"] {
        if fs::OpenOptions::new().write(true).open(file).is_ok() {
            escaped(&format!("opened {file} for writing"));
        }
    }
    let raised = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
    for limit in [libc::RLIMIT_NPROC, libc::RLIMIT_NOFILE] {
        // SAFETY: reads one local struct.
        if unsafe { libc::setrlimit(limit, &raw const raised) } == 0 {
            escaped("raised a limit");
        }
    }
}

const PIECE: usize = 8 << 20;
/// Far above every limit of the tests; a flood that gets this far was not stopped.
const FLOOD: usize = 4 << 30;

fn memory(kind: &str) {
    let flags =
        libc::MAP_ANONYMOUS | if kind == "shared" { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let mut taken = 0;
    while taken < FLOOD {
        let filled = match kind {
            "private" | "shared" => map(flags),
            "memfd" => {
                // SAFETY: a constant name.
                let made = unsafe { libc::syscall(libc::SYS_memfd_create, c"m".as_ptr(), 0) };
                made >= 0
            }
            // SAFETY: no memory is handed over.
            "semaphores" => unsafe { libc::semget(libc::IPC_PRIVATE, 32_000, 0o600) >= 0 },
            // SAFETY: no memory is handed over.
            "messages" => unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) >= 0 },
            // SAFETY: no memory is handed over.
            "segment" => unsafe { libc::shmget(libc::IPC_PRIVATE, PIECE, 0o600) >= 0 },
            folder => write_piece(&format!("{folder}/flood{taken}")),
        };
        if !filled {
            println!("stopped at {taken}");
            return;
        }
        taken += PIECE;
    }
    escaped(&format!("took {taken} bytes of {kind} memory"));
}

/// Each process stays far below its own limit and keeps what it has.
fn memory_of_many() {
    for _ in 0..30 {
        // SAFETY: the child only maps and waits.
        if unsafe { libc::fork() } == 0 {
            map(libc::MAP_ANONYMOUS | libc::MAP_PRIVATE);
            map(libc::MAP_ANONYMOUS | libc::MAP_PRIVATE);
            break;
        }
    }
    loop {
        std::thread::park();
    }
}

/// Reads from a mapping far larger than any memory: nothing but its tables is made.
fn tables() {
    const STEP: usize = 2 << 20;
    // SAFETY: a fresh mapping, read within its bounds.
    unsafe {
        let flags = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let memory = libc::mmap(ptr::null_mut(), 4 << 40, libc::PROT_READ, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        for number in 0..(4_usize << 40) / STEP {
            ptr::read_volatile(memory.cast::<u8>().add(number * STEP));
        }
    }
    escaped("made gigabytes of tables");
}

/// Children that fill as many sockets as they may have, and keep them.
fn full_sockets(kind: &str) {
    for _ in 0..30 {
        // SAFETY: the child goes on alone.
        if unsafe { libc::fork() } != 0 {
            continue;
        }
        let mut kept = Vec::new();
        loop {
            match pair(kind) {
                Some((from, to)) => {
                    // SAFETY: a local buffer of its own length.
                    let send = || unsafe {
                        let piece = [1_u8; 4096];
                        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                        libc::send(from, piece.as_ptr().cast(), piece.len(), flags) > 0
                    };
                    // A datagram that finds no room is dropped, and sent all the same.
                    for _ in 0..4096 {
                        if !send() {
                            break;
                        }
                    }
                    kept.push((from, to));
                }
                None => std::thread::park(),
            }
        }
    }
    std::thread::sleep(std::time::Duration::from_secs(20));
    escaped(&format!("kept thousands of full sockets, {kind}"));
}

fn pair(kind: &str) -> Option<(i32, i32)> {
    use std::os::fd::IntoRawFd;
    if kind == "tcp" {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
        let from = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (to, _) = listener.accept().ok()?;
        return Some((from.into_raw_fd(), to.into_raw_fd()));
    }
    if kind == "udp" {
        let to = UdpSocket::bind("127.0.0.1:0").ok()?;
        let from = UdpSocket::bind("127.0.0.1:0").ok()?;
        from.connect(to.local_addr().ok()?).ok()?;
        return Some((from.into_raw_fd(), to.into_raw_fd()));
    }
    let kind = if kind == "unix" { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    let mut both = [0; 2];
    // SAFETY: room for two numbers.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) };
    (made == 0).then_some((both[0], both[1]))
}

/// Asks for larger buffers in every way.
fn buffers() {
    let options = [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE];
    for kind in ["unix", "datagram", "tcp", "udp"] {
        let (socket, _) = pair(kind).unwrap();
        let size = |option| {
            let (mut bytes, mut length) = (0, 4);
            // SAFETY: room for one number and its length.
            let read = unsafe {
                let bytes = (&raw mut bytes).cast();
                libc::getsockopt(socket, libc::SOL_SOCKET, option, bytes, &raw mut length)
            };
            assert_eq!(read, 0);
            bytes
        };
        let before: (i32, i32) = (size(libc::SO_SNDBUF), size(libc::SO_RCVBUF));
        for option in options {
            let wanted = 64_i32 << 20;
            // SAFETY: reads one local number.
            unsafe {
                let wanted = (&raw const wanted).cast();
                libc::setsockopt(socket, libc::SOL_SOCKET, option, wanted, 4);
            }
        }
        if (size(libc::SO_SNDBUF), size(libc::SO_RCVBUF)) != before {
            escaped(&format!("made the buffers of a socket larger, {kind}"));
        }
    }
}

/// Children that open as much as they may, and keep it.
fn handles() {
    for _ in 0..35 {
        // SAFETY: the child goes on alone.
        if unsafe { libc::fork() } == 0 {
            let mut kept = Vec::new();
            while let Ok(pipe) = std::io::pipe() {
                kept.push(pipe);
            }
            loop {
                std::thread::park();
            }
        }
    }
    std::thread::sleep(std::time::Duration::from_secs(20));
    escaped("kept thousands of descriptors");
}

/// Every call that gives a file its mode, with set-uid, set-gid and both.
fn lent_rights() {
    fs::write("lent", "#!/bin/sh\n").unwrap();
    let (old, at) = (c"lent".as_ptr(), libc::AT_FDCWD);
    for mode in [0o4755, 0o2755, 0o6755] {
        let new = |number: u32| CString::new(format!("lent-{mode:o}-{number}")).unwrap();
        let names: Vec<CString> = (0..8).map(new).collect();
        let name = |number: usize| names[number].as_ptr();
        // SAFETY: constant or local names, plain numbers, and one struct of the size that is said.
        unsafe {
            let file = libc::open(old, libc::O_RDWR);
            let flags = libc::O_CREAT | libc::O_RDWR;
            #[cfg(target_arch = "x86_64")]
            {
                libc::syscall(libc::SYS_chmod, old, mode);
                // The second number of the same call.
                libc::syscall(libc::SYS_chmod | 0x4000_0000, old, mode);
                libc::syscall(libc::SYS_open, name(0), flags, mode);
                libc::syscall(libc::SYS_creat, name(2), mode);
                libc::syscall(libc::SYS_mknod, name(3), libc::S_IFREG | mode, 0);
            }
            libc::syscall(libc::SYS_fchmod, file, mode);
            libc::syscall(libc::SYS_fchmodat, at, old, mode);
            libc::syscall(452, at, old, mode, 0);
            libc::syscall(libc::SYS_openat, at, name(1), flags, mode);
            libc::syscall(libc::SYS_mknodat, at, name(4), libc::S_IFREG | mode, 0);
            let how = [flags as u64, u64::from(mode), 0_u64];
            libc::syscall(libc::SYS_openat2, at, name(5), how.as_ptr(), 24);
            let unnamed = libc::O_TMPFILE | libc::O_RDWR;
            let made = libc::syscall(libc::SYS_openat, at, c".".as_ptr(), unnamed, mode);
            let path = CString::new(format!("/proc/self/fd/{made}")).unwrap();
            libc::linkat(at, path.as_ptr(), at, name(6), libc::AT_SYMLINK_FOLLOW);
            libc::mkdirat(at, name(7), mode);
        }
    }
    for entry in fs::read_dir(".").unwrap() {
        let entry = entry.unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&entry.metadata().unwrap());
        if mode & 0o6000 != 0 {
            escaped(&format!("{:?} has mode {mode:o}", entry.file_name()));
        }
    }
    // And ordinary modes are as they were.
    fs::set_permissions("lent", std::os::unix::fs::PermissionsExt::from_mode(0o1751)).unwrap();
}

fn map(flags: libc::c_int) -> bool {
    // SAFETY: a fresh mapping of PIECE bytes, written within its bounds.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(ptr::null_mut(), PIECE, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return false;
        }
        ptr::write_bytes(memory.cast::<u8>(), 1, PIECE);
        true
    }
}

fn write_piece(path: &str) -> bool {
    fs::File::create(path).is_ok_and(|mut file| file.write_all(&vec![1; PIECE]).is_ok())
}

fn disk() {
    // SAFETY: ignoring a signal; the write then fails instead.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut one = fs::File::create("one").unwrap();
    let room = CString::new("two").unwrap();
    // SAFETY: a constant path and a plain number.
    let taken = unsafe {
        let two = libc::open(room.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        libc::fallocate(two, 0, 0, 1 << 30)
    };
    if taken == 0 {
        escaped("took room without writing");
    }
    while one.write_all(&vec![1; PIECE]).is_ok() {}
    println!("one file stopped at {}", one.metadata().unwrap().len());
    for number in 0..(FLOOD / PIECE) {
        if !write_piece(&format!("flood{number}")) {
            return;
        }
    }
    escaped("filled the disk");
}

/// Fills the disk by processes that nobody waits for: what they wrote is counted nowhere once they
/// have ended.
fn disk_unseen() {
    // SAFETY: ignoring a signal, by which children leave no trace; children that write and end.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        for number in 0..(FLOOD / PIECE) {
            let child = libc::fork();
            if child == 0 {
                write_piece(&format!("unseen{number}"));
                libc::_exit(0);
            }
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
    escaped("filled the disk unseen");
}

fn forks() {
    let mut made = 0_u32;
    for _ in 0..20_000 {
        // SAFETY: the child only sleeps.
        match unsafe { libc::fork() } {
            0 => loop {
                std::thread::park();
            },
            -1 => break,
            _ => made += 1,
        }
    }
    println!("forked {made}");
    if made > 1000 {
        escaped("made a thousand processes");
    }
}

/// Leaves session, group and parent, closes everything and stays.
fn daemon() {
    // SAFETY: the children call async-signal-safe functions and then wait.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                libc::prctl(libc::PR_SET_NAME, c"hidden-daemon".as_ptr());
                for signal in 1..64 {
                    libc::signal(signal, libc::SIG_IGN);
                }
                fs::write("daemon-runs", "yes").unwrap();
                loop {
                    libc::pause();
                }
            }
            libc::_exit(0);
        }
    }
    while !Path::new("daemon-runs").exists() {
        std::thread::yield_now();
    }
}
