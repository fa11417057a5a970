//! How a turn ends: answered, given back for later, parked, or as it was asked to.

use std::sync::Arc;

use skep_core::engine::{FailureCode, RetryCode, RetryInfo, RetryScope, TurnEnd};
use skep_core::event::{CancelReason, EventKind, ItemState};
use skep_core::message::{Body, StopReason};
use skep_core::money::Money;
use skep_core::task_event;
use skep_store::close::{Close, KeptResult, Outcome};
use skep_store::history::NewHistoryRow;
use skep_store::journal::{Entry, NewCall};
use skep_store::leases::Release;
use skep_store::task_views;
use skep_store::waits::Park;

use super::persist::{Joining, Lost};
use super::state::{EndRequest, Turn, TurnState, millis};
use super::step;

impl Turn {
    pub(crate) async fn finish(&self, state: &mut TurnState, end: TurnEnd) -> Result<(), Lost> {
        let said = state.said.take();
        match end {
            TurnEnd::Finished => {
                let text = said.as_ref().map(Body::plain_text).unwrap_or_default();
                let entries = said.map(|body| self.last_step(body, "")).unwrap_or_default();
                self.close(state, entries, Outcome::Answered { text }).await
            }
            TurnEnd::StepLimit => {
                let text = format!(
                    "The turn used its {} model calls (max_steps) and was not done. Write again \
                     to go on, or raise the limit.",
                    self.agent.max_steps
                );
                let entries = said.map(|body| self.last_step(body, "no step was left"));
                let code = FailureCode::LimitSteps;
                let outcome = Outcome::Ended { state: ItemState::Failed, code, text };
                self.close(state, entries.unwrap_or_default(), outcome).await
            }
            TurnEnd::Failed { code, text } => {
                let entries = self.partial(state, StopReason::Error);
                let outcome = Outcome::Ended { state: ItemState::Failed, code, text };
                self.close(state, entries, outcome).await
            }
            TurnEnd::Cancelled => {
                let request = self.end_requested().unwrap_or(EndRequest::Cut);
                let entries = self.last_words(state, said, request);
                self.end(state, request, entries).await
            }
            TurnEnd::Park { until, code, reason } => {
                let retry = RetryInfo {
                    scope: RetryScope::Turn,
                    number: None,
                    of: None,
                    attempt: None,
                    code,
                    next_at: until,
                };
                let park = Park {
                    turn: self.lease.turn.clone(),
                    token: self.lease.token,
                    calls: Vec::new(),
                    approvals: Vec::new(),
                    reason,
                    retries: Some(code),
                    until: Some(until),
                    active_ms: self.active_ms(),
                    now: self.env.now(),
                };
                self.park(state, park).await?;
                self.publish(EventKind::ModelRetry(retry));
                Ok(())
            }
            TurnEnd::StaleSession => {
                let text = "The engine does not know a session it was not asked for.".to_owned();
                self.retry(state, RetryCode::EngineCrashed, text).await
            }
            TurnEnd::Retry { code, text } => self.retry(state, code, text).await,
        }
    }

    /// Back to the inbox for a while, or failed when that was the last attempt.
    pub(crate) async fn retry(
        &self,
        state: &mut TurnState,
        code: RetryCode,
        text: String,
    ) -> Result<(), Lost> {
        let (attempts, of) = (self.attempt(state), self.snapshot.settings.limits.attempts);
        if attempts >= i64::from(of) {
            let entries = self.partial(state, StopReason::Error);
            let code = code.failure();
            let outcome = Outcome::Ended { state: ItemState::Failed, code, text };
            return self.close(state, entries, outcome).await;
        }
        self.write_deferred(state).await?;
        tracing::warn!(agent = %self.agent.name, attempts, text, "a turn is tried again later");
        let next_at = self.env.now() + millis(self.env.retry.requeue);
        let release = Release {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            until: Some(next_at),
            retries: Some((code, text)),
            counts: true,
            active_ms: self.active_ms(),
            now: self.env.now(),
        };
        self.persist(release).await?;
        self.env.lanes.note_due(Some(next_at));
        let number = u32::try_from(attempts + 1).ok();
        let (scope, of, attempt) = (RetryScope::Turn, Some(of), None);
        self.publish(EventKind::ModelRetry(RetryInfo {
            scope,
            number,
            of,
            attempt,
            code,
            next_at,
        }));
        Ok(())
    }

    /// Ends the turn as it was asked to.
    pub(crate) async fn end(
        &self,
        state: &mut TurnState,
        request: EndRequest,
        entries: Vec<Entry>,
    ) -> Result<(), Lost> {
        let (ends_as, code) = match request {
            EndRequest::Cut => {
                let release = Release {
                    turn: self.lease.turn.clone(),
                    token: self.lease.token,
                    until: None,
                    retries: None,
                    counts: false,
                    active_ms: self.active_ms(),
                    now: self.env.now(),
                };
                if !state.deferred.is_empty() {
                    let deferred = self.journal(state, Vec::new(), Joining::Later);
                    self.env.store.write(deferred).await.map_err(|_| Lost::Stopping)?;
                }
                let written = self.env.store.write(release).await;
                return written.map(drop).map_err(|_| Lost::Stopping);
            }
            EndRequest::Cancel(reason) => (ItemState::Cancelled, code_of(reason)),
            EndRequest::Time => (ItemState::Failed, FailureCode::LimitTime),
            EndRequest::Loop => (ItemState::Failed, FailureCode::LimitLoop),
        };
        let text = format!("Not finished: {}.", request.because());
        self.close(state, entries, Outcome::Ended { state: ends_as, code, text }).await
    }

    pub(crate) async fn close(
        &self,
        state: &mut TurnState,
        entries: Vec<Entry>,
        outcome: Outcome,
    ) -> Result<(), Lost> {
        let word = match &outcome {
            Outcome::Answered { .. } => "done",
            Outcome::Ended { state, code, text } => {
                if *state == ItemState::Failed {
                    let (agent, code) = (self.agent.name.as_str(), code.as_str());
                    tracing::warn!(agent, code, text, "a turn failed");
                }
                code.as_str()
            }
        };
        let kept = self.keep_result(&outcome).await;
        let close = Close {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            entries: self.entries(state, entries),
            outcome,
            kept,
            resumed: self.lease.resumed,
            usage: state.usage,
            active_ms: self.active_ms(),
            now: self.env.now(),
        };
        let closed = self.persist(close).await?;
        self.env.session_scopes.end_subagent(&self.lease);
        // The session as it stands with these rows, for its next turn.
        if let Some(mut session) = state.session.take() {
            session.rows.extend(closed.rows.into_iter().map(Arc::new));
            self.env.session_cache.put(self.lease.session.clone(), session);
        }
        for ended in &closed.stopped {
            self.env.lanes.registry.cancel(&ended.turn, CancelReason::Stop);
        }
        self.env.lanes.look_for_more(closed.more);
        self.log_end(state, word);
        Ok(())
    }

    /// A long answer is kept whole for those whose tasks it is the result of, before anybody is
    /// told where.
    async fn keep_result(&self, outcome: &Outcome) -> Vec<KeptResult> {
        let text = match outcome {
            Outcome::Answered { text } if task_event::is_long(text) => text,
            Outcome::Answered { .. } | Outcome::Ended { .. } => return Vec::new(),
        };
        let turn = &self.lease.turn;
        let read = self.env.store.read(async |conn| task_views::givers(conn, turn).await);
        let mut kept = Vec::new();
        for (task, agent, key) in read.await.unwrap_or_default() {
            let text = skep_scrub::known().clean_owned(text.clone());
            if let Some(file) = self.env.gate.keep_result(&task, agent, &key, text).await {
                kept.push(KeptResult { task, file });
            }
        }
        kept
    }

    /// The one line of a turn.
    fn log_end(&self, state: &TurnState, outcome: &str) {
        let usage = state.usage;
        tracing::info!(
            model = self.agent.profile.model,
            steps = self.lease.steps + i64::from(state.steps),
            input_tokens = usage.input,
            output_tokens = usage.output,
            total_tokens = usage.total_tokens,
            cost = usage.cost.map(Money::dollars),
            took_ms = self.active_ms(),
            outcome,
            "turn ended"
        );
    }

    pub(crate) async fn park(&self, state: &mut TurnState, park: Park) -> Result<(), Lost> {
        let until = park.until;
        self.write_deferred(state).await?;
        self.persist(park).await?;
        self.env.lanes.note_due(until);
        Ok(())
    }

    /// A message that ends the turn, with a last word for calls that will not run.
    pub(crate) fn last_step(&self, body: Body, why: &str) -> Vec<Entry> {
        let calls: Vec<_> = step::plan(self, &body).into_iter().map(|p| p.call).collect();
        let planned = calls.iter().map(|call| NewCall {
            id: call.id.clone(),
            tool: call.name.clone(),
            retry_safe: true,
            decision: None,
            own: false,
        });
        let calls_planned = planned.collect();
        let mut entries =
            vec![Entry::Assistant { message: self.said_message(body), calls: calls_planned }];
        entries.extend(calls.iter().map(|call| step::not_run(call, why)));
        entries
    }

    /// What is kept when the turn is cut for good between or inside model calls.
    pub(crate) fn last_words(
        &self,
        state: &TurnState,
        said: Option<Body>,
        request: EndRequest,
    ) -> Vec<Entry> {
        match said {
            Some(body) => self.last_step(body, request.because()),
            None => self.partial(
                state,
                match request {
                    EndRequest::Cancel(CancelReason::Stop | CancelReason::ClientGone) => {
                        StopReason::Cancelled
                    }
                    EndRequest::Cancel(CancelReason::Interrupt) => StopReason::Interrupted,
                    EndRequest::Cut | EndRequest::Time | EndRequest::Loop => StopReason::Error,
                },
            ),
        }
    }

    pub(crate) fn partial(&self, state: &TurnState, reason: StopReason) -> Vec<Entry> {
        let body = self.running.fold().partial(&state.asking, reason);
        let times = self.running.times().cut(self.env.now());
        let entry = body.map(|body| {
            let message = NewHistoryRow { times, ..step::new_message(body) };
            Entry::Assistant { message, calls: Vec::new() }
        });
        entry.into_iter().collect()
    }

    /// The message of a model call that is complete.
    pub(crate) fn said_message(&self, body: Body) -> NewHistoryRow {
        NewHistoryRow { times: self.running.times().take_said(), ..step::new_message(body) }
    }
}

/// What a turn that was asked to end is reported as.
pub(crate) fn code_of(reason: CancelReason) -> FailureCode {
    match reason {
        CancelReason::Stop => FailureCode::Cancelled,
        CancelReason::Interrupt => FailureCode::Interrupted,
        CancelReason::ClientGone => FailureCode::ClientGone,
    }
}
