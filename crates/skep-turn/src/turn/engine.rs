//! The engine at work for a turn: what it says is kept and told, what it asks for is run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use skep_core::engine::{
    CallPermit, EngineEvent, FailureCode, Gate, GateRequest, RetryCode, TurnEnd, TurnRequest,
};
use skep_core::event::EventKind;
use skep_core::message::{Body, Message, Meta};

use super::persist::Lost;
use super::prompt::system_prompt;
use super::redact;
use super::resume;
use super::state::{Turn, TurnState};
use super::step::{self, StepEnd};
use crate::snapshot::make_calls_usable;

/// An engine that was told to end has this long before it is dropped.
const ENGINE_GRACE: Duration = Duration::from_millis(3500);

/// How a run of the engine ended.
pub(crate) enum EngineRun {
    /// The turn is over for this lease.
    Over,
    /// A step is done, and the next would come too near to the end of the model's window.
    Full,
    /// The vendor refused the request for its length.
    TooLong(TurnEnd),
    /// The engine does not know the session it was to go on with.
    Stale,
}

impl Turn {
    /// Runs the engine and does what it asks for.
    pub(crate) async fn run_engine(
        &self,
        state: &mut TurnState,
        rows: Vec<Arc<Message>>,
        may_rest: bool,
    ) -> Result<EngineRun, Lost> {
        let Some(engine) = self.snapshot.engine(&self.agent) else {
            let reason = format!("there is no engine `{}`", self.agent.engine);
            resume::close_unable(&self.env, &self.lease, &reason).await?;
            return Ok(EngineRun::Over);
        };
        let (requests, mut asked) = mpsc::channel(1);
        let mut handle = engine.start(self.request(rows, requests, state.steps));
        // One for all words: its timer is not set anew with each of them.
        let mut ended = std::pin::pin!(self.ended());
        loop {
            let event = tokio::select! {
                biased;
                request = &mut ended => {
                    self.ender.cancel();
                    drop(asked);
                    hear_out(&mut handle.events, |event| drop(self.hear(state, event))).await;
                    let said = state.said.take();
                    let entries = self.last_words(state, said, request);
                    self.end(state, request, entries).await?;
                    return Ok(EngineRun::Over);
                }
                () = passed(state.deferred.until()) => {
                    self.write_deferred(state).await?;
                    continue;
                }
                event = handle.events.recv() => event,
                Some(asked) = asked.recv() => {
                    let reply = match asked {
                        GateRequest::Run { reply, .. } => reply,
                        GateRequest::Permit { reply, .. } => {
                            let reason = "this engine has no tools of its own".to_owned();
                            let _ = reply.send(CallPermit::Deny { reason });
                            continue;
                        }
                    };
                    self.write_deferred_for_watchers(state).await?;
                    // What the engine said before it asked stands in its events.
                    while let Ok(event) = handle.events.try_recv() {
                        // It cannot have ended: it waits for these calls.
                        let _ = self.hear(state, event);
                    }
                    match self.serve(state).await? {
                        // The engine ends when nobody answers; another goes on after the notes.
                        Some(_) if may_rest && self.is_full(state.used) => {
                            return Ok(EngineRun::Full);
                        }
                        Some(rows) => drop(reply.send(rows)),
                        None => {
                            self.ender.cancel();
                            return Ok(EngineRun::Over);
                        }
                    }
                    continue;
                }
            };
            self.write_deferred_for_watchers(state).await?;
            match event {
                Some(event) => match self.hear(state, event) {
                    None => {}
                    Some(end @ TurnEnd::Failed { code: FailureCode::ContextTooLong, .. }) => {
                        return Ok(EngineRun::TooLong(end));
                    }
                    Some(end) => {
                        self.finish(state, end).await?;
                        return Ok(EngineRun::Over);
                    }
                },
                None => {
                    let text = "The engine ended without a word.".to_owned();
                    self.retry(state, RetryCode::EngineCrashed, text).await?;
                    return Ok(EngineRun::Over);
                }
            }
        }
    }

    /// Keeps and tells what the engine said; gives back its end.
    pub(super) fn hear(&self, state: &mut TurnState, mut event: EngineEvent) -> Option<TurnEnd> {
        let mut end = None;
        self.hold_secret_arguments(state, &mut event);
        for event in state.redactor.take(event) {
            match event {
                EngineEvent::End(how) => end = Some(how),
                // Of an engine without tools of its own nobody expects these.
                EngineEvent::OwnCall { name, .. } => {
                    let text = format!("The engine called its own tool `{name}`, and has none.");
                    end = Some(TurnEnd::Failed { code: FailureCode::EngineUngated, text });
                }
                event => self.keep(state, event),
            }
        }
        end
    }

    /// What a tool declares as secret is in no event and no row, also where nobody knew of it.
    pub(super) fn hold_secret_arguments(&self, state: &mut TurnState, event: &mut EngineEvent) {
        if let EngineEvent::ToolCall { name, arguments, .. }
        | EngineEvent::OwnCall { name, arguments, .. } = event
        {
            let (held, of) = (&self.env.gate.secrets, (&*self.snapshot.toolbox, &*self.agent));
            state.said_secret |= held.take(&self.lease.turn, of, name, arguments);
        }
    }

    pub(super) fn keep(&self, state: &mut TurnState, event: EngineEvent) {
        match event {
            EngineEvent::Meta(meta) => {
                let mut body = self.complete(state, meta);
                make_calls_usable(&self.snapshot.toolbox, &mut body, &mut state.call_ids);
                state.said = Some(body);
            }
            EngineEvent::Asking(profile) => state.asking = profile,
            EngineEvent::Notice(text) => {
                tracing::info!(text, "engine");
                state.notes.push(text);
            }
            EngineEvent::Retry { retry, text } => self.back_off(state, retry, text),
            EngineEvent::Raw(line) => tracing::trace!(line, "engine"),
            EngineEvent::End(_) => {}
            event => {
                self.time(&event);
                // Published under the lock: a late watcher's snapshot and the deltas after it fit.
                let mut fold = self.running.fold();
                if let Some(delta) = fold.apply(event) {
                    self.publish(EventKind::Delta {
                        token: self.lease.token,
                        call: delta.call,
                        index: delta.index,
                        part: delta.part,
                        text: delta.text,
                    });
                }
            }
        }
    }

    /// Notes when the model was asked, and when it spoke.
    pub(super) fn time(&self, event: &EngineEvent) {
        match event {
            EngineEvent::CallStart => {
                self.running.end_back_off();
                self.running.times().begin(self.env.now());
            }
            EngineEvent::Text(_) | EngineEvent::Thinking(_) | EngineEvent::ToolCall { .. } => {
                self.running.times().hear(self.env.now());
            }
            _ => {}
        }
    }

    /// The message of a model call that ended, once what it used is counted.
    pub(super) fn complete(&self, state: &mut TurnState, meta: Meta) -> Body {
        self.running.times().end(self.env.now());
        self.env.ledger.note_answer(&meta);
        self.count(state, &meta);
        state.steps += 1;
        state.used = Some(meta.usage.total_tokens);
        self.running.note_used(meta.usage.total_tokens);
        let mut body = self.running.fold().finish(meta);
        // What was said before the call was not known to be a secret then.
        if std::mem::take(&mut state.said_secret) {
            redact::clean(skep_scrub::known(), &mut body);
        }
        body
    }

    /// Runs a step's calls; their rows, or nothing where the turn is over for this lease.
    async fn serve(&self, state: &mut TurnState) -> Result<Option<Vec<Arc<Message>>>, Lost> {
        let Some(body) = state.said.take() else {
            return Err(Lost::Refused("the engine asked for calls it did not say".to_owned()));
        };
        let calls = step::plan(self, &body);
        let said = self.said_message(body);
        match Box::pin(step::run(self, state, Some(said), calls)).await? {
            StepEnd::Done(mut rows) => {
                self.fill_files(&mut rows).await?;
                self.env.gate.secrets.reveal(&self.lease.turn, &mut rows);
                Ok(Some(rows))
            }
            StepEnd::Parked => Ok(None),
            StepEnd::Ended { request, open } => {
                self.end(state, request, open).await?;
                Ok(None)
            }
        }
    }

    /// `steps` were made under this lease.
    pub(crate) fn request(
        &self,
        messages: Vec<Arc<Message>>,
        requests: mpsc::Sender<GateRequest>,
        steps: u32,
    ) -> TurnRequest {
        let specs = self.snapshot.toolbox.specs(&self.agent);
        let used = u32::try_from(self.lease.steps).unwrap_or(u32::MAX);
        TurnRequest {
            agent: self.agent.name.clone(),
            agent_id: self.lease.agent,
            turn: self.lease.turn.clone(),
            session: self.lease.session.clone(),
            profile: Arc::clone(&self.agent.profile),
            providers: self.snapshot.settings.providers.clone(),
            think: self.agent.think,
            workspace: self.agent.workspace.clone(),
            sandbox: self.agent.sandbox,
            options: self.agent.engine_options.clone(),
            resume: None,
            system: system_prompt(&self.snapshot.settings, &self.agent, &specs),
            messages,
            gate: Gate::new(specs, requests),
            steps_left: self.agent.max_steps.saturating_sub(used.saturating_add(steps)),
            allowance: self.env.ledger.allowance(&self.agent, self.payer()),
            cancel: self.ender.clone(),
            retry_now: Arc::clone(&self.running.retry_now),
        }
    }
}

/// Lets an engine that was told to end do so, and hands on what it still says.
pub(super) async fn hear_out(
    events: &mut mpsc::Receiver<EngineEvent>,
    mut hear: impl FnMut(EngineEvent),
) {
    let ended = async {
        while let Some(event) = events.recv().await {
            hear(event);
        }
    };
    if tokio::time::timeout(ENGINE_GRACE, ended).await.is_err() {
        tracing::warn!("an engine did not end in time; dropped");
    }
}

/// Never where there is no such time.
async fn passed(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
