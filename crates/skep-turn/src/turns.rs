//! The turns of a hive: begun, taken by the scheduler, ended.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use skep_core::event::CancelReason;
use skep_store::inbox::EndedTurn;
use skep_store::leases::Lease;

use crate::lane::Slot;
use crate::turn::{self, TurnEnv};

/// A cloneable handle. Every turn it begins is a task of `tasks`.
#[derive(Clone)]
pub struct Turns {
    env: Arc<TurnEnv>,
    tasks: TaskTracker,
}

impl Turns {
    pub fn new(env: TurnEnv, tasks: TaskTracker) -> Self {
        Self { env: Arc::new(env), tasks }
    }

    pub fn env(&self) -> &TurnEnv {
        &self.env
    }

    /// Runs a lease that was taken.
    pub fn begin(&self, lease: Lease, slot: Option<Slot>) {
        self.tasks.spawn(turn::run(Arc::clone(&self.env), lease, slot));
    }

    /// Runs work that is ready, until the hive drains.
    pub async fn schedule(self) {
        let begin = |lease, slot| self.begin(lease, Some(slot));
        self.env.lanes.schedule(&self.env.stop.draining, begin).await;
    }

    /// Keeps the leases of what runs, until the hive ends.
    pub async fn keep_leases(self) {
        self.env.lanes.keep_leases(&self.env.stop.cut_hard).await;
    }

    /// Ends a turn whose wish to end is on record: by its task, or here when none runs it. An idle
    /// turn needs no slot for that.
    pub fn end(&self, ended: &EndedTurn, reason: CancelReason) {
        if self.env.lanes.registry.cancel(&ended.turn, reason) || !ended.idle {
            return;
        }
        let (env, turn) = (Arc::clone(&self.env), ended.turn.clone());
        self.tasks.spawn(async move {
            if let Some(lease) = env.lanes.take(Some(turn), None).await {
                turn::run(env, lease, None).await;
            }
        });
    }
}
