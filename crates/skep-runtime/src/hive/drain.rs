//! The end of a process, and of old rows.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use skep_guard::clock;
use skep_store::approvals::{self, ExpireReopened};
use skep_store::retention::Expire;
use skep_store::waits::Decide;

use skep_core::decision::Decision;
use skep_core::ids::{CallId, TurnId};
use skep_core::spend::{self, DAY_MS};

use super::{Hive, Shared, door_error};
use crate::door::DoorError;

/// Before a write that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// Once turns are cut the process ends within five seconds, also on a disk that hangs: this much
/// for everything here, the rest for the doors.
const END: Duration = Duration::from_millis(4400);
/// Of it, turns that were cut have this long to give back their lease.
const CUT: Duration = Duration::from_millis(3800);
/// What comes after a phase that took all of its time still gets this.
const LEAST: Duration = Duration::from_millis(300);
/// Clients that take their last frames slowly do not keep the store open beyond this.
const GOODBYE: Duration = Duration::from_millis(500);
/// Ids can be sent again for this long after their message ended.
const KEEP_IDS: Duration = Duration::from_secs(7 * 24 * 3600);
/// A file that nobody refers to any more stays this long.
const KEEP_FILES: Duration = Duration::from_secs(24 * 3600);
const EXPIRE_EVERY: Duration = Duration::from_secs(600);

impl Hive {
    /// Stops in order: no new turns; running ones have the drain time, are then cut and stay in
    /// the inbox; the store is closed. `at_once` cancels the drain time.
    pub async fn drain(self, at_once: impl Future<Output = ()>) {
        let shared = Arc::clone(&self.shared);
        let (stop, slots) = (&shared.env().stop, &shared.env().lanes.slots);
        stop.draining.cancel();
        let limits = shared.settings().limits.clone();
        shared.tasks.close();
        let all = limits.concurrent_turns;
        tokio::select! {
            () = slots.idle(all) => {}
            () = tokio::time::sleep(limits.drain) => {}
            () = at_once => {}
        }
        stop.cut.cancel();
        let end = Instant::now() + END;
        if tokio::time::timeout(CUT, slots.idle(all)).await.is_err() {
            tracing::warn!("some turns did not end in time; they go on after the next start");
        }
        stop.cut_hard.cancel();
        if tokio::time::timeout(LEAST, shared.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
        shared.goodbyes.close();
        let left = end.saturating_duration_since(Instant::now()).max(LEAST);
        if tokio::time::timeout(left.min(GOODBYE), shared.goodbyes.wait()).await.is_err() {
            tracing::info!("some clients hear the rest when they come back");
        }
        let left = end.saturating_duration_since(Instant::now()).max(LEAST);
        shared.store.clone().close_within(left).await;
    }

    /// Commits a decision on a waiting call; its turn goes on.
    pub async fn decide(
        &self,
        turn: &TurnId,
        call: &CallId,
        value: serde_json::Value,
    ) -> Result<(), DoorError> {
        let (turn, call, now) = (turn.clone(), call.clone(), clock::now_ms());
        let command = Decide { turn, call, decision: Decision::Tool(value), now };
        self.shared.store.write(command).await.map_err(door_error)?;
        self.shared.env().lanes.wake();
        Ok(())
    }
}

/// The audit trail is cut once a day, so that it does not fill with the rows that tell of it.
fn whole_day(before: skep_core::Millis) -> skep_core::Millis {
    spend::next_day(before) - DAY_MS
}

/// Reopened questions end at their time; those of waiting turns end with their wait.
pub(crate) async fn expire_questions(shared: Arc<Shared>) {
    loop {
        // Looked at from time to time whatever the clock does.
        let mut pause = EXPIRE_EVERY;
        if let Ok(Some(next)) = shared.store.read(approvals::next_over).await {
            let left = next.saturating_sub(clock::now_ms());
            pause = Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(EXPIRE_EVERY);
        }
        if pause.is_zero() {
            let over = ExpireReopened { now: clock::now_ms() };
            match shared.store.write(over).await {
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "questions whose time is over stay open for now");
                    pause = AFTER_FAILURE;
                }
            }
        }
        tokio::select! {
            () = shared.env().stop.draining.cancelled() => return,
            () = shared.approvals.reopened.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Lets old rows go, in bites between which everything else has its turn.
pub(crate) async fn expire(shared: Arc<Shared>) {
    let before = |age: Duration| {
        clock::now_ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
    };
    let mut tick = tokio::time::interval(EXPIRE_EVERY);
    // The first tick is at once; a start has better things to do.
    tick.tick().await;
    loop {
        tokio::select! {
            () = shared.env().stop.draining.cancelled() => return,
            _ = tick.tick() => {}
        }
        let mut frames_after = Some(String::new());
        while let Some(after) = frames_after {
            let settings = shared.settings();
            let limits = &settings.limits;
            let command = Expire {
                events_before: before(limits.keep_events),
                frames_before: before(limits.keep_frames),
                frames_after: after,
                ids_before: before(KEEP_IDS),
                files_before: before(KEEP_FILES),
                audit_before: whole_day(before(limits.keep_audit)),
                now: clock::now_ms(),
            };
            frames_after = shared.store.write(command).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "old rows could not be let go");
                None
            });
            tokio::task::yield_now().await;
        }
    }
}
