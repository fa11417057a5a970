//! Codex 0.166.0 over `codex app-server`: it keeps the session (a thread), runs its own loop and
//! has a shell and a patch tool of its own.
//!
//! What it may do it asks for, one request per call; tools of ours are offered to it as dynamic
//! tools. It reaches its model through the relay and nothing else, and reads nothing of the
//! workspace when it starts. The types stand for what is read of its protocol, and no more.

mod history;
mod launch;
mod live;
mod map;
mod permissions;
mod questions;
mod run;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use skep_core::engine::{
    Capabilities, Engine, Interrupt, ResumedTools, SessionKeeper, Steer, SteerMode, TurnHandle,
    TurnRequest,
};
use skep_core::relay::ModelRelay;
use skep_core::settings::AgentSettings;
use skep_guard::duplex::DuplexRecords;
use skep_guard::sandbox::Sandbox;

use crate::process::{EngineProgram, EngineStarter, KeptProcesses};
use live::Live;
use run::Run;

/// The version whose behaviour this adapter was written for.
pub const TESTED_VERSION: &str = "0.166.0";
const INSTALL: &str = "npm install -g @openai/codex@0.166.0";
/// Events that wait for the turn.
const EVENTS: usize = 64;
/// Messages that wait for the engine.
const STEERED: usize = 8;

pub struct CodexSettings {
    /// A path, or a name that is looked up in PATH. The native binary, not its Node wrapper.
    pub program: PathBuf,
    /// Each agent has a folder below it. Not below a folder for temporary files: the program
    /// refuses to work there.
    pub homes: PathBuf,
    pub relay: Arc<dyn ModelRelay>,
    pub sandbox: Arc<Sandbox>,
    pub records: DuplexRecords,
}

pub struct CodexEngine {
    shared: Arc<Shared>,
}

/// What all turns of this engine use.
pub(crate) struct Shared {
    program: PathBuf,
    homes: PathBuf,
    relay: Arc<dyn ModelRelay>,
    starter: EngineStarter,
    kept: KeptProcesses<Live>,
}

fn program(path: &Path) -> EngineProgram<'_> {
    EngineProgram { name: "Codex", path, install: INSTALL }
}

impl CodexEngine {
    pub fn new(settings: CodexSettings) -> Self {
        let CodexSettings { program, homes, relay, sandbox, records } = settings;
        let starter = EngineStarter { sandbox, records };
        let kept = KeptProcesses::default();
        Self { shared: Arc::new(Shared { program, homes, relay, starter, kept }) }
    }
}

impl Engine for CodexEngine {
    fn id(&self) -> &str {
        "codex"
    }

    fn display_name(&self) -> &str {
        "Codex"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: true,
            interrupt: true,
            tool_events: true,
            full_history: true,
            approvals: true,
            own_tools: true,
        }
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        agent.profile.model.clone()
    }

    /// Tools that are given to a thread that goes on are ignored: it keeps those it began with.
    fn session_keeper(&self) -> SessionKeeper {
        SessionKeeper::Engine { on_resume: ResumedTools::Same }
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(EVENTS);
        let (messages, steered) = mpsc::channel(STEERED);
        let interrupt = CancellationToken::new();
        let run = Run::new(Arc::clone(&self.shared), request, sender, steered, interrupt.clone());
        tokio::spawn(run.until_end());
        TurnHandle {
            steer: Some(Steer { mode: SteerMode::Any, messages }),
            interrupt: Some(Interrupt(interrupt)),
            ..TurnHandle::new(events)
        }
    }
}

#[cfg(test)]
#[path = "bench_tests.rs"]
mod bench;
#[cfg(test)]
#[path = "genuine_tests.rs"]
mod genuine;
#[cfg(test)]
#[path = "replay_tests.rs"]
mod replay;
