//! What became of turns: those that failed, were cancelled, or are about to be tried again.

use skep_core::engine::{FailureCode, RetryInfo, RetryScope};
use skep_core::ids::TurnId;
use skep_store::watch::{RetryRow, TurnOutcomeRow};

use crate::door::{TurnOutcome, TurnOutcomeState};
use crate::hive::Hive;

impl Hive {
    /// The pause a turn is in, inside a lease or between two.
    pub(crate) fn retry_of(&self, turn: &TurnId, row: &RetryRow) -> Option<RetryInfo> {
        let between = row.code.zip(row.at).map(|(code, next_at)| {
            // The vendor's own time is waited for without counting.
            let counts = row.attempts > 0;
            let number = u32::try_from(row.attempts + 1).ok().filter(|_| counts);
            let of = counts.then_some(self.shared.settings().limits.attempts);
            RetryInfo { scope: RetryScope::Turn, number, of, attempt: None, code, next_at }
        });
        let running = || self.shared.env().lanes.registry.get(turn)?.backs_off();
        between.or_else(|| running().map(|pause| pause.retry))
    }

    /// Nothing for a turn that is at work, or waits for something else than another try.
    pub(crate) fn outcome_of(&self, row: TurnOutcomeRow) -> Option<TurnOutcome> {
        let retry = self.retry_of(&row.turn, &row.retries).filter(|_| row.ended_at.is_none());
        let state = match (row.ended_at, row.code.as_deref().map(FailureCode::parse)) {
            (None, _) => retry.map(|_| TurnOutcomeState::Retrying)?,
            (Some(_), None) => TurnOutcomeState::Empty,
            (Some(_), Some(Some(code))) if code.is_cancel() => TurnOutcomeState::Cancelled,
            (Some(_), Some(_)) => TurnOutcomeState::Failed,
        };
        let running = || self.shared.env().lanes.registry.get(&row.turn)?.backs_off();
        Some(TurnOutcome {
            code: row.code.or_else(|| Some(retry?.code.as_str().to_owned())),
            error: row.error.or_else(|| running().map(|pause| pause.error)),
            item: row.item,
            turn: row.turn,
            seq: row.seq,
            state,
            started_at: row.started_at,
            ended_at: row.ended_at,
            steps: row.steps,
            tools_run: row.tools_run,
            retried_as: row.retried_as,
            retry,
        })
    }
}
