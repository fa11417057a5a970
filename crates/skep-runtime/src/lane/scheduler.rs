//! The scheduler: while there is a free slot and ready work, take it. Woken by commits and by
//! one timer; it polls nothing.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use skep_core::ids::{SessionId, TurnId};
use skep_guard::{clock, random};
use skep_store::inbox::Slot;
use skep_store::lanes::{self, WakeLanes};
use skep_store::leases::{Admits, Lease, Take};

use crate::hive::Shared;
use crate::lane::slots;
use crate::turn;

/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The wall clock may jump: the timer looks at it at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

pub(crate) async fn run(shared: Arc<Shared>) {
    while !shared.draining.is_cancelled() {
        take_all(&shared).await;
        tokio::select! {
            () = shared.draining.cancelled() => {}
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(until_due(&shared)) => {}
        }
    }
}

/// Takes work until there is none. Only the wait for a slot can be given up: what was taken is
/// always run, or it would look like an attempt that failed.
async fn take_all(shared: &Arc<Shared>) {
    wake_due(shared).await;
    loop {
        let slot = tokio::select! {
            biased;
            () = shared.draining.cancelled() => return,
            slot = shared.slots.any() => slot,
        };
        let Some(slot) = slot else { return };
        shared.unhold().await;
        let given = Arc::default();
        let admits = shared.admits(&given);
        let Some(lease) = take(shared, None, Some(admits)).await else { return };
        let share = given.lock().unwrap_or_else(PoisonError::into_inner).take();
        let slot = slots::Slot::new(slot, share);
        shared.tasks.spawn(turn::run(Arc::clone(shared), lease, Some(slot)));
    }
}

/// Takes the best ready work, or one idle turn.
pub(crate) async fn take(
    shared: &Arc<Shared>,
    only: Option<TurnId>,
    admits: Option<Admits>,
) -> Option<Lease> {
    let command = Take { slot: slot(shared), only, admits, now: clock::now_ms() };
    let outcome = shared.store.write(command).await;
    shared.health.note(&outcome);
    match outcome {
        Ok(lease) => lease.map(|lease| *lease),
        Err(error) => {
            tracing::warn!(%error, "taking work failed; again in a second");
            tokio::time::sleep(PAUSE).await;
            shared.wake.notify_one();
            None
        }
    }
}

/// Ids for a turn that may begin.
pub(crate) fn slot(shared: &Shared) -> Slot {
    let idle = shared.settings().limits.session_idle.as_millis();
    Slot {
        turn: TurnId(random::uuid().to_string()),
        session: SessionId(random::uuid().to_string()),
        idle_ms: i64::try_from(idle).unwrap_or(i64::MAX),
    }
}

/// Makes lanes ready whose time has come, and learns when the next one's will.
async fn wake_due(shared: &Shared) {
    while shared.next_due() <= clock::now_ms() {
        // Set before reading: a time noted meanwhile is earlier than what we find, and stays.
        shared.set_next_due(i64::MAX);
        let woken = shared.store.write(WakeLanes { now: clock::now_ms() }).await;
        let next = shared.store.read(lanes::next_due).await;
        match (woken, next) {
            (Ok(_), Ok(next)) => {
                if let Some(at) = next {
                    shared.note_due(Some(at));
                }
            }
            _ => {
                shared.note_due(Some(clock::now_ms() + 1000));
                return;
            }
        }
    }
}

fn until_due(shared: &Shared) -> Duration {
    let wait = shared.next_due().saturating_sub(clock::now_ms()).max(0);
    Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(LONGEST_SLEEP)
}
