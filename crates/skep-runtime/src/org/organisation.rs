//! The organisation as its tools know it: the hive that they work in, and what follows from what
//! they do there.

use std::sync::{Arc, Weak};

use tokio::sync::{Notify, SetOnce};

use skep_core::event::CancelReason;
use skep_store::StoreError;
use skep_store::assign::{Assign, Assigned};
use skep_store::cancel::CancelledTasks;
use skep_store::inbox::EndedTurn;

use crate::hive::Shared;

/// The tools of the organisation, made before the hive that they work in.
#[derive(Default)]
pub struct Organisation {
    pub(super) hive: SetOnce<Weak<Shared>>,
    /// Something has a time that was not known.
    pub(super) changed: Notify,
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
        let assigned = shared.store.write(assign).await?;
        if let Assigned::Given { turns, new: true, .. } = &assigned {
            end_turns(shared, turns);
            self.changed.notify_one();
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
