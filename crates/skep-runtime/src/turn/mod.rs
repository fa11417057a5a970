//! One turn, from its lease to its end. Orchestrates: the engine speaks, the fold keeps, the
//! journal records, the step runs calls, the close tells.

pub(crate) mod brake;
pub(crate) mod compact;
pub(crate) mod context;
pub(crate) mod deferred;
pub(crate) mod ending;
pub(crate) mod persist;
pub(crate) mod redact;
pub(crate) mod resume;
pub(crate) mod session_cache;
pub(crate) mod session_scope;
pub(crate) mod start;
pub(crate) mod step;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use skep_core::brake::Brake;
use skep_core::engine::{EngineEvent, FailureCode, Gate, GateBatch, TurnEnd, TurnRequest};
use skep_core::event::{CancelReason, Event, EventKind};
use skep_core::ids::CallId;
use skep_core::message::{Body, Message, Usage};
use skep_core::policy::Policy;
use skep_core::prompt;
use skep_core::provider::{SystemPrompt, ToolSpec};
use skep_core::settings::{AgentSettings, HiveSettings, Profile};
use skep_core::slash::Slash;
use skep_core::tool::ToolContext;
use skep_guard::{clock, scrub};
use skep_store::journal::Entry;
use skep_store::leases::{Lease, Release};

use crate::gate::toolbox::{Toolbox, make_calls_usable};
use crate::gate::{Gate as ToolGate, Records};
use crate::hive::Shared;
use crate::intake::choose;
use crate::lane::registry::Running;
use crate::lane::slots::Slot;

use deferred::DeferredSteps;
pub(crate) use ending::EndRequest;
use persist::{Lost, persist};
use redact::Redactor;
use session_cache::CachedSession;
use step::StepEnd;

const SYSTEM_RULES: &str = include_str!("prompts/system.md");
/// An engine that was told to end has this long before it is dropped.
const ENGINE_GRACE: Duration = Duration::from_millis(3500);

/// A turn in hand: its lease and everything its parts need.
pub(crate) struct Turn {
    pub shared: Arc<Shared>,
    pub lease: Lease,
    /// As they were when this lease began.
    pub settings: Arc<HiveSettings>,
    pub agent: Arc<AgentSettings>,
    pub can_steer: bool,
    pub running: Arc<Running>,
    /// Ends the engine and every tool of this lease.
    ender: CancellationToken,
    pub since: Instant,
    deadline: Instant,
    /// A row was journalled under this lease.
    pub progressed: AtomicBool,
    /// The profile that is asked now; not the agent's while a fallback stands in.
    asking: Mutex<Arc<Profile>>,
    /// To be told with the next row.
    notes: Mutex<Vec<String>>,
    brake: Mutex<Brake>,
    deferred: Mutex<DeferredSteps>,
    /// What the session was when it was last read, and what was written since.
    pub(crate) read: Mutex<Option<CachedSession>>,
    /// Complete answers of the model under this lease.
    pub answers: AtomicI64,
}

/// What this lease has heard from the engine and not yet journalled, and what it adds up.
pub(crate) struct Heard {
    pub said: Option<Body>,
    pub usage: Usage,
    /// Model calls under this lease.
    steps: u32,
    /// What the last of them used.
    used: Option<u64>,
    call_ids: HashSet<CallId>,
    redactor: Redactor<'static>,
}

/// How a run of the engine ended.
pub(crate) enum Spoke {
    /// The turn is over for this lease.
    Over,
    /// A step is done, and the next would come too near to the end of the model's window.
    Full,
    /// The vendor refused the request for its length.
    TooLong(TurnEnd),
}

/// Runs a lease to its end. Never fails: whatever goes wrong becomes the turn's outcome, or the
/// turn stays open for the next lease.
pub(crate) async fn run(shared: Arc<Shared>, lease: Lease, permit: Option<Slot>) {
    let (turn, token) = (lease.turn.clone(), lease.token);
    // Around every line of the log that belongs to the turn.
    let span = tracing::info_span!(
        "turn", agent = %lease.agent_name, session = %lease.session, turn = %lease.turn
    );
    tracing::debug!(parent: &span, resumed = lease.resumed, "turn begins");
    // A task of its own, so that a panic ends this turn's lease and nothing else.
    let task = tokio::spawn(lead(Arc::clone(&shared), lease.clone()).instrument(span.clone()));
    let ended = task.await;
    end_jobs_of_gone(&shared, &lease);
    let lost = match ended {
        Ok(Ok(())) => None,
        Ok(Err(Lost::Stale | Lost::Stopping)) => None,
        Ok(Err(Lost::Refused(why))) => Some(why),
        Err(panic) => Some(panic.to_string()),
    };
    if let Some(why) = lost {
        tracing::error!(parent: &span, why, "a turn broke; it goes on with its next lease");
        let until = Some(clock::now_ms() + 1000);
        let release = Release {
            turn: turn.clone(),
            token,
            until,
            counts: true,
            active_ms: lease.active_ms,
            now: clock::now_ms(),
        };
        let _ = persist(&shared.store, &shared.health, &shared.cut, release).await;
        shared.note_due(until);
    }
    shared.registry.remove(&turn, token);
    shared.ledger.end(&turn);
    drop(permit);
}

/// A call may be past the policy when its agent goes away; what it started ends with the turn.
fn end_jobs_of_gone(shared: &Shared, lease: &Lease) {
    if shared.settings().agent(&lease.agent_name).is_err() {
        shared.session_scopes.keep(|agent| *agent != lease.agent_name);
    }
}

async fn lead(shared: Arc<Shared>, lease: Lease) -> Result<(), Lost> {
    let Some(running) = shared.registry.get(&lease.turn) else {
        return Err(Lost::Stale);
    };
    let settings = shared.settings();
    let agent = match settings
        .agent(&lease.agent_name)
        .and_then(|agent| choose::applied(agent, &lease.chosen, &settings.profiles))
    {
        Ok(agent) => agent,
        Err(reason) => return resume::close_unable(&shared, &lease, &reason).await,
    };
    let now = Instant::now();
    let used = Duration::from_millis(u64::try_from(lease.active_ms).unwrap_or(0));
    let engine = shared.engine(&agent);
    let turn = Turn {
        deadline: now
            + agent.budgets.turn_time.unwrap_or(settings.limits.turn).saturating_sub(used),
        since: now,
        progressed: AtomicBool::new(false),
        asking: Mutex::new(Arc::clone(&agent.profile)),
        notes: Mutex::default(),
        brake: Mutex::default(),
        deferred: Mutex::default(),
        read: Mutex::default(),
        answers: AtomicI64::new(0),
        ender: CancellationToken::new(),
        can_steer: engine
            .as_ref()
            .is_some_and(|engine| engine.capabilities().queue_while_streaming),
        running,
        agent,
        lease,
        settings,
        shared,
    };
    let (agent, key) = (&turn.agent.name, &turn.running.session_key);
    turn.shared.session_scopes.begin(agent, key, &turn.lease.session);
    if turn.lease.more {
        turn.running.note_arrival();
    }
    turn.go().await
}

impl Turn {
    async fn go(&self) -> Result<(), Lost> {
        let mut context = self.read_context().await?;
        let usage = self.usage_so_far(&context.rows);
        self.open_account(&usage);
        if self.lease.resumed {
            *self.brake() = brake::of_rows(&context.rows, self);
            let open = self.open_calls(&context.rows).await?;
            if open.is_none() {
                self.charge_lost_call(&context).await?;
            }
            if let Some(ending) = self.ending_at_once() {
                return self.close_open_calls(ending, open, usage).await;
            }
            if let Some((_, calls)) = open {
                match step::run(self, None, calls).await? {
                    StepEnd::Parked => return Ok(()),
                    StepEnd::Ended { request, open } => {
                        return self.end(request, open, usage).await;
                    }
                    StepEnd::Done(_) => context = self.read_context().await?,
                }
            }
        }
        if let Some(over) = self.run_approved(&mut context, usage).await? {
            return Ok(over);
        }
        if let Some(over) = self.run_again(&mut context, usage).await? {
            return Ok(over);
        }
        let own = context.rows.iter().filter(|row| row.turn == self.lease.turn);
        let call_ids = own.flat_map(|row| row.body.tool_calls().map(|(id, ..)| id.clone()));
        let call_ids = call_ids.collect();
        let redactor = Redactor::new(scrub::known());
        let heard = Heard { said: None, usage, steps: 0, used: None, call_ids, redactor };
        match self.order(&context) {
            Some(Slash::Compact { keep }) => {
                self.compact_as_asked(context, keep.as_deref(), heard).await
            }
            _ => self.converse(context, heard).await,
        }
    }

    /// Runs the engine and does what it asks for.
    pub(crate) async fn speak(
        &self,
        rows: Vec<Arc<Message>>,
        heard: &mut Heard,
        may_rest: bool,
    ) -> Result<Spoke, Lost> {
        let Some(engine) = self.shared.engine(&self.agent) else {
            let reason = format!("there is no engine `{}`", self.agent.engine);
            resume::close_unable(&self.shared, &self.lease, &reason).await?;
            return Ok(Spoke::Over);
        };
        let (batches, mut asked) = mpsc::channel(1);
        let mut handle = engine.start(self.request(rows, batches, heard.steps));
        // One for all words: its timer is not set anew with each of them.
        let mut ended = std::pin::pin!(self.ended());
        loop {
            let event = tokio::select! {
                biased;
                request = &mut ended => {
                    self.ender.cancel();
                    drop(asked);
                    self.hear_out(&mut handle.events, heard).await;
                    let entries = self.last_words(heard.said.take(), request);
                    self.end(request, entries, heard.usage).await?;
                    return Ok(Spoke::Over);
                }
                () = passed(self.deferred_until()) => {
                    self.write_deferred().await?;
                    continue;
                }
                event = handle.events.recv() => event,
                Some(batch) = asked.recv() => {
                    self.write_deferred_for_watchers().await?;
                    // What the engine said before it asked stands in its events.
                    while let Ok(event) = handle.events.try_recv() {
                        // It cannot have ended: it waits for these calls.
                        let _ = self.hear(event, heard);
                    }
                    match self.serve(heard).await? {
                        // The engine ends when nobody answers; another goes on after the notes.
                        Some(_) if may_rest && self.is_full(heard.used) => return Ok(Spoke::Full),
                        Some(rows) => drop(batch.reply.send(rows)),
                        None => {
                            self.ender.cancel();
                            return Ok(Spoke::Over);
                        }
                    }
                    continue;
                }
            };
            self.write_deferred_for_watchers().await?;
            match event {
                Some(event) => match self.hear(event, heard) {
                    None => {}
                    Some(end @ TurnEnd::Failed { code: FailureCode::ContextTooLong, .. }) => {
                        return Ok(Spoke::TooLong(end));
                    }
                    Some(end) => {
                        self.finish(end, heard).await?;
                        return Ok(Spoke::Over);
                    }
                },
                None => {
                    let text = "The engine ended without a word.".to_owned();
                    self.retry(FailureCode::EngineCrashed, text, heard.usage).await?;
                    return Ok(Spoke::Over);
                }
            }
        }
    }

    /// Lets an engine that was told to end do so, and keeps what it still says.
    async fn hear_out(&self, events: &mut mpsc::Receiver<EngineEvent>, heard: &mut Heard) {
        let ended = async {
            while let Some(event) = events.recv().await {
                let _ = self.hear(event, heard);
            }
        };
        if tokio::time::timeout(ENGINE_GRACE, ended).await.is_err() {
            tracing::warn!("an engine did not end in time; dropped");
        }
    }

    /// Keeps and tells what the engine said; gives back its end.
    fn hear(&self, event: EngineEvent, heard: &mut Heard) -> Option<TurnEnd> {
        let mut end = None;
        for event in heard.redactor.take(event) {
            match event {
                EngineEvent::End(how) => end = Some(how),
                event => self.keep(event, heard),
            }
        }
        end
    }

    fn keep(&self, event: EngineEvent, heard: &mut Heard) {
        match event {
            EngineEvent::Meta(meta) => {
                self.shared.meters.call(&meta);
                self.count(&meta, heard);
                heard.steps += 1;
                heard.used = Some(meta.usage.total_tokens);
                self.running.note_used(meta.usage.total_tokens);
                self.answers.fetch_add(1, Ordering::Relaxed);
                let mut body = self.running.fold().finish(meta);
                make_calls_usable(&mut body, &mut heard.call_ids);
                heard.said = Some(body);
            }
            EngineEvent::Asking(profile) => *lock(&self.asking) = profile,
            EngineEvent::Notice(text) => {
                tracing::info!(text, "engine");
                lock(&self.notes).push(text);
            }
            EngineEvent::Note(text) => tracing::debug!(text, "engine"),
            EngineEvent::End(_) => {}
            event => {
                // Published under the lock: a late watcher's snapshot and the deltas after it fit.
                let mut fold = self.running.fold();
                if let Some(delta) = fold.apply(event) {
                    self.shared.bus.publish(self.event(EventKind::Delta {
                        token: self.lease.token,
                        call: delta.call,
                        index: delta.index,
                        part: delta.part,
                        text: delta.text,
                    }));
                }
            }
        }
    }

    /// Runs a step's calls; their rows, or nothing where the turn is over for this lease.
    async fn serve(&self, heard: &mut Heard) -> Result<Option<Vec<Arc<Message>>>, Lost> {
        let Some(body) = heard.said.take() else {
            return Err(Lost::Refused("the engine asked for calls it did not say".to_owned()));
        };
        let calls = step::plan(self, &body);
        match step::run(self, Some(step::new_message(body)), calls).await? {
            StepEnd::Done(mut rows) => {
                self.fill_files(&mut rows).await?;
                Ok(Some(rows))
            }
            StepEnd::Parked => Ok(None),
            StepEnd::Ended { request, open } => {
                self.end(request, open, heard.usage).await?;
                Ok(None)
            }
        }
    }

    /// `steps` were made under this lease.
    pub(crate) fn request(
        &self,
        messages: Vec<Arc<Message>>,
        batches: mpsc::Sender<GateBatch>,
        steps: u32,
    ) -> TurnRequest {
        let shared = &self.shared;
        let specs = shared.toolbox.specs(&self.agent);
        let used = u32::try_from(self.lease.steps).unwrap_or(u32::MAX);
        TurnRequest {
            agent: self.agent.name.clone(),
            turn: self.lease.turn.clone(),
            session: self.lease.session.clone(),
            profile: Arc::clone(&self.agent.profile),
            providers: self.settings.providers.clone(),
            think: self.agent.think,
            workspace: self.agent.workspace.clone(),
            system: system_prompt(&self.settings, &self.agent, &specs),
            messages,
            gate: Gate::new(specs, batches),
            steps_left: self.agent.max_steps.saturating_sub(used.saturating_add(steps)),
            allowance: self.allowance(),
            cancel: self.ender.clone(),
        }
    }
}

/// What stands before every talk with this agent.
pub(crate) fn system_prompt(
    settings: &HiveSettings,
    agent: &AgentSettings,
    tools: &[ToolSpec],
) -> SystemPrompt {
    prompt::assemble(SYSTEM_RULES, &settings.hive_rules, agent, tools)
}

/// What the parts of a turn share.
impl Turn {
    pub(crate) fn toolbox(&self) -> &Toolbox {
        &self.shared.toolbox
    }

    /// Calls are decided by the policy in force now, not by that of the turn's beginning: what is
    /// denied by now is denied.
    pub(crate) fn live_policy(&self) -> Policy {
        match self.shared.settings().agent(&self.agent.name) {
            Ok(agent) => agent.policy.clone(),
            Err(reason) => Policy { broken: Some(reason), ..Policy::default() },
        }
    }

    pub(crate) fn gate<'a>(&'a self, policy: &'a Policy) -> ToolGate<'a> {
        ToolGate {
            toolbox: &self.shared.toolbox,
            admission: &self.shared.admission,
            hooks: &self.shared.hooks,
            agent: &self.agent,
            policy,
            records: Some(Records { shared: &self.shared, lease: &self.lease }),
            approval_time: self.shared.settings().limits.approval,
            bound: self.settings.limits.tool_output_bytes,
        }
    }

    pub(crate) fn active_ms(&self) -> i64 {
        self.lease.active_ms + millis(self.since.elapsed())
    }

    pub(crate) fn tool_context(&self, call: &CallId, decision: Option<Value>) -> ToolContext {
        ToolContext {
            agent: self.agent.name.clone(),
            session_key: self.lease.session_key.clone(),
            workspace: self.agent.workspace.clone(),
            outputs: self.shared.outputs_of(&self.lease),
            folder: Some(self.agent.folder.clone()),
            sandbox: self.agent.sandbox,
            turn: self.lease.turn.clone(),
            call: call.clone(),
            decision,
            cancel: self.ender.clone(),
            lasting: self.shared.session_scopes.of(
                &self.agent.name,
                &self.running.session_key,
                &self.lease.session,
                &self.shared.cut,
            ),
        }
    }

    pub(crate) fn end_requested(&self) -> Option<EndRequest> {
        if self.running.cancel.is_cancelled() {
            let reason = self.running.reason().unwrap_or(CancelReason::Stop);
            return Some(EndRequest::Cancel(reason));
        }
        if self.shared.cut.is_cancelled() {
            return Some(EndRequest::Cut);
        }
        (Instant::now() >= self.deadline).then_some(EndRequest::Time)
    }

    /// Ends with the turn.
    pub(crate) fn child_ender(&self) -> CancellationToken {
        self.ender.child_token()
    }

    pub(crate) fn stop_engine(&self) {
        self.ender.cancel();
    }

    pub(crate) async fn ended(&self) -> EndRequest {
        tokio::select! {
            biased;
            () = self.running.cancel.cancelled() => {
                EndRequest::Cancel(self.running.reason().unwrap_or(CancelReason::Stop))
            }
            () = self.shared.cut.cancelled() => EndRequest::Cut,
            () = tokio::time::sleep_until(self.deadline) => EndRequest::Time,
        }
    }

    /// Runs tools; when the turn is to end they are told, and waited for within their grace.
    pub(crate) async fn guarded<F: Future>(&self, work: F) -> (Option<EndRequest>, F::Output) {
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

    pub(crate) fn asking(&self) -> Arc<Profile> {
        Arc::clone(&lock(&self.asking))
    }

    /// Locked for one decision at a time.
    pub(crate) fn brake(&self) -> MutexGuard<'_, Brake> {
        lock(&self.brake)
    }

    pub(crate) fn tell_with_next_row(&self, text: String) {
        lock(&self.notes).push(text);
    }

    pub(crate) fn deferred(&self) -> MutexGuard<'_, DeferredSteps> {
        lock(&self.deferred)
    }

    /// Puts what is still to be told before the entries it led to.
    pub(crate) fn with_notes(&self, entries: Vec<Entry>) -> Vec<Entry> {
        let notes = std::mem::take(&mut *lock(&self.notes));
        notes.into_iter().map(|text| Entry::Note { text }).chain(entries).collect()
    }

    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event {
            seq: None,
            at: clock::now_ms(),
            agent: self.agent.name.clone(),
            session: Some(self.lease.session.clone()),
            turn: Some(self.lease.turn.clone()),
            kind,
        }
    }
}

/// Never where there is no such time.
async fn passed(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Locked for a look or an assignment only.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
