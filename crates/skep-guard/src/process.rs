//! The only spawner of child processes.
//!
//! A child gets its own session, a minimal environment and bounded output. When it ends, is
//! cancelled or its future is dropped, the whole tree below it ends too: TERM, a grace period,
//! then KILL until nothing is left.

mod child;
mod roots;
mod spawner;
pub(crate) mod start;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::process_table::{self, MARKER, Members};
use crate::watchdog::{self, Ceiling};
use crate::{descriptors, environment, random};
use child::{PipedChild, Pipes};
use start::{ChildProgram, Steps};

pub(crate) use child::Input;
pub use roots::claim;

/// What a child inherits from us; everything else is given in `Invocation::environment`.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TERM", "TZ"];
/// TERM to KILL for a cancelled tree. With `KILL_WINDOW` well under the promised 5 s.
const GRACE: Duration = Duration::from_millis(1500);
/// TERM to KILL for what a child left behind after ending by itself.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How long KILL is repeated. Only a process stuck in the kernel outlives it.
pub(crate) const KILL_WINDOW: Duration = Duration::from_millis(1500);
/// How long a claim waits for what is being loaded.
const LOAD_WINDOW: Duration = Duration::from_millis(500);
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// A program and what it is started with.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// A command to run to its end.
#[derive(Debug, Clone)]
pub struct Job {
    pub invocation: Invocation,
    pub input: Vec<u8>,
    /// Kept of standard output and of standard error, each: the first half and the last. What is
    /// between is counted and dropped.
    pub output_bytes: usize,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    pub ending: Ending,
    pub stdout: Captured,
    pub stderr: Captured,
    /// Hosts that a confined command asked for.
    pub contacts: Vec<crate::network::Contact>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut,
    Cancelled,
    /// The tree together took more than it may and was killed.
    OverLimit {
        what: &'static str,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub bytes: Vec<u8>,
    /// How many bytes are missing, all at `gap`.
    pub dropped: u64,
    pub gap: usize,
}

impl Captured {
    /// Bytes of everything it said.
    pub fn all(&self) -> usize {
        self.bytes.len().saturating_add(usize::try_from(self.dropped).unwrap_or(usize::MAX))
    }
}

/// What a command has said so far, while it runs. One hand fills it, any may look.
#[derive(Debug, Clone, Default)]
pub struct LiveOutput(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    captured: Mutex<Captured>,
    grown: Notify,
    process: OnceLock<i32>,
}

impl LiveOutput {
    pub fn so_far(&self) -> Captured {
        self.0.captured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of its first process, once it was started.
    pub(crate) fn process(&self) -> Option<i32> {
        self.0.process.get().copied()
    }

    /// Returns once it has said more than this many bytes.
    pub async fn beyond(&self, bytes: usize) {
        loop {
            let grown = self.0.grown.notified();
            let mut grown = std::pin::pin!(grown);
            // From here on nothing is missed.
            grown.as_mut().enable();
            if self.0.captured.lock().unwrap_or_else(PoisonError::into_inner).all() > bytes {
                return;
            }
            grown.await;
        }
    }

    /// To the end of the stream, at a pace where there is one.
    pub(crate) async fn fill(
        &self,
        stream: Option<impl AsyncRead + Unpin>,
        limit: usize,
        mut pace: Option<ListeningPace>,
    ) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0_u8; 16 * 1024];
        // A read error means the pipe is gone: the same as its end.
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            if let Some(pace) = &mut pace {
                pace.add(count);
                pace.keep().await;
            }
            let mut captured = self.0.captured.lock().unwrap_or_else(PoisonError::into_inner);
            captured.bytes.extend_from_slice(&chunk[..count]);
            // Now and then: each time all of the second half moves.
            if captured.bytes.len() > limit + limit / 4 {
                captured.cut(limit);
            }
            drop(captured);
            self.0.grown.notify_waiters();
        }
        self.0.captured.lock().unwrap_or_else(PoisonError::into_inner).cut(limit);
    }
}

/// How fast a child is listened to: what it says faster waits in its pipe, so that a flood is the
/// child's own loss.
pub(crate) struct ListeningPace {
    /// When all that was read would have been read at that pace.
    reached: Instant,
}

impl ListeningPace {
    const BYTES_PER_SECOND: f64 = (4 << 20) as f64;
    /// What may come at once.
    const BURST: Duration = Duration::from_millis(250);

    pub fn new() -> Self {
        Self { reached: Self::earliest() }
    }

    pub fn add(&mut self, bytes: usize) {
        let time = Duration::from_secs_f64(bytes as f64 / Self::BYTES_PER_SECOND);
        self.reached = self.reached.max(Self::earliest()) + time;
    }

    fn earliest() -> Instant {
        let now = Instant::now();
        now.checked_sub(Self::BURST).unwrap_or(now)
    }

    pub async fn keep(&self) {
        tokio::time::sleep_until(self.reached).await;
    }
}

/// What stands around a child beside its own session. `Default` is nothing.
#[derive(Default)]
pub(crate) struct Wall {
    /// Of the child, before its exec.
    pub enter: Option<Steps>,
    /// Left open for the program, under the same numbers.
    pub handles: Vec<OwnedFd>,
    pub ceiling: Option<Ceiling>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot follow {program}: {source}")]
    Follow { program: String, source: io::Error },
}

/// Runs a job. Cancelling the token or dropping the future ends its whole process tree.
pub async fn run(job: Job, cancel: &CancellationToken) -> Result<JobOutput, ProcessError> {
    run_behind(job, Wall::default(), &LiveOutput::default(), cancel).await
}

pub(crate) async fn run_behind(
    job: Job,
    wall: Wall,
    stdout_so_far: &LiveOutput,
    cancel: &CancellationToken,
) -> Result<JobOutput, ProcessError> {
    let input = if job.input.is_empty() { Input::Nothing } else { Input::Piped };
    let mut child = start(&job.invocation, input, wall).await?;
    let _ = stdout_so_far.0.process.set(child.tree.root);
    let (input, stdout, stderr) = child.pipes();
    let captured = (stdout_so_far, LiveOutput::default());
    let streams = async {
        tokio::join!(
            captured.0.fill(stdout, job.output_bytes, None),
            captured.1.fill(stderr, job.output_bytes, None),
            feed(input, &job.input),
        );
    };
    let deadline = job.timeout.map(|limit| Instant::now() + limit);
    let until = async {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ending::Cancelled,
            () = reached(deadline) => Ending::TimedOut,
        }
    };
    let ending = child.follow(streams, until).await?;
    let (stdout, stderr) = (captured.0.so_far(), captured.1.so_far());
    Ok(JobOutput { ending, stdout, stderr, contacts: Vec::new() })
}

/// A child that was started, with everything below it. Dropped, all of it is killed.
pub(crate) struct StartedChild {
    program: String,
    child: PipedChild,
    tree: ProcessTree,
    ceiling: Option<Ceiling>,
}

impl StartedChild {
    /// What finds the tree again: its first process, when that began, and the mark of all of it.
    pub fn identity(&self) -> (i32, u64, String) {
        self.tree.members.lock().unwrap_or_else(PoisonError::into_inner).identity()
    }

    /// Standard input, output and error, once.
    pub fn pipes(&mut self) -> Pipes {
        self.child.pipes()
    }

    /// To the end of the child, or until something else decides; then everything below it ends.
    /// The streams go on meanwhile.
    pub async fn follow(
        self,
        streams: impl Future<Output = ()>,
        until: impl Future<Output = Ending>,
    ) -> Result<Ending, ProcessError> {
        let Self { program, mut child, mut tree, ceiling } = self;
        let group = ceiling.as_ref().and_then(|ceiling| ceiling.group.clone());
        let excess = watchdog::excess(ceiling, Arc::clone(&tree.members));
        tokio::pin!(streams, until, excess);
        let mut streams_ended = false;
        let decided = loop {
            tokio::select! {
                biased;
                ending = &mut until => break Some(ending),
                _ = child.wait() => break None,
                what = &mut excess => break Some(Ending::OverLimit { what }),
                () = &mut streams, if !streams_ended => streams_ended = true,
            }
        };
        let grace = match decided {
            Some(Ending::OverLimit { .. }) => Duration::ZERO,
            Some(_) => GRACE,
            None => LEFTOVER_GRACE,
        };
        {
            let end = tree.end(grace);
            tokio::pin!(end);
            loop {
                // A child that still writes while it ends must not block on a full pipe.
                tokio::select! {
                    () = &mut end => break,
                    () = &mut streams, if !streams_ended => streams_ended = true,
                }
            }
        }
        if !streams_ended {
            // All writers are gone, so what the pipes still hold arrives at once.
            let _ = tokio::time::timeout(LEFTOVER_GRACE, &mut streams).await;
        }
        let status = child.wait().await;
        tree.leave().await;
        let status = status.map_err(|source| ProcessError::Follow { program, source })?;
        let ending = decided.unwrap_or_else(|| ending_of(status));
        // The last word of the kernel may come between two looks of the watchdog.
        Ok(match (group.is_some_and(|group| group.ran_out()), &ending) {
            (true, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Ending::OverLimit { what: "memory" }
            }
            _ => ending,
        })
    }
}

/// Starts a child, off the async threads: the start returns at the exec, and before it the child
/// makes its walls. Dropped in the middle, the child is killed once it is there.
pub(crate) async fn start(
    invocation: &Invocation,
    input: Input,
    wall: Wall,
) -> Result<StartedChild, ProcessError> {
    let marker = format!("{}.{}", process_table::label(), random::uuid());
    let mut environment: BTreeMap<OsString, OsString> = inherited(&wall).collect();
    let given = invocation.environment.iter();
    environment.extend(given.map(|(name, value)| (name.into(), value.into())));
    environment.insert(MARKER.into(), marker.clone().into());
    let Wall { mut enter, handles, ceiling } = wall;
    let parent = rustix::process::getpid();
    let steps = move || {
        rustix::process::setsid()?;
        descriptors::keep_from_children()?;
        handles.iter().try_for_each(|it| rustix::io::fcntl_setfd(it, FdFlags::empty()))?;
        match &mut enter {
            Some(enter) => enter(),
            // Behind walls bubblewrap sees to both, and must not be killed before it has: the first
            // process inside waits for it, for ever.
            None => {
                rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
                die_with(parent)
            }
        }
    };
    let program = ChildProgram {
        path: invocation.program.clone(),
        arguments: invocation.arguments.clone(),
        directory: invocation.directory.clone(),
        environment,
        group: ceiling.as_ref().and_then(|ceiling| ceiling.group.clone()),
        steps: Box::new(steps),
    };
    let spawned = spawner::run(move || spawn(program, input, marker)).await;
    let program = invocation.program.to_string_lossy().into_owned();
    match spawned.and_then(|spawned| spawned) {
        Ok((child, tree)) => Ok(StartedChild { program, child, tree, ceiling }),
        Err(source) => Err(ProcessError::Start { program, source }),
    }
}

/// In the child: it is killed when the thread that started it ends, which is when its process does.
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

fn spawn(
    program: ChildProgram,
    input: Input,
    marker: String,
) -> io::Result<(PipedChild, ProcessTree)> {
    // SAFETY: the steps are bare system calls; nothing is allocated or locked. The wall promises
    // the same of itself.
    let child = roots::begin(&marker, || unsafe { PipedChild::start(program, input) })?;
    let root = child.id();
    let members = Arc::new(Mutex::new(Members::new(root, marker)));
    Ok((child, ProcessTree { root, members, ended: false, left: false }))
}

/// All processes below one child of ours. Dropped before its end, it kills them at once.
struct ProcessTree {
    root: i32,
    /// Shared with the blocking thread that scans for us, because the future that waits for it may
    /// be dropped in the middle and the tree must still be ended then.
    members: Arc<Mutex<Members>>,
    ended: bool,
    left: bool,
}

impl ProcessTree {
    /// TERM to all, and after `grace` KILL, until no process of the tree runs.
    async fn end(&mut self, grace: Duration) {
        let begun = Instant::now();
        let mut signal = Some(Signal::TERM);
        loop {
            if begun.elapsed() >= grace {
                signal = Some(Signal::KILL);
            }
            let members = Arc::clone(&self.members);
            let sent = signal.take();
            // Off the async threads: the process table may be long. A runtime that shuts down
            // refuses; then dropping the tree does the work.
            let scan = tokio::task::spawn_blocking(move || signal_all(&members, sent));
            let Ok(alive) = scan.await else { return };
            if alive == 0 {
                break;
            }
            if begun.elapsed() >= grace + KILL_WINDOW {
                tracing::warn!(root = self.root, alive, "processes do not die");
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        self.ended = true;
    }

    /// Drops a tree whose root was waited for, off the async threads as well.
    async fn leave(mut self) {
        let root = self.root;
        let left = tokio::task::spawn_blocking(move || roots::forget(root, POLL));
        self.left = left.await.is_ok();
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.ended {
            // A few rounds: what forks during one is found by the next.
            for _ in 0..5 {
                if signal_all(&self.members, Some(Signal::KILL)) == 0 {
                    break;
                }
            }
        }
        if !self.left {
            roots::forget(self.root, Duration::ZERO);
        }
    }
}

/// Signals every living member and returns how many there were.
pub(crate) fn signal_all(members: &Mutex<Members>, signal: Option<Signal>) -> usize {
    let mut members = members.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = members.alive();
    if let Some(signal) = signal {
        alive.iter().for_each(|row| process_table::signal(row, signal));
    }
    alive.len()
}

impl Captured {
    /// Leaves the two ends of what was said.
    fn cut(&mut self, limit: usize) {
        let excess = self.bytes.len().saturating_sub(limit);
        if excess > 0 {
            self.gap = limit / 2;
            self.bytes.drain(self.gap..self.gap + excess);
            self.dropped += excess as u64;
        }
    }
}

/// Nothing of ours goes behind a wall: a process there can read how its parents were started.
fn inherited(wall: &Wall) -> impl Iterator<Item = (OsString, OsString)> {
    let names = if wall.enter.is_some() { [].as_slice() } else { INHERITED.as_slice() };
    names.iter().filter_map(|name| Some((name.into(), environment::var(name)?.into())))
}

async fn feed(stream: Option<pipe::Sender>, input: &[u8]) {
    if let Some(mut stream) = stream {
        // A child may end without reading all of its input; that is its choice.
        let _ = stream.write_all(input).await;
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited { code },
        (None, signal) => Ending::Signalled { signal: signal.unwrap_or(0) },
    }
}
