//! What an engine with its own loop asks of the gate: to run a tool of ours, or to permit a call it
//! makes itself. Each call is examined once, however often the engine asks for it.

use skep_core::engine::{CallPermit, GateRequest, OwnTool, ToolCall, Waiting};
use skep_core::tool::ToolAnswer;
use tokio::sync::oneshot;

use super::engine_calls::{CallStage, Want};
use super::own_loop::{Batch, Flow, OwnRun};
use super::persist::Lost;
use super::start::{mark_started, reach_start};
use super::state::{EndRequest, Turn, TurnState};
use super::step::{self, CallEnd, WaitingCall};
use crate::gate::{CallOutcome, ClearedCall, Examination, ForEngine};

impl Turn {
    pub(super) async fn answer(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        request: GateRequest,
    ) -> Result<Flow, Lost> {
        let flow = self.hear_before(state, run).await?;
        if !matches!(flow, Flow::On) {
            return Ok(flow);
        }
        // It waits for us: the model has said what it has to say.
        run.streaming = false;
        let ended = match request {
            GateRequest::Permit { call, own, reply } => {
                let call = self.without_secrets(call);
                self.permit(state, run, call, own, reply).await?
            }
            GateRequest::Run { calls, reply } => {
                let mut places = Vec::with_capacity(calls.len());
                let mut ended = None;
                for call in calls.into_iter().map(|call| self.without_secrets(call)) {
                    let at = self.place(state, run, &call, Want::Run, None);
                    ended = ended.or(self.examine_once(state, run, at).await?);
                    if ended.is_none() {
                        ended = self.run_ours(state, run, at).await?;
                    }
                    places.push(at);
                }
                run.batches.push(Batch { calls: places, reply });
                ended
            }
        };
        if let Some(request) = ended {
            return Ok(Flow::End(request));
        }
        self.flush(state, run).await?;
        reply_to_batches(run);
        Ok(Flow::On)
    }

    /// A call that was not announced is on record as it is asked for.
    fn without_secrets(&self, mut call: ToolCall) -> ToolCall {
        let (held, of) = (&self.env.gate.secrets, (&*self.snapshot.toolbox, &*self.agent));
        held.take(&self.lease.turn, of, &call.name, &mut call.arguments);
        skep_scrub::known().clean_json(&mut call.arguments);
        call
    }

    async fn permit(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        call: ToolCall,
        own: Option<OwnTool>,
        reply: oneshot::Sender<CallPermit>,
    ) -> Result<Option<EndRequest>, Lost> {
        let at = self.place(state, run, &call, Want::Permit, own);
        if let Some(request) = self.examine_once(state, run, at).await? {
            return Ok(Some(request));
        }
        let Some(known) = run.calls.get_mut(at) else { return Ok(None) };
        let permit = match known.permit() {
            Some(permit) => permit,
            None if matches!(known.stage, CallStage::Waits(_)) => {
                let (decides, decided) = oneshot::channel();
                known.waiters.push(decides);
                CallPermit::Waits(Waiting(decided))
            }
            // The turn ends: whoever asks hears nothing.
            None => return Ok(None),
        };
        // On the disk before the engine acts on it.
        self.flush(state, run).await?;
        let _ = reply.send(permit);
        Ok(None)
    }

    /// The call that the engine asks for; it is put on record where it was not announced.
    fn place(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        call: &ToolCall,
        want: Want,
        own: Option<OwnTool>,
    ) -> usize {
        let at = match run.calls.asked(call, want) {
            Some(at) => at,
            None => {
                let at = self.record(state, run, Some(call.clone()));
                run.calls.asked(call, want).or(at).unwrap_or(usize::MAX)
            }
        };
        if let Some(known) = run.calls.get_mut(at)
            && known.own.is_none()
        {
            known.own = own;
        }
        at
    }

    /// Takes a call through the gate where that has not happened. `Some`: the turn ends first.
    pub(super) async fn examine_once(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        at: usize,
    ) -> Result<Option<EndRequest>, Lost> {
        let Some(known) = run.calls.get_mut(at) else { return Ok(None) };
        if !matches!(known.stage, CallStage::Announced) {
            return Ok(None);
        }
        if known.decision.is_none() {
            known.decision = run.decided.take(&known.call);
        }
        let (call, own) = (known.call.clone(), known.own.clone());
        let context = self.tool_context(&call, known.decision.clone());
        let log = &mut run.log;
        let reached = reach_start(self, state, &call, own.as_ref(), &context, log).await?;
        let cleared = match reached {
            Ok(Examination::Cleared(cleared)) => cleared,
            Ok(Examination::Asks(question)) => {
                let waits = Box::new(WaitingCall::asks(&call, *question));
                set(run, at, CallStage::Waits(waits));
                return Ok(None);
            }
            Ok(Examination::Ended(outcome)) => {
                self.deny(state, run, at, &call, *outcome);
                return Ok(None);
            }
            Err(request) => return Ok(Some(request)),
        };
        if own.is_none() {
            set(run, at, CallStage::Cleared(cleared));
            return Ok(None);
        }
        let (policy, rewrite) = (self.live_policy(), run.rewrite());
        match self.gate(&policy).for_engine(&call, cleared, rewrite, &context).await {
            ForEngine::Allowed(cleared, arguments) => {
                let approval = cleared.approval();
                let marked = mark_started(self, state, &call, approval, &mut run.log).await?;
                if let Err(request) = marked {
                    return Ok(Some(request));
                }
                set(run, at, CallStage::Started { cleared, arguments });
            }
            ForEngine::Ended(outcome) => self.deny(state, run, at, &call, *outcome),
        }
        Ok(None)
    }

    /// Runs a call of ours that may run.
    pub(super) async fn run_ours(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        at: usize,
    ) -> Result<Option<EndRequest>, Lost> {
        let Some(known) = run.calls.get_mut(at) else { return Ok(None) };
        let cleared: ClearedCall = match std::mem::replace(&mut known.stage, CallStage::Announced) {
            CallStage::Cleared(cleared) => *cleared,
            stage => {
                known.stage = stage;
                return Ok(None);
            }
        };
        let call = known.call.clone();
        let context = self.tool_context(&call, known.decision.clone());
        let approval = cleared.approval();
        if let Err(request) = mark_started(self, state, &call, approval, &mut run.log).await? {
            return Ok(Some(request));
        }
        let (ended, ran) = self.guarded(self.run_cleared(&call, cleared, context)).await;
        match step::call_end(self, state, &call, false, ran) {
            CallEnd::Answered(entries) => {
                run.log.entries.extend(entries);
                set(run, at, CallStage::Done);
            }
            CallEnd::Waits(waits) => set(run, at, CallStage::Waits(waits)),
            CallEnd::NotRun => {}
        }
        Ok(ended)
    }

    fn deny(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        at: usize,
        call: &ToolCall,
        outcome: CallOutcome,
    ) {
        let reason = match &outcome.answer {
            ToolAnswer::Done { text, .. } | ToolAnswer::Cut { text, .. } => text.clone(),
            ToolAnswer::Wait { reason } => reason.clone(),
        };
        match step::call_end(self, state, call, false, outcome) {
            CallEnd::Answered(entries) => {
                run.log.entries.extend(entries);
                set(run, at, CallStage::Denied(reason));
            }
            // The turn ends.
            CallEnd::Waits(_) | CallEnd::NotRun => {}
        }
    }
}

pub(super) fn set(run: &mut OwnRun, at: usize, stage: CallStage) {
    if let Some(known) = run.calls.get_mut(at) {
        known.stage = stage;
    }
}

/// Answers whoever waits for calls that all have their results.
pub(super) fn reply_to_batches(run: &mut OwnRun) {
    let batches = std::mem::take(&mut run.batches);
    for batch in batches {
        let results: Option<Vec<_>> = batch
            .calls
            .iter()
            .map(|at| run.calls.get_mut(*at).and_then(|known| known.result.clone()))
            .collect();
        match results {
            Some(rows) => drop(batch.reply.send(rows)),
            None => run.batches.push(batch),
        }
    }
}
