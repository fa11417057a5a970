//! An engine whose calls all wait for a person: it keeps its process while the turn has no lease,
//! and hears what was decided when the turn goes on.

use std::sync::Arc;

use super::engine_calls::CallStage;
use super::own_loop::OwnRun;
use super::own_request::{reply_to_batches, set};
use super::parked::GoOn;
use super::persist::Lost;
use super::state::{EndRequest, Turn, TurnState};
use super::step::{self, PlannedCall};

impl Turn {
    /// Everything waits for a person: the engine keeps its process for a while, and the turn gives
    /// its lease back.
    pub(super) async fn park_run(
        &self,
        state: &mut TurnState,
        mut run: OwnRun,
    ) -> Result<(), Lost> {
        if state.said.is_some() {
            self.record(state, &mut run, None);
        }
        self.flush(state, &mut run).await?;
        let waiting = run.calls.waiting();
        let limits = &self.snapshot.settings.limits;
        let (time, cut) = (limits.park, self.env.stop.cut.clone());
        let over = async move {
            let _ = tokio::time::timeout(time, cut.cancelled()).await;
        };
        let kept = std::mem::replace(state, TurnState::new(&self.agent));
        let kept = TurnState { session: None, progressed: false, steps: 0, ..kept };
        let (turn, processes) = (&self.lease.turn, &self.env.processes);
        // Before the wait is known: whoever takes the turn then finds its engine.
        processes.park(turn, limits.engine_processes, over, self.go_on(kept, run));
        let parked = step::finish(self, state, Vec::new(), waiting).await;
        if parked.is_err()
            && let Some(go_on) = processes.take(turn).await
        {
            go_on(None).await?;
        }
        parked.map(drop)
    }

    /// The turn goes on with the tools and hooks it has.
    fn go_on(&self, mut state: TurnState, run: OwnRun) -> GoOn {
        let (env, snapshot) = (Arc::clone(&self.env), Arc::clone(&self.snapshot));
        let (agent, ender) = (Arc::clone(&self.agent), self.ender.clone());
        Box::new(move |next| {
            Box::pin(async move {
                let Some((lease, running)) = next else {
                    run.end(&ender).await;
                    return Ok(());
                };
                let mut turn = Turn::new(env, lease, snapshot, agent, running);
                if run.is_gone() {
                    run.end(&ender).await;
                    return turn.go(&mut TurnState::new(&turn.agent), None).await;
                }
                turn.ender = ender;
                turn.go(&mut state, Some(run)).await
            })
        })
    }

    /// Tells an engine that waited what was decided about its calls, and runs those of ours.
    pub(super) async fn tell_decided(
        &self,
        state: &mut TurnState,
        run: &mut OwnRun,
        calls: Vec<PlannedCall>,
    ) -> Result<Option<EndRequest>, Lost> {
        for planned in calls {
            let Some(at) = run.calls.waits(&planned.call.id) else { continue };
            if planned.has_expired(self.env.now()) {
                run.log.entries.extend(step::expired(&planned));
                let reason = "approval_expired: nobody decided in time".to_owned();
                set(run, at, CallStage::Denied(reason));
            } else if let Some(decision) = planned.decision {
                set(run, at, CallStage::Announced);
                if let Some(known) = run.calls.get_mut(at) {
                    known.decision = Some(decision);
                }
                let ended = self.examine_once(state, run, at).await?;
                if ended.is_some() {
                    return Ok(ended);
                }
            }
        }
        let asked: Vec<usize> =
            run.batches.iter().flat_map(|batch| batch.calls.iter().copied()).collect();
        for at in asked {
            let ended = self.run_ours(state, run, at).await?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
        self.flush(state, run).await?;
        run.calls.tell_waiters();
        reply_to_batches(run);
        Ok(None)
    }
}
