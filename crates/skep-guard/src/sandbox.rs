//! Where commands that a model wrote may run: on the host, or confined.
//!
//! Confined is the default and means: own namespaces (files, processes, network, users), the
//! workspace and nothing else of ours, an unprivileged user, no way to gain privileges, limits on
//! what one process and all together may take. Before the first command a trial shows that the
//! walls stand; a wall that is down means that nothing runs. A command is never moved to the host.

mod arguments;
mod entrance;
mod filter;
mod prepare;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use skep_core::settings::{SandboxLevel, SandboxSettings};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::disk::{self, BelowFloor};
use crate::network::{ChildNetwork, RoomNetwork};
use crate::process::{self, Job, JobOutput, LiveOutput, ProcessError};
use crate::size::Sizes;
use crate::workspace::Workspace;

pub use arguments::{HOME, find_program};
pub(crate) use prepare::{Inside, Measured, PreparedProgram};
use trial::TrialNetwork;
pub use trial::{Check, Report};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// No walls: the operator has asked for it in so many words.
    Host,
    Confined,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub level: Level,
    /// What no command may see, also where it lies inside a folder that is shown: the hive's home.
    pub hidden: Vec<PathBuf>,
    /// Programs and libraries beside those of the system, shown read-only; the `bin` of each comes
    /// first in PATH.
    pub toolchains: Vec<PathBuf>,
    /// Looked up in PATH unless it is a path.
    pub bubblewrap: PathBuf,
    pub limits: CommandLimits,
    pub counting: Counting,
}

/// Who counts what the processes of a command take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// The kernel by a control group where one can be made, and the watchdog beside it.
    Kernel,
    /// The watchdog alone.
    Watchdog,
}

/// What a command and everything it starts may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLimits {
    /// Of one process.
    pub cpu: Duration,
    /// Of all processes together.
    pub memory_bytes: u64,
    pub processes: u64,
    /// Of one file.
    pub file_bytes: u64,
    /// Of one process.
    pub open_files: u64,
    /// Written by all processes together, as far as it fills the disk.
    pub disk_bytes: u64,
    /// What the workspace may take. One that takes more can only be made smaller.
    pub workspace_bytes: u64,
    /// What must be free on its disk for a command to start and to go on.
    pub disk_floor_bytes: u64,
    /// Of `/tmp` and of `/dev/shm`, each; both are memory.
    pub temporary_bytes: u64,
}

/// What one command gets to see.
#[derive(Debug, Clone)]
pub struct SandboxRoom {
    /// Read and written; the command starts here.
    pub workspace: PathBuf,
    /// Shown read-only; the workspace may lie inside.
    pub read_only: Vec<PathBuf>,
    pub network: RoomNetwork,
}

/// Folders of a program itself, beside those of the room.
#[derive(Debug, Clone, Default)]
pub struct ProgramFolders {
    /// Where it is installed: shown read-only, and left to their owner.
    pub read: Vec<PathBuf>,
    /// Its own, which it may write; given to the user it runs as.
    pub write: Vec<PathBuf>,
}

/// A command line for the shell.
#[derive(Debug, Clone)]
pub struct ShellCommand {
    pub line: String,
    pub timeout: Duration,
    pub output_bytes: usize,
}

#[derive(Debug)]
pub struct Sandbox {
    settings: Settings,
    /// Filled once the trial has passed, without and with a network of ours; a trial that failed is
    /// made again. Shared with the variants, whose walls are the same.
    passed: Arc<[OnceCell<Report>; 2]>,
    /// Of the workspaces; shared with the variants too.
    sizes: Arc<Sizes>,
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("sandbox_missing: {why}. The command was not run. {remedy}")]
    Missing { why: String, remedy: &'static str },
    #[error(
        "sandbox_down: the sandbox does not hold here ({failed}). The command was not run. {remedy}"
    )]
    Down { failed: String, remedy: &'static str },
    #[error(
        "command_too_long: the command has {bytes} bytes, and the system takes {MOST_WORD_BYTES}. \
         It was not run. Write it to a file in the workspace, in parts, and run that"
    )]
    Long { bytes: usize },
    #[error("sandbox_room: {why}. The command was not run")]
    Room { why: String },
    #[error(transparent)]
    Floor(#[from] BelowFloor),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// What Linux takes as one argument of a program: 32 pages, with the null behind.
const MOST_WORD_BYTES: usize = (128 << 10) - 1;

const INSTALL: &str = "Install bubblewrap: `apt-get install bubblewrap` (Debian, Ubuntu), \
                       `dnf install bubblewrap` (Fedora), `pacman -S bubblewrap` (Arch), \
                       `apk add bubblewrap bash` (Alpine); then try again";

impl Default for CommandLimits {
    fn default() -> Self {
        const GIB: u64 = 1024 * 1024 * 1024;
        Self {
            cpu: Duration::from_secs(600),
            memory_bytes: 2 * GIB,
            processes: 256,
            file_bytes: 2 * GIB,
            open_files: 1024,
            disk_bytes: 4 * GIB,
            workspace_bytes: 8 * GIB,
            disk_floor_bytes: disk::FLOOR_BYTES,
            temporary_bytes: GIB / 4,
        }
    }
}

impl Settings {
    pub fn new(level: Level, hidden: Vec<PathBuf>) -> Self {
        Self {
            level,
            hidden,
            toolchains: Vec::new(),
            bubblewrap: PathBuf::from("bwrap"),
            limits: CommandLimits::default(),
            counting: Counting::Kernel,
        }
    }
}

impl Sandbox {
    pub fn new(mut settings: Settings) -> Self {
        // Real paths, so that what is hidden and what is shown can be compared.
        for path in settings.hidden.iter_mut().chain(&mut settings.toolchains) {
            if let Ok(real) = path.canonicalize() {
                *path = real;
            }
        }
        Self { settings, passed: Arc::default(), sizes: Arc::default() }
    }

    /// The same place at another level and with other limits.
    pub fn variant(&self, level: Level, limits: CommandLimits) -> Self {
        let settings = Settings { level, limits, ..self.settings.clone() };
        Self { settings, passed: Arc::clone(&self.passed), sizes: Arc::clone(&self.sizes) }
    }

    /// As an agent's settings want it.
    pub fn under(&self, settings: &SandboxSettings) -> Self {
        let (usual, asked) = (self.limits(), &settings.limits);
        let limits = CommandLimits {
            cpu: asked.cpu.unwrap_or(usual.cpu),
            memory_bytes: asked.memory_bytes.unwrap_or(usual.memory_bytes),
            processes: asked.processes.unwrap_or(usual.processes),
            disk_bytes: asked.disk_bytes.unwrap_or(usual.disk_bytes),
            workspace_bytes: asked.workspace_bytes.unwrap_or(usual.workspace_bytes),
            disk_floor_bytes: asked.disk_floor_bytes.unwrap_or(usual.disk_floor_bytes),
            ..usual.clone()
        };
        let level = match settings.level {
            SandboxLevel::Confined => Level::Confined,
            SandboxLevel::Host => Level::Host,
        };
        self.variant(level, limits)
    }

    pub fn limits(&self) -> &CommandLimits {
        &self.settings.limits
    }

    pub fn level(&self) -> Level {
        self.settings.level
    }

    /// Tries the walls and says of each whether it stands.
    pub async fn probe(&self) -> Report {
        trial::run(self, TrialNetwork::Proxy).await
    }

    /// Runs a command to its end. Cancelling or dropping ends everything it started. Its standard
    /// error comes with its standard output, in the order of writing.
    pub async fn run(
        &self,
        command: ShellCommand,
        room: &SandboxRoom,
        cancel: &CancellationToken,
    ) -> Result<JobOutput, SandboxError> {
        self.run_live(command, room, &LiveOutput::default(), cancel).await
    }

    /// As [`Self::run`]; what the command says can be seen in `live` as it comes.
    pub async fn run_live(
        &self,
        command: ShellCommand,
        room: &SandboxRoom,
        live: &LiveOutput,
        cancel: &CancellationToken,
    ) -> Result<JobOutput, SandboxError> {
        let prepared = self.prepare(Inside::line(command.line.clone()), room).await?;
        run_prepared(command, prepared, live, cancel).await
    }

    /// Whether a command would run with this network: the trial is made unless it has passed
    /// before.
    pub async fn ready(&self, network: &RoomNetwork) -> Result<(), SandboxError> {
        if self.settings.level == Level::Host {
            return Ok(());
        }
        let tried = match network {
            RoomNetwork::Proxy(_) | RoomNetwork::Service(_) => TrialNetwork::Proxy,
            RoomNetwork::None | RoomNetwork::Full => TrialNetwork::None,
        };
        let passed = async {
            let report = Box::pin(trial::run(self, tried)).await;
            if report.holds() { Ok(report) } else { Err(report.refusal()) }
        };
        self.passed[tried as usize].get_or_try_init(|| passed).await.map(drop)
    }
}

async fn run_prepared(
    command: ShellCommand,
    prepared: PreparedProgram,
    live: &LiveOutput,
    cancel: &CancellationToken,
) -> Result<JobOutput, SandboxError> {
    let PreparedProgram { invocation, wall, measured, network } = prepared;
    let job = Job {
        invocation,
        input: Vec::new(),
        output_bytes: command.output_bytes,
        timeout: Some(command.timeout),
    };
    let mut output = match process::run_behind(job, wall, live, cancel).await {
        Ok(output) => output,
        Err(error) => return Err(unstarted(error, network).await),
    };
    drop(measured);
    output.contacts = network.map_or_else(Vec::new, |network| network.contacts());
    // The command's own standard error is its standard output: this is bubblewrap speaking.
    match output.stderr.bytes.strip_prefix(b"bwrap: ") {
        Some(said) if output.stdout.bytes.is_empty() => {
            Err(broken(String::from_utf8_lossy(said).trim()))
        }
        _ => Ok(output),
    }
}

/// Why a program did not start, as far as its network can tell.
pub(crate) async fn unstarted(error: ProcessError, network: Option<ChildNetwork>) -> SandboxError {
    let Some(network) = network else { return error.into() };
    match network.failure().await {
        Some(what) => {
            let (ProcessError::Start { source, .. } | ProcessError::Follow { source, .. }) = error;
            let source = match Errno::from_io_error(&source) {
                // What the kernel says for want of namespaces, not of a disk.
                Some(Errno::NOSPC) => "the limit of namespaces (user.max_net_namespaces, \
                     user.max_user_namespaces) is used up or 0"
                    .to_owned(),
                _ => source.to_string(),
            };
            SandboxError::Down { failed: format!("{what}: {source}"), remedy: trial::USERS }
        }
        None => error.into(),
    }
}

fn broken(why: &str) -> SandboxError {
    SandboxError::Room { why: format!("the sandbox could not be set up: {why}") }
}
