//! What engines that are processes share: the folder of an agent, the start behind the walls, and
//! the process that is kept between two turns of a session.
//!
//! One process acts for a session at a time: it is on record by the session's id, and a start ends
//! whatever is there under that name. A process is kept only after a turn that ended well; after an
//! interrupt, a failure or a surprise it is ended, and the next turn resumes its session.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use skep_core::BoxFuture;
use skep_core::engine::{FailureCode, RetryCode, TurnEnd};
use skep_core::ids::{AgentId, SessionId};
use skep_core::relay::RelayService;
use skep_core::settings::{SandboxLevel, SandboxSettings};
use skep_guard::duplex::{DuplexChild, DuplexEnd, DuplexProgram, DuplexRecords, LineError};
use skep_guard::network::RoomNetwork;
use skep_guard::process::Ending;
use skep_guard::sandbox::{self, ProgramFolders, Sandbox, SandboxRoom};

/// The longest line of an engine, either way.
pub(crate) const LINE_BYTES: usize = 8 << 20;
/// Processes of one engine that are kept between turns; of more, the one kept longest ends.
const MOST_KEPT: usize = 8;
/// Shown of what a process said on standard error before it ended.
const NOTE_LETTERS: usize = 2000;

/// The folder of one agent for one engine: its configuration and its sessions, outside of the
/// workspace. Only its owner and the engine get at it.
#[derive(Clone, Debug)]
pub struct EngineHome {
    pub folder: PathBuf,
}

impl EngineHome {
    /// Makes the folder where it is missing.
    pub fn of(homes: &Path, engine: &str, agent: AgentId) -> io::Result<Self> {
        let folder = homes.join(engine).join(agent.0.to_string());
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self { folder: folder.canonicalize()? })
    }
}

/// A program of a vendor, as the operator installed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineProgram<'a> {
    /// As people call it.
    pub name: &'a str,
    pub path: &'a Path,
    /// The command that installs the version that was tested.
    pub install: &'a str,
}

/// What one process is started with.
pub(crate) struct EngineLaunch<'a> {
    pub program: EngineProgram<'a>,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    pub home: &'a EngineHome,
    pub workspace: &'a Path,
    pub sandbox: &'a SandboxSettings,
    pub service: &'a RelayService,
}

/// Starts processes of engines.
#[derive(Clone, Debug)]
pub(crate) struct EngineStarter {
    pub sandbox: Arc<Sandbox>,
    pub records: DuplexRecords,
}

impl EngineStarter {
    /// Ends whatever acts for this session, and starts the program in its place. The error is the
    /// end of the turn.
    pub async fn start(
        &self,
        session: &SessionId,
        launch: EngineLaunch<'_>,
    ) -> Result<DuplexChild, TurnEnd> {
        let path = launch.program.find()?;
        let folder = path.parent().map(Path::to_path_buf);
        let EngineLaunch { program: named, arguments, environment, home, .. } = launch;
        let mut program = DuplexProgram::new(path, arguments);
        program.environment = environment;
        program.line_bytes = LINE_BYTES;
        program.folders =
            ProgramFolders { read: folder.into_iter().collect(), write: vec![home.folder.clone()] };
        let room = SandboxRoom {
            workspace: launch.workspace.to_owned(),
            read_only: Vec::new(),
            network: network(launch.sandbox.level, launch.service),
        };
        let sandbox = self.sandbox.under(launch.sandbox);
        let started = self.records.start(session.as_str(), &sandbox, program, &room).await;
        started.map_err(|error| TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!("{} could not be started: {error}", named.name),
        })
    }
}

/// The relay and nothing else. On the host there are no walls to answer in.
fn network(level: SandboxLevel, service: &RelayService) -> RoomNetwork {
    match level {
        SandboxLevel::Confined => RoomNetwork::Service(service.clone()),
        SandboxLevel::Host => RoomNetwork::Full,
    }
}

impl EngineProgram<'_> {
    /// By its real path: links lead to where nothing is shown.
    fn find(&self) -> Result<PathBuf, TurnEnd> {
        let found = sandbox::find_program(self.path).and_then(|path| path.canonicalize().ok());
        found.ok_or_else(|| TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!(
                "engine_missing: {} is not at {}. Install it: `{}`",
                self.name,
                self.path.display(),
                self.install
            ),
        })
    }

    /// Another version than the one that was tested.
    pub fn wrong_version(&self, found: &str, tested: &str) -> TurnEnd {
        let found: String = found.chars().take(40).collect();
        TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!(
                "engine_version: {} is {found}, and {tested} was tested. Install that: `{}`, or \
                 take what is there with `engine_options: {{any_version: true}}`",
                self.name, self.install
            ),
        }
    }

    /// It broke the protocol: the process is ended, and the turn with it.
    pub fn surprise(&self, what: impl std::fmt::Display) -> TurnEnd {
        TurnEnd::Failed {
            code: FailureCode::EngineCrashed,
            text: format!("{} was ended, as it said what nobody expected: {what}", self.name),
        }
    }

    /// The same for a line that is none.
    pub fn unreadable(&self, error: &LineError) -> TurnEnd {
        match error {
            // Of what was cut, nothing is known.
            LineError::Half(_) => self.surprise("it ended in the middle of a line"),
            other => self.surprise(other),
        }
    }

    /// It ended while a turn ran: the turn goes on with its next try.
    pub async fn crashed(&self, child: DuplexChild) -> TurnEnd {
        let mut text = format!("{} ended in the middle of a turn", self.name);
        match child.end().await {
            Ok(end) => text.push_str(&parting(&end)),
            Err(error) => drop(write!(text, ": {error}")),
        }
        TurnEnd::Retry { code: RetryCode::EngineCrashed, text }
    }
}

/// How a process ended, and the last of what it said about that.
pub(crate) fn parting(end: &DuplexEnd) -> String {
    let mut text = match &end.ending {
        Ending::Exited { code } => format!(" (exit code {code})"),
        Ending::Signalled { signal } => format!(" (signal {signal})"),
        Ending::OverLimit { what } => format!(" (it took more {what} than the sandbox allows)"),
        Ending::TimedOut | Ending::Cancelled => String::new(),
    };
    let words = String::from_utf8_lossy(&end.last_words.bytes);
    let words = words.trim();
    let skipped = words.chars().count().saturating_sub(NOTE_LETTERS);
    if !words.is_empty() {
        text.push_str(". It said: ");
        text.extend(words.chars().skip(skipped));
    }
    text
}

/// A process that is kept between two turns of its session.
pub(crate) trait KeptProcess: Send + Sized + 'static {
    fn child(&mut self) -> &mut DuplexChild;

    /// Whether a line that comes between turns means nothing. Any other one ends the process.
    fn is_idle_talk(&self, line: &[u8]) -> bool;

    fn end(self) -> BoxFuture<'static, ()>;
}

/// Processes that wait for the next turn of their sessions. Dropped, all of them end.
pub(crate) struct KeptProcesses<P> {
    /// Locked to look a session up, by turns of all agents: each entry has a task of its own, which
    /// owns the process.
    kept: Mutex<Vec<Kept<P>>>,
}

struct Kept<P> {
    session: SessionId,
    /// Dropped, the process ends.
    hand_over: oneshot::Sender<oneshot::Sender<P>>,
}

impl<P> Default for KeptProcesses<P> {
    fn default() -> Self {
        Self { kept: Mutex::new(Vec::new()) }
    }
}

impl<P: KeptProcess> KeptProcesses<P> {
    /// The process of this session, where it still runs.
    pub async fn take(&self, session: &SessionId) -> Option<P> {
        let kept = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let at = kept.iter().position(|kept| kept.session == *session)?;
            kept.remove(at)
        };
        let (sender, process) = oneshot::channel();
        kept.hand_over.send(sender).ok()?;
        process.await.ok()
    }

    /// Keeps the process for so long, unless the session takes it before.
    pub fn keep(&self, session: SessionId, process: P, idle: Duration) {
        let (hand_over, wanted) = oneshot::channel();
        tokio::spawn(wait(process, wanted, idle));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| !kept.hand_over.is_closed() && kept.session != session);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push(Kept { session, hand_over });
    }
}

async fn wait<P: KeptProcess>(
    mut process: P,
    mut wanted: oneshot::Receiver<oneshot::Sender<P>>,
    idle: Duration,
) {
    let over = tokio::time::sleep(idle);
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            taker = &mut wanted => {
                let Ok(taker) = taker else { break };
                match taker.send(process) {
                    Ok(()) => return,
                    Err(back) => process = back,
                }
                break;
            }
            () = &mut over => break,
            line = process.child().line() => match line {
                Ok(Some(line)) if process.is_idle_talk(&line) => {}
                _ => break,
            },
        }
    }
    process.end().await;
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
