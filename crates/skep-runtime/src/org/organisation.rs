//! The organisation as its tools know it: the hive that they work in, and what follows from what
//! they do there.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, SetOnce};

use skep_core::Millis;
use skep_core::event::CancelReason;
use skep_store::assign::{Assign, Assigned};
use skep_store::cancel::CancelledTasks;
use skep_store::inbox::EndedTurn;
use skep_store::{Store, StoreError, expiry};

use crate::hive::Shared;

/// The tools of the organisation, made before the hive that they work in.
#[derive(Default)]
pub struct Organisation {
    pub(super) hive: SetOnce<Weak<Shared>>,
    /// When the first thing that has a time is over.
    pub(super) next_over: NextOver,
}

impl Organisation {
    /// The hive; nothing where it has ended.
    pub(super) async fn hive(&self) -> Option<Arc<Shared>> {
        self.hive.wait().await.upgrade()
    }

    /// Gives a task, and sees to what follows from it.
    pub(super) async fn assign(
        &self,
        shared: &Shared,
        assign: Assign,
    ) -> Result<Assigned, StoreError> {
        let over = assign.until.map_or(assign.deadline, |until| until.min(assign.deadline));
        let assigned = shared.store.write(assign).await?;
        if let Assigned::Given { turns, new: true, .. } = &assigned {
            end_turns(shared, turns);
            self.next_over.note(over);
        }
        shared.env().lanes.wake();
        Ok(assigned)
    }
}

fn end_turns(shared: &Shared, turns: &[EndedTurn]) {
    for ended in turns {
        shared.turns.end(ended, CancelReason::Stop);
    }
}

/// Ends the turns of tasks that were ended, and lets others begin.
pub(super) fn follow(shared: &Shared, cancelled: &CancelledTasks) {
    end_turns(shared, &cancelled.turns);
    shared.env().lanes.wake();
}

/// When the first thing that has a time is over: tasks, waits and reminders.
#[derive(Default)]
pub(super) struct NextOver {
    known: AtomicI64,
    sooner: Notify,
}

impl NextOver {
    /// Something is over at this time.
    pub fn note(&self, over: Millis) {
        if self.known.fetch_min(over, Ordering::Relaxed) > over {
            self.sooner.notify_one();
        }
    }

    /// Reads the time again. What is noted meanwhile is not missed.
    pub async fn read(&self, store: &Store) -> Option<Millis> {
        self.known.store(Millis::MAX, Ordering::Relaxed);
        let next = store.read(expiry::next_over).await.ok()??;
        self.known.fetch_min(next, Ordering::Relaxed);
        Some(next)
    }

    /// Returns when something was noted that is over sooner than was known.
    pub async fn sooner(&self) {
        self.sooner.notified().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt;
    use skep_store::OpenOptions;

    use super::*;

    #[tokio::test]
    async fn only_a_time_that_is_sooner_wakes() {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::in_run_folder(folder.path());
        let store = Store::open(options, |_| {}).await.unwrap();
        let next = NextOver::default();
        assert_eq!(next.read(&store).await, None);
        assert!(next.sooner().now_or_never().is_none(), "it was read, and nobody is woken");
        next.note(20);
        assert!(next.sooner().now_or_never().is_some());
        for later in [20, 30] {
            next.note(later);
            assert!(next.sooner().now_or_never().is_none(), "{later}");
        }
        next.note(10);
        assert!(next.sooner().now_or_never().is_some());
    }
}
