//! A turn in hand: what holds for its whole lease, and what changes while it runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use skep_core::Millis;
use skep_core::brake::Brake;
use skep_core::decision::Decision;
use skep_core::engine::{RetryInfo, SessionKeeper, ToolCall};
use skep_core::event::{CancelReason, EventKind};
use skep_core::ids::CallId;
use skep_core::message::{Body, Usage};
use skep_core::policy::network::NetworkRules;
use skep_core::policy::{AgentReach, Policy};
use skep_core::settings::{AgentSettings, Profile};
use skep_core::tool::{Manner, ToolContext};
use skep_store::engine_sessions::LaunchedSession;
use skep_store::leases::Lease;

use super::deferred::DeferredSteps;
use super::env::TurnEnv;
use super::redact::Redactor;
use super::session_cache::CachedSession;
use crate::gate::program_reach::{CallReach, contact_row};
use crate::gate::{GateEnv, Records};
use crate::lane::Running;
use crate::ledger::Payer;
use crate::snapshot::Snapshot;

/// What holds for the whole lease. Its parts only read it.
pub(crate) struct Turn {
    pub env: Arc<TurnEnv>,
    pub lease: Lease,
    /// As it was when this lease began.
    pub snapshot: Arc<Snapshot>,
    pub agent: Arc<AgentSettings>,
    pub can_steer: bool,
    pub running: Arc<Running>,
    /// Ends the engine and every tool of this lease.
    pub ender: CancellationToken,
    since: Instant,
    deadline: Instant,
}

/// What changes while the turn runs. Its one owner is the turn's task.
pub(crate) struct TurnState {
    /// A row was journalled under this lease.
    pub progressed: bool,
    /// To be told with the next row.
    pub notes: Vec<String>,
    pub brake: Brake,
    pub deferred: DeferredSteps,
    /// The session when it was last read, and what was written since.
    pub session: Option<CachedSession>,
    /// The profile that is asked now; not the agent's while a fallback stands in.
    pub asking: Arc<Profile>,
    /// A message of the model that is complete and not on record.
    pub said: Option<Body>,
    /// Of all model calls of the turn.
    pub usage: Usage,
    /// Model calls under this lease.
    pub steps: u32,
    /// What the last of them used.
    pub used: Option<u64>,
    /// Of all calls the turn made.
    pub call_ids: HashSet<CallId>,
    /// Where the engine keeps the session itself.
    pub engine_session: EngineMemory,
    pub redactor: Redactor<'static>,
    /// The message under way holds a call with a secret argument.
    pub said_secret: bool,
}

/// What is known of the session that an engine keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineMemory {
    Unknown,
    /// It has every row that is written from now on.
    Kept(LaunchedSession),
    /// The engine does not know the one on record.
    Stale,
}

/// Why a running turn is to end before its engine is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndRequest {
    Cancel(CancelReason),
    /// The process ends: the turn stays open and goes on after the restart.
    Cut,
    Time,
    /// The model goes in a circle.
    Loop,
}

impl EndRequest {
    pub fn because(self) -> &'static str {
        match self {
            Self::Cancel(CancelReason::Stop) => "the turn was stopped",
            Self::Cancel(CancelReason::Interrupt) => "a newer message took the turn's place",
            Self::Cancel(CancelReason::ClientGone) => "the client closed its connection",
            Self::Cut => "the hive is stopping",
            Self::Time => "the turn ran out of time",
            Self::Loop => "the model made the same calls again and again, and learned nothing new",
        }
    }
}

impl TurnState {
    pub fn new(agent: &AgentSettings) -> Self {
        Self {
            progressed: false,
            notes: Vec::new(),
            brake: Brake::default(),
            deferred: DeferredSteps::default(),
            session: None,
            asking: Arc::clone(&agent.profile),
            said: None,
            usage: Usage::default(),
            steps: 0,
            used: None,
            call_ids: HashSet::new(),
            engine_session: EngineMemory::Unknown,
            redactor: Redactor::new(skep_scrub::known()),
            said_secret: false,
        }
    }
}

impl Turn {
    pub fn new(
        env: Arc<TurnEnv>,
        lease: Lease,
        snapshot: Arc<Snapshot>,
        agent: Arc<AgentSettings>,
        running: Arc<Running>,
    ) -> Self {
        let since = Instant::now();
        let used = Duration::from_millis(u64::try_from(lease.active_ms).unwrap_or(0));
        let longest = agent.budgets.turn_time.unwrap_or(snapshot.settings.limits.turn);
        let engine = snapshot.engine(&agent);
        Self {
            deadline: since + longest.saturating_sub(used),
            since,
            ender: CancellationToken::new(),
            can_steer: engine.is_some_and(|engine| engine.capabilities().queue_while_streaming),
            running,
            agent,
            lease,
            snapshot,
            env,
        }
    }

    /// Calls are decided by the policy in force now, not by that of the turn's beginning: what is
    /// denied by now is denied.
    pub fn live_policy(&self) -> Policy {
        match self.env.snapshot.current().agent(self.lease.agent, &self.agent.name) {
            Ok(agent) => agent.policy.clone(),
            Err(reason) => Policy { broken: Some(reason), ..Policy::default() },
        }
    }

    fn reach(&self, call: &CallId) -> Arc<CallReach> {
        Arc::new(CallReach {
            snapshot: Arc::clone(&self.env.snapshot),
            store: self.env.store.clone(),
            clock: self.env.clock,
            agent: self.lease.agent,
            name: self.agent.name.clone(),
            row: contact_row(&self.lease, &self.agent.name, call),
        })
    }

    /// The hosts that the agent may reach by now.
    pub fn live_network(&self) -> Arc<NetworkRules> {
        let agent = self.env.snapshot.current().agent(self.lease.agent, &self.agent.name);
        agent.map(|agent| Arc::clone(&agent.policy.network)).unwrap_or_default()
    }

    pub fn gate<'a>(&'a self, policy: &'a Policy) -> GateEnv<'a> {
        let parts = &self.env.gate;
        let (store, holder_of, lease) = (&self.env.store, &parts.holder_of, &self.lease);
        GateEnv {
            toolbox: &self.snapshot.toolbox,
            admission: &parts.admission,
            hooks: &self.snapshot.hooks,
            agent: &self.agent,
            policy,
            records: Some(Records { store, holder_of, lease }),
            approval_time: self.env.snapshot.current().settings.limits.approval,
            bound: self.snapshot.settings.limits.tool_output_bytes,
        }
    }

    /// Who keeps the session from one turn to the next.
    pub fn keeper(&self) -> SessionKeeper {
        let engine = self.snapshot.engine(&self.agent);
        engine.map_or(SessionKeeper::Hive, |engine| engine.session_keeper())
    }

    /// A call of an unknown tool does nothing.
    pub fn manner(&self, tool: &str, arguments: &Value) -> Manner {
        let tool = self.snapshot.toolbox.find(tool);
        let network = self.live_network();
        let of = AgentReach { folder: &self.agent.folder, network: &network };
        tool.map_or(Manner::READ, |tool| tool.manner(arguments, of))
    }

    pub fn active_ms(&self) -> Millis {
        self.lease.active_ms + millis(self.since.elapsed())
    }

    pub fn payer(&self) -> Payer {
        Payer { agent: self.lease.agent, turn: self.lease.turn.clone() }
    }

    pub fn tool_context(&self, call: &ToolCall, decision: Option<Decision>) -> ToolContext {
        let secrets = self.env.gate.secrets.of(&self.lease.turn, &self.snapshot.toolbox, call);
        ToolContext {
            judged: Vec::new(),
            agent: self.agent.name.clone(),
            agent_id: self.lease.agent,
            subagent: self.lease.options.subagent.clone(),
            requester: Some(Arc::clone(&self.lease.requester)),
            session_key: self.lease.session_key.clone(),
            workspace: self.agent.workspace.clone(),
            outputs: self.env.gate.outputs_of(&self.lease),
            folder: Some(self.agent.folder.clone()),
            sandbox: self.agent.sandbox,
            network: self.live_network(),
            reach: self.reach(&call.id),
            turn: self.lease.turn.clone(),
            call: call.id.clone(),
            decision,
            secrets,
            cancel: self.ender.clone(),
            lasting: self.env.session_scopes.of(
                self.lease.agent,
                &self.running.session_key,
                &self.lease.session,
                &self.env.stop.cut,
            ),
        }
    }

    pub fn end_requested(&self) -> Option<EndRequest> {
        if self.running.cancel.is_cancelled() {
            let reason = self.running.reason().unwrap_or(CancelReason::Stop);
            return Some(EndRequest::Cancel(reason));
        }
        if self.env.stop.cut.is_cancelled() || self.running.cut.is_cancelled() {
            return Some(EndRequest::Cut);
        }
        (Instant::now() >= self.deadline).then_some(EndRequest::Time)
    }

    pub async fn ended(&self) -> EndRequest {
        tokio::select! {
            biased;
            () = self.running.cancel.cancelled() => {
                EndRequest::Cancel(self.running.reason().unwrap_or(CancelReason::Stop))
            }
            () = self.env.stop.cut.cancelled() => EndRequest::Cut,
            () = self.running.cut.cancelled() => EndRequest::Cut,
            () = tokio::time::sleep_until(self.deadline) => EndRequest::Time,
        }
    }

    /// Runs tools; when the turn is to end they are told, and waited for within their grace.
    pub async fn guarded<F: Future>(&self, work: F) -> (Option<EndRequest>, F::Output) {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            output = &mut work => (None, output),
            request = self.ended() => {
                self.ender.cancel();
                (Some(request), work.await)
            }
        }
    }

    /// Told to whoever watches now; nothing anyone needs later.
    pub fn tell(&self, text: String) {
        tracing::info!(turn = %self.lease.turn, text, "turn");
        self.publish(EventKind::Note { text });
    }

    /// The number of this attempt; each step begins the count anew.
    pub fn attempt(&self, state: &TurnState) -> i64 {
        if state.progressed { 1 } else { self.lease.attempts + 1 }
    }

    /// A model call is made again after a pause: told, and kept for whoever comes late.
    pub fn back_off(&self, state: &TurnState, retry: RetryInfo, text: String) {
        let attempt = u32::try_from(self.attempt(state)).ok().filter(|attempt| *attempt > 1);
        let retry = RetryInfo { attempt, ..retry };
        let (code, number, of) = (retry.code.as_str(), retry.number, retry.of);
        tracing::info!(turn = %self.lease.turn, code, number, of, text, "tried again later");
        self.running.back_off(retry, text);
        self.publish(EventKind::ModelRetry(retry));
    }

    pub fn publish(&self, kind: EventKind) {
        self.env.bus.publish(self.lease.event(self.env.now(), kind));
    }
}

pub fn millis(duration: Duration) -> Millis {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
