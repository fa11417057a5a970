//! How a turn ends: answered, given back for later, parked, or as it was asked to.

use std::sync::atomic::Ordering;

use skep_core::engine::{FailureCode, TurnEnd};
use skep_core::event::{CancelReason, ItemState};
use skep_core::message::{Body, StopReason, Usage};
use skep_core::money::Money;
use skep_guard::clock;
use skep_store::close::{Close, Outcome};
use skep_store::journal::{Entry, NewCall};
use skep_store::leases::{Park, Release};

use crate::turn::persist::Lost;
use crate::turn::step::{self, Steer};
use crate::turn::{Heard, Turn, millis};

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

impl Turn {
    pub(crate) async fn finish(&self, end: TurnEnd, heard: &mut Heard) -> Result<(), Lost> {
        let (said, usage) = (heard.said.take(), heard.usage);
        let partial = |reason| self.partial(reason);
        match end {
            TurnEnd::Finished => {
                let text = said.as_ref().map(Body::plain_text).unwrap_or_default();
                let entries = said.map(|body| self.last_step(body, "")).unwrap_or_default();
                self.close(entries, Outcome::Answered { text }, usage).await
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
                self.close(entries.unwrap_or_default(), outcome, usage).await
            }
            TurnEnd::Failed { code, text } => {
                let entries = partial(StopReason::Error);
                let outcome = Outcome::Ended { state: ItemState::Failed, code, text };
                self.close(entries, outcome, usage).await
            }
            TurnEnd::Cancelled => {
                let request = self.end_requested().unwrap_or(EndRequest::Cut);
                self.end(request, self.last_words(said, request), usage).await
            }
            TurnEnd::Park { until, reason } => {
                let park = Park {
                    turn: self.lease.turn.clone(),
                    token: self.lease.token,
                    calls: Vec::new(),
                    approvals: Vec::new(),
                    reason,
                    until: Some(until),
                    active_ms: self.active_ms(),
                    now: clock::now_ms(),
                };
                self.park(park).await
            }
            TurnEnd::Retry { text } => {
                self.retry(FailureCode::ProviderUnavailable, text, usage).await
            }
        }
    }

    /// Back to the inbox for a while, or failed when that was the last attempt.
    pub(crate) async fn retry(
        &self,
        code: FailureCode,
        text: String,
        usage: Usage,
    ) -> Result<(), Lost> {
        let release = Release {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            until: Some(clock::now_ms() + millis(self.shared.retry.requeue)),
            counts: true,
            active_ms: self.active_ms(),
            now: clock::now_ms(),
        };
        let before = if self.progressed.load(Ordering::Relaxed) { 0 } else { self.lease.attempts };
        let attempts = before + 1;
        if attempts >= i64::from(self.settings.limits.attempts) {
            let entries = self.partial(StopReason::Error);
            let outcome = Outcome::Ended { state: ItemState::Failed, code, text };
            return self.close(entries, outcome, usage).await;
        }
        self.write_deferred().await?;
        tracing::info!(attempts, text, "turn goes back to the inbox");
        let until = release.until;
        self.persist_any(release).await?;
        self.shared.note_due(until);
        Ok(())
    }

    /// Ends the turn as it was asked to.
    pub(crate) async fn end(
        &self,
        request: EndRequest,
        entries: Vec<Entry>,
        usage: Usage,
    ) -> Result<(), Lost> {
        let (state, code) = match request {
            EndRequest::Cut => {
                let release = Release {
                    turn: self.lease.turn.clone(),
                    token: self.lease.token,
                    until: None,
                    counts: false,
                    active_ms: self.active_ms(),
                    now: clock::now_ms(),
                };
                if self.deferred_until().is_some() {
                    let held = self.journal(Vec::new(), Steer::No);
                    self.shared.store.write(held).await.map_err(|_| Lost::Stopping)?;
                }
                let written = self.shared.store.write(release).await;
                return written.map(drop).map_err(|_| Lost::Stopping);
            }
            EndRequest::Cancel(reason) => (ItemState::Cancelled, code_of(reason)),
            EndRequest::Time => (ItemState::Failed, FailureCode::LimitTime),
            EndRequest::Loop => (ItemState::Failed, FailureCode::LimitLoop),
        };
        let text = format!("Not finished: {}.", request.because());
        self.close(entries, Outcome::Ended { state, code, text }, usage).await
    }

    pub(crate) async fn close(
        &self,
        entries: Vec<Entry>,
        outcome: Outcome,
        usage: Usage,
    ) -> Result<(), Lost> {
        let word = match &outcome {
            Outcome::Answered { .. } => "done",
            Outcome::Ended { code, .. } => code.as_str(),
        };
        let close = Close {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            entries: self.with_deferred(self.with_notes(entries)),
            outcome,
            resumed: self.lease.resumed,
            usage,
            active_ms: self.active_ms(),
            now: clock::now_ms(),
        };
        let closed = self.persist_any(close).await?;
        self.cache_session(closed.rows);
        self.shared.look_for_more(closed.more);
        self.log_end(word, usage);
        Ok(())
    }

    /// The one line of a turn.
    fn log_end(&self, outcome: &str, usage: Usage) {
        tracing::info!(
            model = self.agent.profile.model,
            steps = self.lease.steps + self.answers.load(Ordering::Relaxed),
            input_tokens = usage.input,
            output_tokens = usage.output,
            total_tokens = usage.total_tokens,
            cost = usage.cost.map(Money::dollars),
            took_ms = self.active_ms(),
            outcome,
            "turn ended"
        );
    }

    pub(crate) async fn park(&self, park: Park) -> Result<(), Lost> {
        let until = park.until;
        self.write_deferred().await?;
        self.persist_any(park).await?;
        self.shared.note_due(until);
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
        });
        let calls_planned = planned.collect();
        let mut entries =
            vec![Entry::Assistant { message: step::new_message(body), calls: calls_planned }];
        entries.extend(calls.iter().map(|call| step::not_run(call, why)));
        entries
    }

    /// What is kept when the turn is cut for good between or inside model calls.
    pub(crate) fn last_words(&self, said: Option<Body>, request: EndRequest) -> Vec<Entry> {
        match said {
            Some(body) => self.last_step(body, request.because()),
            None => self.partial(match request {
                EndRequest::Cancel(CancelReason::Stop | CancelReason::ClientGone) => {
                    StopReason::Cancelled
                }
                EndRequest::Cancel(CancelReason::Interrupt) => StopReason::Interrupted,
                EndRequest::Cut | EndRequest::Time | EndRequest::Loop => StopReason::Error,
            }),
        }
    }

    pub(crate) fn partial(&self, reason: StopReason) -> Vec<Entry> {
        let profile = self.asking();
        let body = self.running.fold().partial(&profile, reason);
        let entry = body
            .map(|body| Entry::Assistant { message: step::new_message(body), calls: Vec::new() });
        entry.into_iter().collect()
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
