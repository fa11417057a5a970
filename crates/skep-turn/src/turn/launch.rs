//! How an engine that keeps its session is started: with what is new to it, or from history; and
//! what becomes of the calls that its last run left open.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use skep_core::decision::Decision;
use skep_core::engine::{Engine, Resume, ResumedTools, ToolCall, TurnRequest};
use skep_core::event::CallState;
use skep_core::ids::CallId;
use skep_core::message::{Message, Role};
use skep_core::redelivery::Again;
use skep_core::resume_text;
use skep_store::engine_sessions::{self, LaunchedSession};
use skep_store::history;

use super::context::ModelContext;
use super::persist::{Joining, Lost};
use super::state::{EngineMemory, Turn, TurnState};
use super::step::{self, PlannedCall, StepEnd, WaitingCall};

/// What an engine is started with.
pub(crate) struct Launch {
    pub engine: String,
    pub hash: String,
    pub resume: Option<Resume>,
    pub decided: DecidedCalls,
}

/// What was decided about calls before the engine was started again: it asks for them anew.
#[derive(Default)]
pub(crate) struct DecidedCalls(Vec<(ToolCall, Decision)>);

impl DecidedCalls {
    /// The oldest decision about the same tool and arguments.
    pub fn take(&mut self, call: &ToolCall) -> Option<Decision> {
        let same = |(known, _): &(ToolCall, Decision)| {
            known.name == call.name && known.arguments == call.arguments
        };
        let at = self.0.iter().position(same)?;
        Some(self.0.remove(at).1)
    }
}

impl Turn {
    pub(crate) async fn launch(
        &self,
        state: &TurnState,
        engine: &dyn Engine,
        context: &ModelContext,
        request: &TurnRequest,
        on_resume: ResumedTools,
    ) -> Result<Launch, Lost> {
        let (session, turn) = (&self.lease.session, &self.lease.turn);
        let read = self.env.store.read(async |conn| {
            let kept = engine_sessions::find(conn, session).await?;
            if !self.lease.resumed {
                return Ok((kept, Vec::new(), Vec::new()));
            }
            let calls = history::calls(conn, turn).await?;
            Ok((kept, calls, engine_sessions::decided(conn, turn).await?))
        });
        let (kept, calls, decided) =
            read.await.map_err(|error| Lost::Refused(format!("reading the session: {error}")))?;
        let (engine, hash) = (engine.id().to_owned(), launch_hash(request));
        let usable = |(known, seen): &(LaunchedSession, _)| {
            known.engine == engine
                && (known.launch_hash == hash || on_resume == ResumedTools::Changed)
                && state.engine_session != EngineMemory::Stale
                && has_all_but_messages(context, seen)
        };
        let resume = kept.filter(usable).map(|(_, session)| {
            let unknown = calls.iter().filter(|call| call.state == CallState::Unknown);
            let unknown: Vec<&str> = unknown.map(|call| call.tool.as_str()).collect();
            let text = resume_text::of(&context.rows, session.seen_seq, &unknown);
            Resume { session, text }
        });
        let own = || context.rows.iter().filter(|row| row.turn == self.lease.turn);
        let made = |(call, decision): (CallId, Decision)| {
            let mut calls = own().flat_map(|row| row.body.tool_calls());
            let (id, name, arguments) = calls.find(|(id, ..)| **id == call)?;
            Some((crate::gate::call_of(id, name, arguments), decision))
        };
        let decided = DecidedCalls(decided.into_iter().filter_map(made).collect());
        Ok(Launch { engine, hash, resume, decided })
    }

    /// Gives the calls of an engine's last run their last word: none of them is run again by us. A
    /// call that was decided is asked for anew by the engine, and finds its decision then.
    pub(crate) async fn close_engine_calls(
        &self,
        state: &mut TurnState,
        calls: Vec<PlannedCall>,
    ) -> Result<StepEnd, Lost> {
        let (mut entries, mut waiting) = (Vec::new(), Vec::new());
        for planned in calls {
            let now = self.env.now();
            match planned.again {
                Again::Keep => {}
                Again::Unknown => entries.push(step::unknown(&planned.call)),
                Again::Run => {
                    entries.push(step::not_run(&planned.call, "the engine was started again"));
                }
                Again::Wait if planned.has_expired(now) => {
                    entries.extend(step::expired(&planned));
                }
                Again::Wait => {
                    let reason = planned.reason.unwrap_or_default();
                    let (call, until) = (planned.call, planned.question.map(|(_, until)| until));
                    waiting.push(WaitingCall { call, reason, approval: None, until });
                }
            }
        }
        let rows = self.write(state, entries, Joining::Later).await?;
        // The engine begins once everything it waits for is decided.
        step::finish(self, state, rows, waiting).await
    }
}

/// Whether the engine's session lacks nothing but messages and results: rows that another engine
/// wrote, and notes in the place of rows, are no part of it.
fn has_all_but_messages(context: &ModelContext, seen: &skep_core::engine::EngineSession) -> bool {
    let seam = context.compaction.as_ref().map_or(0, |compaction| compaction.seam);
    let foreign = |row: &&Arc<Message>| {
        row.seq > seen.seen_seq && !matches!(row.body.role, Role::User | Role::ToolResult)
    };
    seam <= seen.seen_seq && context.rows.iter().find(foreign).is_none()
}

/// Over everything that an engine takes at its start and keeps.
fn launch_hash(request: &TurnRequest) -> String {
    let profile = &request.profile;
    let mut hash = Sha256::new();
    let mut take = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text.as_bytes());
    };
    take(&request.system.shared);
    take(&request.system.agent);
    take(&profile.provider);
    take(&profile.model);
    take(&format!("{:?} {:?}", request.think, profile.thinking));
    for (name, option) in &request.options {
        take(name);
        take(&option.to_string());
    }
    for spec in request.gate.specs().iter() {
        take(&spec.name);
        take(&spec.description);
        take(&spec.input_schema.to_string());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
