//! The one way in which a program is started.
//!
//! The child shares our memory until its exec, and the thread that starts it waits so long: nothing
//! of the memory is copied, however much there is and whoever writes to it meanwhile. A fork would
//! copy the tables of all of it, and after that each page that another thread writes to.
//!
//! So the child has a stack of its own and makes bare system calls only: it allocates nothing,
//! takes no lock and does not panic. Our handlers of signals never run in it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::cgroup::Group;

/// Runs what the kernel cannot: a script that does not name its interpreter.
const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Where programs are looked up for whoever has no PATH.
const USUAL_PATH: &str = "/bin:/usr/bin";
const STACK_BYTES: usize = 128 << 10;
/// Below the stack: nothing may be touched there.
const GUARD_BYTES: usize = 64 << 10;
const SIGNALS: c_int = 64;

/// A program and all it is started with.
pub(crate) struct ChildProgram {
    pub path: OsString,
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    pub environment: BTreeMap<OsString, OsString>,
    /// It is in there from its first step on.
    pub group: Option<Arc<Group>>,
    pub steps: Steps,
}

/// What the child does before its exec: bare system calls only, nothing allocated, no lock taken,
/// no panic. Our memory is the child's.
pub(crate) type Steps = Box<dyn FnMut() -> io::Result<()> + Send>;

/// A child of this process. It goes on when this is dropped.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    handle: OwnedFd,
}

impl ChildProgram {
    /// Returns at its exec, or with what the child could not do before.
    ///
    /// # Safety
    /// The steps are what [`Steps`] says.
    pub unsafe fn start(self, standard: [BorrowedFd<'_>; 3]) -> io::Result<Process> {
        let path = self.environment.get(OsStr::new("PATH"));
        let paths =
            candidates(&self.path, path.map_or(OsStr::new(USUAL_PATH), OsString::as_os_str));
        let words = std::iter::once(&self.path).chain(&self.arguments);
        let words: Vec<CString> = words.map(|word| text(word)).collect::<io::Result<_>>()?;
        let variables = self.environment.iter().map(|(name, value)| {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            text(&variable)
        });
        let variables: Vec<CString> = variables.collect::<io::Result<_>>()?;
        let mut child = ChildStart {
            paths: paths.iter().map(|path| text(path.as_os_str())).collect::<io::Result<_>>()?,
            words: std::iter::once(SHELL.as_ptr()).chain(pointers(&words)).collect(),
            variables: pointers(&variables).collect(),
            directory: text(self.directory.as_os_str())?,
            standard: standard.map(|it| it.as_raw_fd()),
            group: self.group,
            steps: self.steps,
            failed: 0,
        };
        child.begin()
    }
}

impl Process {
    pub fn id(&self) -> i32 {
        self.pid
    }

    /// How it ended, once it has. Said once.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.wait(WaitIdOptions::NOHANG)
    }

    fn wait(&self, how: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
        let how = WaitIdOptions::EXITED | how;
        let wait = || rustix::process::waitid(WaitId::PidFd(self.handle.as_fd()), how);
        let ended = rustix::io::retry_on_intr(wait)?;
        Ok(ended.map(|status| {
            let signal = status.terminating_signal().unwrap_or(0);
            ExitStatus::from_raw(status.exit_status().map_or(signal, |code| code << 8))
        }))
    }

    pub fn kill(&self) {
        // One that has ended is not there any more.
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
    }
}

impl AsRawFd for Process {
    /// Readable once it has ended.
    fn as_raw_fd(&self) -> RawFd {
        self.handle.as_raw_fd()
    }
}

/// What the child reads, and where it says why it gave up.
struct ChildStart {
    paths: Vec<CString>,
    /// The shell, the program by its name, its arguments, and the null behind.
    words: Vec<*const c_char>,
    variables: Vec<*const c_char>,
    directory: CString,
    standard: [RawFd; 3],
    /// To be joined.
    group: Option<Arc<Group>>,
    steps: Steps,
    failed: c_int,
}

impl ChildStart {
    fn begin(&mut self) -> io::Result<Process> {
        /// One start at a time: the stack is one child's, and what is restored is this start's.
        static STACK: Mutex<Option<Stack>> = Mutex::new(None);
        let mut kept = STACK.lock().unwrap_or_else(PoisonError::into_inner);
        let stack = match &mut *kept {
            Some(stack) => stack,
            none => none.insert(Stack::make()?),
        };
        let _blocked = BlockedSignals::begin();
        let _restored = Dumpable::now();
        let group = self.group.take();
        let born = group.as_ref().and_then(|group| self.clone_into(group, stack));
        let (pid, handle) = match born {
            Some(born) => born,
            None => {
                self.group = group;
                self.clone(stack)?
            }
        };
        // SAFETY: the kernel has made it for us.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        let process = Process { pid, handle };
        // Read as it is in memory: the child wrote it behind the compiler's back.
        // SAFETY: a number of our own; the child has ended or has a memory of its own by now.
        match unsafe { ptr::read_volatile(&raw const self.failed) } {
            0 => Ok(process),
            failed => {
                process.wait(WaitIdOptions::empty())?;
                Err(io::Error::from_raw_os_error(failed))
            }
        }
    }

    fn clone(&mut self, stack: &Stack) -> io::Result<(i32, RawFd)> {
        let mut handle: RawFd = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let (top, data) = (stack.top(), ptr::from_mut(self).cast());
        // SAFETY: the stack is the child's alone, and all it reads is there until it is done,
        // because this thread waits for that.
        let pid = unsafe { libc::clone(enter, top, flags, data, &raw mut handle) };
        match (pid, handle) {
            (-1, _) => Err(io::Error::last_os_error()),
            // The kernel did not know what was asked for.
            (pid, -1) => {
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ =
                        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                }
                Err(io::Error::new(io::ErrorKind::Unsupported, "Linux is older than 5.4"))
            }
            born => Ok(born),
        }
    }

    /// Born in its group instead of being moved: for a move all forks and ends of processes on this
    /// machine wait, and the kernel lets a few milliseconds pass. Nothing where that cannot be.
    fn clone_into(&mut self, group: &Group, stack: &Stack) -> Option<(i32, RawFd)> {
        let mut handle: RawFd = -1;
        // SAFETY: plain numbers, for which zero is a value.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
        arguments.flags = flags as u64 | CLONE_INTO_CGROUP;
        arguments.pidfd = (&raw mut handle) as u64;
        arguments.exit_signal = libc::SIGCHLD as u64;
        arguments.stack = stack.bottom() as u64;
        arguments.stack_size = STACK_BYTES as u64;
        arguments.cgroup = group.birthplace()?.as_raw_fd() as u64;
        // SAFETY: as with the other.
        let pid = unsafe { clone3(&arguments, ptr::from_mut(self).cast()) };
        (pid > 0 && handle >= 0).then_some((i32::try_from(pid).ok()?, handle))
    }

    /// In the child. Returns when something failed.
    fn run(&mut self) -> io::Error {
        match self.prepare() {
            Ok(()) => self.exec(),
            Err(error) => error,
        }
    }

    fn prepare(&mut self) -> io::Result<()> {
        for signal in 1..=SIGNALS {
            make_usual(signal);
        }
        if let Some(group) = &self.group {
            group.join()?;
        }
        for (number, theirs) in self.standard.iter().enumerate() {
            // SAFETY: numbers; it changes descriptors of the child alone.
            if unsafe { libc::dup2(*theirs, number as c_int) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        rustix::process::chdir(self.directory.as_c_str())?;
        (self.steps)()
    }

    /// The first of the paths that is a program.
    fn exec(&mut self) -> io::Error {
        set_signal_mask(0);
        let mut failed = Errno::NOENT;
        for path in &self.paths {
            // SAFETY: texts and lists of them that end with a null. The shell comes first.
            let error = unsafe {
                libc::execve(path.as_ptr(), self.words.as_ptr().add(1), self.variables.as_ptr());
                io::Error::last_os_error()
            };
            match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR) => {}
                Some(Errno::ACCESS) => failed = Errno::ACCESS,
                Some(Errno::NOEXEC) => {
                    if let Some(name) = self.words.get_mut(1) {
                        *name = path.as_ptr();
                    }
                    // SAFETY: as above.
                    unsafe {
                        let (words, variables) = (self.words.as_ptr(), self.variables.as_ptr());
                        libc::execve(SHELL.as_ptr(), words, variables);
                    }
                    return io::Error::last_os_error();
                }
                _ => return error,
            }
        }
        failed.into()
    }
}

/// The child's first function.
extern "C" fn enter(child: *mut c_void) -> c_int {
    // SAFETY: `begin` has given it, and does nothing until we are done.
    let child = unsafe { &mut *child.cast::<ChildStart>() };
    child.failed = child.run().raw_os_error().unwrap_or(libc::EINVAL);
    // SAFETY: ends this process and runs nothing of ours.
    unsafe { libc::_exit(127) }
}

/// `CLONE_INTO_CGROUP`, since Linux 5.7.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The child goes on in `enter`, on the stack of the arguments. Negative where it failed.
///
/// # Safety
/// The arguments name a stack that is the child's, and the data is a `ChildStart`.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(arguments: &libc::clone_args, data: *mut c_void) -> i64 {
    let result: i64;
    // SAFETY: the caller's promise; what a system call overwrites is named. The stack of the child
    // ends at a multiple of 16, as a call wants it.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {data}",
            "call {enter}",
            "ud2",
            "2:",
            data = in(reg) data,
            enter = in(reg) enter as extern "C" fn(*mut c_void) -> c_int,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            inlateout("rax") libc::SYS_clone3 => result,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(arguments: &libc::clone_args, data: *mut c_void) -> i64 {
    let result: i64;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {data}",
            "blr {enter}",
            "brk 1",
            "2:",
            data = in(reg) data,
            enter = in(reg) enter as extern "C" fn(*mut c_void) -> c_int,
            in("x8") libc::SYS_clone3,
            inlateout("x0") ptr::from_ref(arguments) => result,
            in("x1") size_of::<libc::clone_args>(),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3(_: &libc::clone_args, _: *mut c_void) -> i64 {
    -i64::from(libc::ENOSYS)
}

/// Memory for the child to work in, with nothing below it.
struct Stack(*mut c_void);

// SAFETY: memory that belongs to no thread.
unsafe impl Send for Stack {}

impl Stack {
    /// Kept for as long as this process runs.
    fn make() -> io::Result<Self> {
        let (closed, open) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let all = GUARD_BYTES + STACK_BYTES;
        // SAFETY: new memory wherever there is room.
        let start = unsafe { libc::mmap(ptr::null_mut(), all, closed, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self(start);
        // SAFETY: the upper part of it.
        match unsafe { libc::mprotect(stack.bottom(), STACK_BYTES, open) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn bottom(&self) -> *mut c_void {
        self.0.wrapping_byte_add(GUARD_BYTES)
    }

    fn top(&self) -> *mut c_void {
        self.bottom().wrapping_byte_add(STACK_BYTES)
    }
}

/// All signals of this thread wait until it is dropped, those of the C library among them: the
/// child begins with the same mask, while it still has our handlers.
struct BlockedSignals(u64);

impl BlockedSignals {
    fn begin() -> Self {
        Self(set_signal_mask(u64::MAX))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        set_signal_mask(self.0);
    }
}

/// Of the calling thread; returns the one before.
fn set_signal_mask(new: u64) -> u64 {
    let mut before = 0_u64;
    let (new, old) = (&raw const new, &raw mut before);
    // SAFETY: two sets of 64 signals, of which the kernel reads one and writes the other.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, 8) };
    before
}

/// The ends of children are told, also where whoever started this process had them ignored: nobody
/// could ask then how a child has ended.
pub(super) fn heed_ends() {
    make_usual(libc::SIGCHLD);
}

/// A signal does what it usually does, whoever handled or ignored it before.
fn make_usual(signal: c_int) {
    // As the kernel has it, on any machine: the handler, then flags and a mask. Zero is the usual.
    let (usual, none) = ([0_usize; 8], ptr::null_mut::<usize>());
    // SAFETY: the kernel reads less than the array has. Two signals it refuses.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, usual.as_ptr(), none, 8) };
}

/// Whether others may look into our memory. The kernel forbids it when a process that has this
/// memory changes its user; that is right until the child has another memory, and then no more.
struct Dumpable(c_int);

impl Dumpable {
    fn now() -> Self {
        // SAFETY: a number.
        Self(unsafe { libc::prctl(libc::PR_GET_DUMPABLE) })
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        if self.0 == 1 {
            // SAFETY: a number.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        }
    }
}

/// Where a program may be: in the folders of a PATH, unless its name is a path itself.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    std::env::split_paths(path).map(|folder| Path::new(&folder).join(program)).collect()
}

fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// With the null behind.
fn pointers(texts: &[CString]) -> impl Iterator<Item = *const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn program(path: &str, arguments: &[&str], steps: Steps) -> ChildProgram {
        ChildProgram {
            path: path.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            directory: "/".into(),
            environment: BTreeMap::from([("PATH".into(), "/nowhere:/bin:/usr/bin".into())]),
            group: None,
            steps,
        }
    }

    /// What it said on standard output, and how it ended.
    fn ran(program: ChildProgram) -> io::Result<(String, ExitStatus)> {
        let (mut ours, theirs) = io::pipe()?;
        let nothing = std::fs::File::open("/dev/null")?;
        // SAFETY: the tests' steps are bare system calls.
        let process = unsafe { program.start([nothing.as_fd(), theirs.as_fd(), nothing.as_fd()])? };
        drop(theirs);
        let mut said = String::new();
        ours.read_to_string(&mut said)?;
        Ok((said, process.wait(WaitIdOptions::empty())?.unwrap()))
    }

    fn failure(path: &str) -> Option<Errno> {
        let failed = ran(program(path, &[], Box::new(|| Ok(())))).unwrap_err();
        Errno::from_io_error(&failed)
    }

    fn faults_of_this_thread() -> i64 {
        // SAFETY: plain numbers, which the kernel fills.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    #[test]
    fn what_others_write_to_during_a_start_is_not_copied() {
        let mut memory = vec![1_u8; 8 << 20];
        let ((mut begun, begins), (goes, mut go)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let starting = std::thread::spawn(move || {
            let steps = move || {
                rustix::io::write(&begins, b"1")?;
                rustix::io::read(&goes, &mut [0_u8])?;
                Ok(())
            };
            ran(program("true", &[], Box::new(steps)))
        });
        begun.read_exact(&mut [0]).unwrap();
        let before = faults_of_this_thread();
        memory.iter_mut().step_by(4096).for_each(|byte| *byte += 1);
        let faults = faults_of_this_thread() - before;
        go.write_all(b"1").unwrap();
        assert!(starting.join().unwrap().unwrap().1.success());
        assert!(faults < 100, "{faults} of {} pages", memory.len() / 4096);
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "echo $0 $1").unwrap();
        let path = script.to_string_lossy().into_owned();
        assert_eq!(failure(&path), Some(Errno::ACCESS));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let (said, ended) = ran(program(&path, &["one"], Box::new(|| Ok(())))).unwrap();
        assert_eq!((said, ended.code()), (format!("{path} one\n"), Some(0)));
        let (said, _) = ran(program("echo", &["two"], Box::new(|| Ok(())))).unwrap();
        assert_eq!(said, "two\n");
        assert_eq!(failure("no-such-program"), Some(Errno::NOENT));
        assert_eq!(failure(""), Some(Errno::NOENT));
        let failed = ran(program("true", &[], Box::new(|| Err(Errno::XFULL.into())))).unwrap_err();
        assert_eq!(Errno::from_io_error(&failed), Some(Errno::XFULL));
    }

    #[test]
    fn a_signal_before_the_exec_runs_none_of_our_handlers() {
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(_: c_int) {
            HANDLED.fetch_add(1, Ordering::Relaxed);
        }
        let handler = handle as extern "C" fn(c_int);
        // SAFETY: it adds to a number.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        let steps = || {
            rustix::process::kill_process(rustix::process::getpid(), Signal::USR2)?;
            Ok(())
        };
        let (_, ended) = ran(program("true", &[], Box::new(steps))).unwrap();
        assert_eq!((ended.signal(), HANDLED.load(Ordering::Relaxed)), (Some(libc::SIGUSR2), 0));
        let mask = |status: &str| {
            let line = |name| status.lines().find_map(|line: &str| line.strip_prefix(name));
            ["SigBlk:", "SigCgt:"].map(|name| line(name).map(|set| set.trim().to_owned()))
        };
        let before = mask(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
        let (status, _) = ran(program("cat", &["/proc/self/status"], Box::new(|| Ok(())))).unwrap();
        let none = Some("0".repeat(16));
        assert_eq!(mask(&status), [none.clone(), none]);
        let after = mask(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
        assert_eq!(before, after);
    }

    /// Whoever may be another user can do that in the child.
    #[test]
    fn a_child_that_changes_its_user_leaves_ours_as_it_was() {
        // SAFETY: a number.
        let dumpable = || unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
        let (before, own) = (dumpable(), rustix::process::geteuid());
        let user = if own.is_root() { rustix::process::Uid::from_raw(59_999) } else { own };
        let steps = move || Ok(rustix::thread::set_thread_res_uid(user, user, user)?);
        let (said, _) = ran(program("id", &["-u"], Box::new(steps))).unwrap();
        assert_eq!(said.trim(), user.as_raw().to_string());
        assert_eq!((dumpable(), rustix::process::geteuid()), (before, own));
    }
}
