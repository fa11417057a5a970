//! Claude Code as an engine: a program with a loop, sessions and tools of its own.
//!
//! It is spoken to in lines, both ways. Each of its calls is asked for by a hook before it is made,
//! our tools are a server inside of the same lines, and its model is reached through the relay.

mod launch;
mod map;
mod permissions;
mod prompt;
mod run;
mod transcript;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use skep_core::engine::{
    Capabilities, Engine, Interrupt, ResumedTools, Rewrite, SessionKeeper, Steer, SteerMode,
    TurnHandle, TurnRequest,
};
use skep_core::relay::ModelRelay;
use skep_core::settings::AgentSettings;
use skep_guard::duplex::DuplexRecords;
use skep_guard::sandbox::Sandbox;

use crate::process::{EngineStarter, KeptProcesses};
use launch::ID;
use run::{ClaudeRun, ClaudeShared};

/// Events on their way to the turn. A full queue slows the reading of the program down.
const EVENTS: usize = 256;
/// Messages on their way into a run.
const STEERED: usize = 8;

pub struct ClaudeSettings {
    /// A path, or a name in PATH.
    pub program: PathBuf,
    /// Beneath it a folder for each agent.
    pub homes: PathBuf,
    pub relay: Arc<dyn ModelRelay>,
    /// Each agent's own settings are applied to it.
    pub sandbox: Arc<Sandbox>,
    pub records: DuplexRecords,
}

pub struct ClaudeEngine(Arc<ClaudeShared>);

impl ClaudeEngine {
    pub fn new(settings: ClaudeSettings) -> Self {
        let ClaudeSettings { program, homes, relay, sandbox, records } = settings;
        let starter = EngineStarter { sandbox, records };
        let kept = KeptProcesses::default();
        Self(Arc::new(ClaudeShared { program, homes, relay, starter, kept }))
    }
}

impl Engine for ClaudeEngine {
    fn id(&self) -> &str {
        ID
    }

    fn display_name(&self) -> &str {
        "Claude Code"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: true,
            interrupt: true,
            tool_events: true,
            full_history: false,
            approvals: true,
            own_tools: true,
        }
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        agent.profile.model.clone()
    }

    fn session_keeper(&self) -> SessionKeeper {
        SessionKeeper::Engine { on_resume: ResumedTools::Changed }
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(EVENTS);
        let (messages, steered) = mpsc::channel(STEERED);
        let interrupt = CancellationToken::new();
        let run = ClaudeRun::new(Arc::clone(&self.0), request, sender, steered, interrupt.clone());
        // Owned by the receiver: the task ends when that is dropped, or by the cancel token.
        tokio::spawn(run.until_end());
        TurnHandle {
            steer: Some(Steer { mode: SteerMode::AtTool, messages }),
            interrupt: Some(Interrupt(interrupt)),
            rewrite: Some(Rewrite),
            ..TurnHandle::new(events)
        }
    }
}

#[cfg(test)]
#[path = "bench_tests.rs"]
mod bench;
#[cfg(test)]
mod genuine_tests;
#[cfg(test)]
#[path = "replay_tests.rs"]
mod replay_tests;
