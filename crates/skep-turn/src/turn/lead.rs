//! One turn, from its lease to its end. Orchestrates: the engine speaks, the fold keeps, the
//! journal records, the step runs calls, the close tells.

use std::sync::Arc;

use tracing::Instrument;

use skep_core::cause::{Cause, Slash};
use skep_core::choice::{self, DEFAULT_WORD};
use skep_core::settings::{AgentSettings, HiveSettings};
use skep_store::lanes::Chosen;
use skep_store::leases::{Lease, Release};

use super::brake;
use super::env::TurnEnv;
use super::own_loop::OwnRun;
use super::persist::Lost;
use super::resume;
use super::state::{Turn, TurnState};
use super::step::{self, StepEnd};
use crate::lane::Slot;

/// Runs a lease to its end. Never fails: whatever goes wrong becomes the turn's outcome, or the
/// turn stays open for the next lease.
pub async fn run(env: Arc<TurnEnv>, lease: Lease, slot: Option<Slot>) {
    let (turn, token) = (lease.turn.clone(), lease.token);
    // Around every line of the log that belongs to the turn.
    let span = tracing::info_span!(
        "turn", agent = %lease.agent_name, session = %lease.session, turn = %lease.turn
    );
    tracing::debug!(parent: &span, resumed = lease.resumed, "turn begins");
    // A task of its own, so that a panic ends this turn's lease and nothing else.
    let task = tokio::spawn(lead(Arc::clone(&env), lease.clone()).instrument(span.clone()));
    let ended = task.await;
    end_jobs_of_gone(&env, &lease);
    let lost = match ended {
        Ok(Ok(())) => None,
        Ok(Err(Lost::Stale | Lost::Stopping)) => None,
        Ok(Err(Lost::Refused(why))) => Some(why),
        Err(panic) => Some(panic.to_string()),
    };
    if let Some(why) = lost {
        tracing::error!(parent: &span, why, "a turn broke; it goes on with its next lease");
        let until = Some(env.now() + 1000);
        let release = Release {
            turn: turn.clone(),
            token,
            until,
            retries: None,
            counts: true,
            active_ms: lease.active_ms,
            now: env.now(),
        };
        let _ = env.persist(&env.stop.cut, release).await;
        env.lanes.note_due(until);
    }
    env.lanes.registry.remove(&turn, token);
    env.ledger.end(&turn);
    drop(slot);
}

/// A call may be past the policy when its agent goes away; what it started ends with the turn.
fn end_jobs_of_gone(env: &TurnEnv, lease: &Lease) {
    if env.snapshot.current().agent(lease.agent, &lease.agent_name).is_err() {
        env.session_scopes.keep(|agent| agent != lease.agent);
    }
}

pub(super) async fn lead(env: Arc<TurnEnv>, lease: Lease) -> Result<(), Lost> {
    let Some(running) = env.lanes.registry.get(&lease.turn) else {
        return Err(Lost::Stale);
    };
    let parked = match lease.resumed {
        true => env.processes.take(&lease.turn).await,
        false => None,
    };
    let snapshot = env.snapshot.current();
    let agent = match snapshot
        .agent(lease.agent, &lease.agent_name)
        .and_then(|agent| as_chosen(agent, &lease.chosen, &snapshot.settings))
        .and_then(|agent| agent.in_role(lease.options.subagent.as_deref()))
    {
        Ok(agent) => agent,
        Err(reason) => {
            if let Some(go_on) = parked {
                go_on(None).await?;
            }
            return resume::close_unable(&env, &lease, &reason).await;
        }
    };
    env.session_scopes.begin(lease.agent, &running.session_key, &lease.session);
    if lease.more {
        running.note_arrival();
    }
    if let Some(go_on) = parked {
        return go_on(Some((lease, running))).await;
    }
    let mut state = TurnState::new(&agent);
    Turn::new(env, lease, snapshot, agent, running).go(&mut state, None).await
}

/// The agent as this lane wants it. A profile that is gone is not replaced: nobody chose another.
fn as_chosen(
    agent: Arc<AgentSettings>,
    chosen: &Chosen,
    settings: &HiveSettings,
) -> Result<Arc<AgentSettings>, String> {
    if *chosen == Chosen::default() {
        return Ok(agent);
    }
    let profile = match &chosen.profile {
        None => Arc::clone(&agent.profile),
        Some(wanted) => choice::chosen(wanted, &agent, settings).map_err(|why| {
            format!("`/model {wanted}` was chosen here. {why} Or send `/model {DEFAULT_WORD}`.")
        })?,
    };
    let think = chosen.think.or(agent.think);
    Ok(Arc::new(AgentSettings { profile, think, ..AgentSettings::clone(&agent) }))
}

impl Turn {
    /// `parked` is the engine, where it kept its process while the turn waited.
    pub(super) async fn go(
        &self,
        state: &mut TurnState,
        parked: Option<OwnRun>,
    ) -> Result<(), Lost> {
        let mut parked = parked.map(|run| (run, Vec::new()));
        let mut context = self.read_context(state).await?;
        state.usage = self.usage_so_far(&context.rows);
        self.env.ledger.begin(&self.lease.turn, &state.usage);
        if self.lease.resumed {
            state.brake = brake::of_rows(&context.rows, self);
            let open = self.open_calls(&context.rows).await?;
            if open.is_none() {
                self.charge_lost_call(&context).await?;
            }
            if let Some(ending) = self.ending_at_once() {
                if let Some((run, _)) = parked {
                    run.end(&self.ender).await;
                }
                return self.close_open_calls(state, ending, open).await;
            }
            if let Some((_, waiting)) = &mut parked {
                *waiting = open.unwrap_or_default();
            } else if let Some(calls) = open {
                let end = match calls.iter().any(|call| call.own) {
                    true => self.close_engine_calls(state, calls).await?,
                    false => Box::pin(step::run(self, state, None, calls)).await?,
                };
                match end {
                    StepEnd::Parked => return Ok(()),
                    StepEnd::Ended { request, open } => {
                        return self.end(state, request, open).await;
                    }
                    StepEnd::Done(_) => context = self.read_context(state).await?,
                }
            }
        }
        if let Some(over) = self.run_own_call(state, &mut context).await? {
            return Ok(over);
        }
        let own = context.rows.iter().filter(|row| row.turn == self.lease.turn);
        let call_ids = own.flat_map(|row| row.body.tool_calls().map(|(id, ..)| id.clone()));
        state.call_ids = call_ids.collect();
        match &self.lease.cause {
            Cause::Command(Slash::Compact { keep }) => {
                self.compact_as_asked(state, context, keep.as_deref()).await
            }
            _ => self.converse(state, context, parked).await,
        }
    }
}
