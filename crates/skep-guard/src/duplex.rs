//! Children that are spoken to while they run, line by line and both ways: engines, servers of
//! tools, plugins. Each starts behind the same walls as a command of the shell, or on the host.
//!
//! What a child has said and nobody has read stays in its pipe, so a child that floods waits there;
//! and it is read at a pace that leaves the processor to others.
//! What it is told waits in a queue whose bytes are limited, so a child that does not listen lets
//! its owner wait. It ends with its owner: standard input is closed, then TERM, then KILL, for the
//! child and everything below it, within 5 s.

mod lines;
mod record;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::network::{ChildNetwork, Contact};
use crate::process::{
    self, Captured, Ending, Input, ListeningPace, LiveOutput, ProcessError, StartedChild,
};
use crate::sandbox::{
    self, Inside, Measured, PreparedProgram, ProgramFolders, Sandbox, SandboxError, SandboxRoom,
};
use lines::{LineQueue, LineReader};
use record::ChildRecord;

pub use lines::{LineError, LineSender};
pub use record::DuplexRecords;

/// Time for a child to end by itself once its standard input is closed. With the rest of the
/// ladder under 5 s.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Kept of what it says on standard error: the first half and the last.
const LAST_WORDS_BYTES: usize = 16 * 1024;
/// The longest line, unless the program says otherwise.
const LINE_BYTES: usize = 4 << 20;

/// A program and all it is given. It starts in the workspace of its room.
#[derive(Debug)]
pub struct DuplexProgram {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Beside PATH, HOME, LANG, TERM and TZ.
    pub environment: Vec<(String, String)>,
    /// Left open for it; a variable of this name holds the number.
    pub descriptors: Vec<(String, OwnedFd)>,
    pub folders: ProgramFolders,
    /// The longest line, either way.
    pub line_bytes: usize,
}

impl DuplexProgram {
    pub fn new(program: impl Into<OsString>, arguments: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments,
            environment: Vec::new(),
            descriptors: Vec::new(),
            folders: ProgramFolders::default(),
            line_bytes: LINE_BYTES,
        }
    }
}

/// A child that runs. Dropped, it is ended.
pub struct DuplexChild {
    pid: u32,
    lines: LineReader,
    sender: LineSender,
    stop: DropGuard,
    supervisor: JoinHandle<Result<DuplexEnd, ProcessError>>,
}

/// How a child ended.
#[derive(Debug)]
pub struct DuplexEnd {
    /// `Cancelled` where it did not end by itself when its standard input was closed.
    pub ending: Ending,
    /// What it said on standard error.
    pub last_words: Captured,
    /// Hosts that it asked for.
    pub contacts: Vec<Contact>,
}

impl DuplexChild {
    async fn start(
        sandbox: &Sandbox,
        program: DuplexProgram,
        room: &SandboxRoom,
        record: impl FnOnce(&StartedChild) -> std::io::Result<ChildRecord>,
    ) -> Result<Self, SandboxError> {
        let DuplexProgram { program, arguments, environment, descriptors, folders, line_bytes } =
            program;
        let name = program.to_string_lossy().into_owned();
        let failed = |source| ProcessError::Start { program: name.clone(), source };
        let words = std::iter::once(program).chain(arguments).collect();
        let inside = Inside::program(words, environment, descriptors, folders);
        let prepared = sandbox.prepare(inside, room).await?;
        let PreparedProgram { invocation, wall, measured, network } = prepared;
        let mut child = match process::start(&invocation, Input::Piped, wall).await {
            Ok(child) => child,
            Err(error) => return Err(sandbox::unstarted(error, network).await),
        };
        let record = record(&child).map_err(failed)?;
        let pid = u32::try_from(child.identity().0).unwrap_or(0);
        let (Some(input), Some(output), Some(errors)) = child.pipes() else {
            return Err(failed(std::io::Error::other("the child has no pipes")).into());
        };
        let (sender, queue) = lines::queue(line_bytes);
        let stop = CancellationToken::new();
        let supervisor = Supervisor { child, input, errors, queue, measured, network, record };
        let supervisor = tokio::spawn(supervisor.until_end(stop.clone()));
        let lines = LineReader::new(output, line_bytes);
        Ok(Self { pid, lines, sender, stop: stop.drop_guard(), supervisor })
    }

    /// Of the first process: the program itself, or bubblewrap around it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The way to it, for as many as want to speak.
    pub fn sender(&self) -> LineSender {
        self.sender.clone()
    }

    /// The next line without its end; nothing once it has closed its standard output. May be
    /// dropped while it waits. After an error comes the next line.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        self.lines.next().await
    }

    /// Ends the child and everything below it, if it has not ended by itself.
    pub async fn end(self) -> Result<DuplexEnd, ProcessError> {
        drop(self.stop);
        match self.supervisor.await {
            Ok(end) => end,
            // The runtime shuts down; what is dropped is killed.
            Err(_) => Ok(DuplexEnd {
                ending: Ending::Cancelled,
                last_words: Captured::default(),
                contacts: Vec::new(),
            }),
        }
    }
}

/// Owns the process. What is dropped with it is killed.
struct Supervisor {
    child: StartedChild,
    input: pipe::Sender,
    errors: pipe::Receiver,
    queue: LineQueue,
    measured: Option<Measured>,
    network: Option<ChildNetwork>,
    record: ChildRecord,
}

impl Supervisor {
    async fn until_end(self, stop: CancellationToken) -> Result<DuplexEnd, ProcessError> {
        let Self { child, input, errors, queue, measured, network, record } = self;
        let said = LiveOutput::default();
        let streams = async {
            let told = stop.run_until_cancelled(queue.write_to(input));
            tokio::join!(
                said.fill(Some(errors), LAST_WORDS_BYTES, Some(ListeningPace::new())),
                told
            );
        };
        let until = async {
            stop.cancelled().await;
            tokio::time::sleep(CLOSE_GRACE).await;
            Ending::Cancelled
        };
        let ending = child.follow(streams, until).await;
        drop((measured, record));
        let contacts = network.map_or_else(Vec::new, |network| network.contacts());
        Ok(DuplexEnd { ending: ending?, last_words: said.so_far(), contacts })
    }
}
