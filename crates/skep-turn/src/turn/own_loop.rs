//! An engine that runs its own loop: it keeps the session, calls the model itself, asks the gate
//! for its calls and says what came of them. The turn keeps and tells what it says, permits what it
//! may do, and ends it where it does what nobody permitted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use skep_core::engine::{
    EngineEvent, FailureCode, GateRequest, Interrupt, ResumedTools, RetryCode, Rewrite, SteerMode,
    ToolCall, TurnEnd, TurnHandle,
};
use skep_core::event::{CallState, ItemState};
use skep_core::ids::CallId;
use skep_core::message::{Block, Message, Usage};
use skep_core::tool::ToolAnswer;
use skep_store::close::Outcome;
use skep_store::engine_sessions::LaunchedSession;
use skep_store::history::NewHistoryRow;
use skep_store::journal::{Entry, NewCall};

use super::context::ModelContext;
use super::engine::{EngineRun, hear_out};
use super::engine_calls::{CallStage, EngineCalls};
use super::launch::{DecidedCalls, Launch};
use super::parked::EngineProcess;
use super::persist::{Joining, Lost};
use super::resume;
use super::start::StepLog;
use super::state::{EndRequest, EngineMemory, Turn, TurnState};
use super::step::{self, CallEnd, PlannedCall};
use crate::gate;
use crate::snapshot::make_calls_usable;

/// An engine that was interrupted has this long to end by itself before it is cancelled.
const INTERRUPT_GRACE: Duration = Duration::from_millis(1500);

/// A run of such an engine.
pub(crate) struct OwnRun {
    handle: TurnHandle,
    pub asked: mpsc::Receiver<GateRequest>,
    pub calls: EngineCalls,
    /// Calls of ours that the engine waits for.
    pub batches: Vec<Batch>,
    /// What is to be written, and what was.
    pub log: StepLog,
    pub decided: DecidedCalls,
    engine: String,
    launch_hash: String,
    /// The model speaks, as far as the engine told.
    pub streaming: bool,
    /// Used by model calls whose message was on record before they ended.
    late: Usage,
    _process: EngineProcess,
}

/// A run that waited with its process, and the calls of its turn as they are on record now.
pub(crate) type ParkedRun = (OwnRun, Vec<PlannedCall>);

pub(crate) struct Batch {
    pub calls: Vec<usize>,
    pub reply: oneshot::Sender<Vec<Arc<Message>>>,
}

/// What becomes of the run.
pub(crate) enum Flow {
    On,
    End(EndRequest),
    Finished(TurnEnd),
    /// The engine is gone without a word.
    Crashed,
    /// This call had no permission.
    Ungated(usize),
}

impl OwnRun {
    fn new(
        handle: TurnHandle,
        asked: mpsc::Receiver<GateRequest>,
        launch: Launch,
        process: EngineProcess,
    ) -> Self {
        Self {
            handle,
            asked,
            calls: EngineCalls::default(),
            batches: Vec::new(),
            log: StepLog::default(),
            decided: launch.decided,
            engine: launch.engine,
            launch_hash: launch.hash,
            streaming: false,
            late: Usage::default(),
            _process: process,
        }
    }

    pub fn rewrite(&self) -> Option<Rewrite> {
        self.handle.rewrite
    }

    fn takes_messages(&self) -> bool {
        match self.handle.steer.as_ref().map(|steer| steer.mode) {
            None => false,
            Some(SteerMode::Any) => true,
            Some(SteerMode::AtTool) => self.calls.has_started(),
        }
    }

    /// Everything it does waits for a person, and it has said all it has to say.
    fn only_waits(&self) -> bool {
        let silent = self.asked.is_empty() && self.handle.events.is_empty() && !self.streaming;
        silent && self.calls.only_waits()
    }

    /// The engine is gone; what it said before may still be there.
    pub fn is_gone(&self) -> bool {
        self.handle.events.is_closed()
    }

    pub async fn end(mut self, ender: &CancellationToken) {
        self.stop(ender, drop).await;
    }

    /// Ends the engine: as it likes to, else at once.
    async fn stop(&mut self, ender: &CancellationToken, mut hear: impl FnMut(EngineEvent)) {
        self.asked.close();
        while self.asked.try_recv().is_ok() {}
        self.batches.clear();
        let events = &mut self.handle.events;
        if let Some(Interrupt(token)) = &self.handle.interrupt {
            token.cancel();
            let ends = async {
                while let Some(event) = events.recv().await {
                    let ended = matches!(event, EngineEvent::End(_));
                    hear(event);
                    if ended {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(INTERRUPT_GRACE, ends).await;
        }
        ender.cancel();
        hear_out(events, hear).await;
    }
}

impl Turn {
    pub(crate) async fn run_own_loop(
        &self,
        state: &mut TurnState,
        context: &ModelContext,
        on_resume: ResumedTools,
        parked: Option<ParkedRun>,
    ) -> Result<EngineRun, Lost> {
        let Some(engine) = self.snapshot.engine(&self.agent) else {
            let reason = format!("there is no engine `{}`", self.agent.engine);
            resume::close_unable(&self.env, &self.lease, &reason).await?;
            return Ok(EngineRun::Over);
        };
        let mut resumed = false;
        let (mut run, waiting) = match parked {
            Some(parked) => parked,
            None => {
                let (requests, asked) = mpsc::channel(1);
                let mut request = self.request(context.all(), requests, state.steps);
                let mut launch = self.launch(state, &*engine, context, &request, on_resume).await?;
                request.resume = launch.resume.take();
                resumed = request.resume.is_some();
                let most = self.snapshot.settings.limits.engine_processes;
                let process = self.env.processes.count(most);
                (OwnRun::new(engine.start(request), asked, launch, process), Vec::new())
            }
        };
        let flow = match self.tell_decided(state, &mut run, waiting).await? {
            None => self.attend(state, &mut run).await?,
            Some(request) => Flow::End(request),
        };
        match flow {
            Flow::On => self.park_run(state, run).await?,
            Flow::End(request) => self.end_run(state, run, request).await?,
            Flow::Ungated(at) => self.end_ungated(state, run, at).await?,
            Flow::Finished(TurnEnd::StaleSession) if resumed => {
                state.engine_session = EngineMemory::Stale;
                return Ok(EngineRun::Stale);
            }
            Flow::Finished(end) => {
                self.close_calls(state, &mut run, "the engine did not ask for it").await?;
                if let Some(body) = &mut state.said {
                    make_calls_usable(&self.snapshot.toolbox, body, &mut state.call_ids);
                }
                if let TurnEnd::Failed { code: FailureCode::ContextTooLong, .. } = end {
                    return Ok(EngineRun::TooLong(end));
                }
                self.finish(state, end).await?;
            }
            Flow::Crashed => {
                self.close_calls(state, &mut run, "the engine ended").await?;
                let text = "The engine ended without a word.".to_owned();
                self.retry(state, RetryCode::EngineCrashed, text).await?;
            }
        }
        Ok(EngineRun::Over)
    }

    /// Does what the engine asks for until the run ends. `On`: everything it does waits for a
    /// person.
    async fn attend(&self, state: &mut TurnState, run: &mut OwnRun) -> Result<Flow, Lost> {
        let mut ended = std::pin::pin!(self.ended());
        loop {
            if run.takes_messages() && self.running.has_arrivals() {
                self.steer(state, run).await?;
            }
            if run.only_waits() {
                return Ok(Flow::On);
            }
            let flow = tokio::select! {
                biased;
                request = &mut ended => Flow::End(request),
                event = run.handle.events.recv() => self.hear_own(state, run, event).await?,
                Some(asked) = run.asked.recv() => self.answer(state, run, asked).await?,
                () = self.running.arrived(), if run.handle.steer.is_some() => Flow::On,
            };
            if !matches!(flow, Flow::On) {
                return Ok(flow);
            }
        }
    }

    /// What the engine said before it asked stands in its events.
    pub(super) async fn hear_before(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
    ) -> Result<Flow, Lost> {
        while let Ok(event) = run.handle.events.try_recv() {
            let flow = self.hear_own(state, run, Some(event)).await?;
            if !matches!(flow, Flow::On) {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    async fn hear_own(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        event: Option<EngineEvent>,
    ) -> Result<Flow, Lost> {
        let Some(mut event) = event else { return Ok(Flow::Crashed) };
        let mut flow = Flow::On;
        self.hold_secret_arguments(state, &mut event);
        for event in state.redactor.take(event) {
            match event {
                EngineEvent::End(TurnEnd::Finished) => {
                    let finished = Flow::Finished(TurnEnd::Finished);
                    flow = run.calls.ungated().map_or(finished, Flow::Ungated);
                }
                EngineEvent::End(end) => flow = Flow::Finished(end),
                EngineEvent::OwnCall { id, name, arguments } => {
                    let call = ToolCall { id, name, arguments };
                    let at = match run.calls.open(&call.id) {
                        Some(at) => Some(at),
                        None => self.record(state, run, Some(call)),
                    };
                    if let Some(known) = at.and_then(|at| run.calls.get_mut(at)) {
                        known.said_started = true;
                    }
                }
                EngineEvent::ToolResult { id, text, is_error } => {
                    flow = self.hear_result(state, run, id, text, is_error).await?;
                }
                EngineEvent::EngineSession { id } => {
                    let (engine, launch_hash) = (run.engine.clone(), run.launch_hash.clone());
                    let session = LaunchedSession { engine, id, launch_hash };
                    state.engine_session = EngineMemory::Kept(session);
                    self.flush(state, run).await?;
                    self.write(state, Vec::new(), Joining::Later).await?;
                }
                event => self.keep_own(state, run, event).await?,
            }
        }
        Ok(flow)
    }

    async fn keep_own(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        event: EngineEvent,
    ) -> Result<(), Lost> {
        match event {
            EngineEvent::Meta(meta) => {
                run.streaming = false;
                // One message after the other: only the last is the answer.
                if state.said.is_some() {
                    self.record(state, run, None);
                    self.flush(state, run).await?;
                }
                let mut body = self.complete(state, meta);
                let usage = body.meta.as_mut().map(|meta| &mut meta.usage);
                match (body.content.is_empty(), usage) {
                    // Its message is on record already: the next one carries what it used.
                    (true, Some(usage)) => run.late.add(*usage),
                    (_, usage) => {
                        if let Some(usage) = usage {
                            usage.add(std::mem::take(&mut run.late));
                        }
                        state.said = Some(body);
                    }
                }
            }
            event => {
                run.streaming |= matches!(
                    event,
                    EngineEvent::CallStart
                        | EngineEvent::Text(_)
                        | EngineEvent::Thinking(_)
                        | EngineEvent::ToolCall { .. }
                );
                self.keep(state, event);
            }
        }
        Ok(())
    }

    /// The engine says what came of a call.
    async fn hear_result(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        id: CallId,
        text: String,
        is_error: bool,
    ) -> Result<Flow, Lost> {
        let announced = match id.as_str() {
            "" => run.calls.oldest_started(),
            _ => run.calls.open(&id),
        };
        let unannounced = || ToolCall { id: id.clone(), name: String::new(), arguments: json!({}) };
        let at = match announced {
            Some(at) => at,
            // It may have been told in the message that is under way.
            None if state.call_ids.contains(&id) => return Ok(Flow::On),
            None => match self.record(state, run, Some(unannounced())) {
                Some(at) => at,
                None => return Ok(Flow::On),
            },
        };
        let Some(known) = run.calls.get_mut(at) else { return Ok(Flow::On) };
        match std::mem::replace(&mut known.stage, CallStage::Done) {
            CallStage::Started { cleared, .. } => {
                let call = known.call.clone();
                let answer = match is_error {
                    true => ToolAnswer::error(text),
                    false => ToolAnswer::ok(text),
                };
                let context = self.tool_context(&call, None);
                let policy = self.live_policy();
                let gate = self.gate(&policy);
                let ran = gate.reported(&call, *cleared, &context, Some(answer)).await;
                if let CallEnd::Answered(entries) = step::call_end(self, state, &call, false, ran) {
                    run.log.entries.extend(entries);
                }
                self.flush(state, run).await?;
                Ok(Flow::On)
            }
            // The engine's way to say that it did not run.
            CallStage::Denied(reason) if is_error => {
                known.stage = CallStage::Denied(reason);
                Ok(Flow::On)
            }
            CallStage::Cleared(_) if is_error => {
                run.log.entries.push(step::not_run(&known.call, "the engine gave it up"));
                self.flush(state, run).await?;
                Ok(Flow::On)
            }
            // It has its row: what the engine did all the same gets one of its own.
            CallStage::Denied(_) => {
                let again = ToolCall { id, ..known.call.clone() };
                Ok(self.record(state, run, Some(again)).map_or(Flow::On, Flow::Ungated))
            }
            stage => {
                known.stage = stage;
                Ok(Flow::Ungated(at))
            }
        }
    }

    /// Puts the message so far on record, whether or not it is complete, with the calls in it; and
    /// `also`, where it is not among them. The place of that.
    pub(super) fn record(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        also: Option<ToolCall>,
    ) -> Option<usize> {
        let said = state.said.take();
        let (mut body, times) = match said {
            Some(body) => (body, self.running.times().take_said()),
            None => (self.running.fold().cut(), self.running.times().cut(self.env.now())),
        };
        let named = |known: &ToolCall| {
            let same = |id: &CallId, name: &str, arguments: &Value| match known.id.as_str() {
                "" => name == known.name && *arguments == known.arguments,
                known => id.as_str() == known,
            };
            body.tool_calls().position(|(id, name, arguments)| same(id, name, arguments))
        };
        let place = also.as_ref().map(|call| named(call).ok_or_else(|| call.clone()));
        let place = match place {
            Some(Ok(place)) => Some(place),
            Some(Err(ToolCall { id, name, arguments })) => {
                body.content.push(Block::ToolCall { id, name, arguments });
                Some(body.tool_calls().count() - 1)
            }
            None => None,
        };
        if body.content.is_empty() {
            return None;
        }
        let ids: Vec<CallId> = body.tool_calls().map(|(id, ..)| id.clone()).collect();
        make_calls_usable(&self.snapshot.toolbox, &mut body, &mut state.call_ids);
        let calls: Vec<ToolCall> =
            body.tool_calls().map(|(id, name, args)| gate::call_of(id, name, args)).collect();
        let planned = calls.iter().map(|call| NewCall {
            id: call.id.clone(),
            tool: call.name.clone(),
            retry_safe: false,
            decision: None,
            own: true,
        });
        let planned = planned.collect();
        let message = NewHistoryRow { times, ..step::new_message(body) };
        run.log.entries.push(Entry::Assistant { message, calls: planned });
        let mut at = None;
        for (position, (id, call)) in ids.into_iter().zip(calls).enumerate() {
            let known = run.calls.announce(id, call);
            if Some(position) == place {
                at = Some(known);
            }
        }
        at
    }

    /// Writes what is to be written.
    pub(super) async fn flush(&self, state: &mut TurnState, run: &mut OwnRun) -> Result<(), Lost> {
        let entries = std::mem::take(&mut run.log.entries);
        if !entries.is_empty() {
            let rows = self.write(state, entries, Joining::Later).await?;
            run.log.rows.extend(rows);
        }
        run.log.rows.drain(..).for_each(|row| run.calls.note_result(&row));
        Ok(())
    }

    /// Messages that wait in the lane join the run.
    async fn steer(&self, state: &mut TurnState, run: &mut OwnRun) -> Result<(), Lost> {
        self.flush(state, run).await?;
        let mut joined = self.write(state, Vec::new(), Joining::Now).await?;
        self.fill_files(&mut joined).await?;
        if let Some(steer) = &run.handle.steer {
            for message in joined {
                // An engine that is gone says so by its events.
                let _ = steer.messages.send(message).await;
            }
        }
        Ok(())
    }

    async fn end_run(
        &self,
        state: &mut TurnState,
        mut run: OwnRun,
        request: EndRequest,
    ) -> Result<(), Lost> {
        self.interrupt(state, &mut run).await;
        if request == EndRequest::Cut {
            // What was started is unknown to the next lease.
            self.flush(state, &mut run).await?;
            return self.end(state, request, Vec::new()).await;
        }
        let mut entries = std::mem::take(&mut run.log.entries);
        entries.extend(self.last_words_on(state, &mut run, request.because()).await);
        let said = state.said.take();
        entries.extend(self.last_words(state, said, request));
        self.end(state, request, entries).await
    }

    async fn end_ungated(
        &self,
        state: &mut TurnState,
        mut run: OwnRun,
        at: usize,
    ) -> Result<(), Lost> {
        self.interrupt(state, &mut run).await;
        let mut entries = std::mem::take(&mut run.log.entries);
        let mut name = String::new();
        if let Some(known) = run.calls.get_mut(at) {
            known.stage = CallStage::Done;
            let call = known.call.clone();
            name.clone_from(&call.name);
            let text = "ungated: the engine made this call, and nobody permitted it; it may or may \
                        not have had its effect, and the turn was ended";
            let audit = Some(gate::ungated(&call));
            entries.push(step::last_word(&call, text, "unknown", CallState::Unknown, audit));
        }
        entries.extend(self.last_words_on(state, &mut run, "the turn was ended").await);
        let text = format!(
            "The engine `{}` made a call of `{name}` that nobody permitted, so the turn was ended. \
             Look at what it did; the audit has the call.",
            run.engine
        );
        let code = FailureCode::EngineUngated;
        self.close(state, entries, Outcome::Ended { state: ItemState::Failed, code, text }).await
    }

    /// Ends the engine. What it still says of its calls does not count.
    async fn interrupt(&self, state: &mut TurnState, run: &mut OwnRun) {
        if state.said.is_some() {
            self.record(state, run, None);
        }
        run.stop(&self.ender, |event| drop(self.hear(state, event))).await;
    }

    /// Gives every open call its last word.
    async fn close_calls(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        why: &str,
    ) -> Result<(), Lost> {
        let entries = self.last_words_on(state, run, why).await;
        run.log.entries.extend(entries);
        self.flush(state, run).await
    }

    async fn last_words_on(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        why: &str,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for known in run.calls.take_open() {
            let call = known.call;
            match known.stage {
                CallStage::Started { cleared, .. } => {
                    let context = self.tool_context(&call, None);
                    let policy = self.live_policy();
                    let cut = self.gate(&policy).reported(&call, *cleared, &context, None).await;
                    if let CallEnd::Answered(known) = step::call_end(self, state, &call, false, cut)
                    {
                        entries.extend(known);
                    }
                }
                CallStage::Announced | CallStage::Cleared(_) | CallStage::Waits(_) => {
                    entries.push(step::not_run(&call, why));
                }
                CallStage::Denied(_) | CallStage::Done => {}
            }
        }
        entries
    }
}
