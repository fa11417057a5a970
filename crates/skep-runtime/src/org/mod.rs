//! What agents do with each other: the tools, and the times that tasks and queries have.

mod arguments;
mod by_people;
mod completed;
mod delegate;
mod leftovers;
mod making;
mod manage;
mod query;
mod removing;
mod shutdown_team;
mod spawn_team;
mod team_status;
mod team_tool;
mod tool;
mod update_team;
mod upward;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, SetOnce};

use skep_core::event::CancelReason;
use skep_core::ids::ItemId;
use skep_core::tool::Tool;
use skep_guard::clock;
use skep_store::StoreError;
use skep_store::assign::{Assign, Assigned};
use skep_store::cancel::{CancelTask, CancelledTasks};
use skep_store::expiry::{self, ExpireTasks};
use skep_store::inbox::EndedTurn;

use crate::door::DoorError;
use crate::hive::{Hive, Shared, door_error};
use team_tool::TeamTool;
use tool::OrgTool;

/// Looked at from time to time whatever the clock does.
const LONGEST: Duration = Duration::from_secs(600);
/// Before a write that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The tools of the organisation, made before the hive that they work in.
#[derive(Default)]
pub struct Organisation {
    hive: SetOnce<Weak<Shared>>,
    /// Something has a time that was not known.
    changed: Notify,
}

impl Organisation {
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let tasks = OrgTool::all(self).into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        let teams = TeamTool::all(self).into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        tasks.chain(teams).collect()
    }

    /// The hive; nothing where it has ended.
    async fn hive(&self) -> Option<Arc<Shared>> {
        self.hive.wait().await.upgrade()
    }

    /// Gives a task, and sees to what follows from it.
    async fn assign(&self, shared: &Shared, assign: Assign) -> Result<Assigned, StoreError> {
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

fn follow(shared: &Shared, cancelled: &CancelledTasks) {
    end_turns(shared, &cancelled.turns);
    shared.env().lanes.wake();
}

impl Hive {
    /// From now on its agents work together. What a process before this one left half done is
    /// brought to an end first; the files of the home can be changed by then.
    pub async fn organise(&self, organisation: &Arc<Organisation>) {
        if leftovers::end(&self.shared).await.is_err() {
            leftovers::try_later(&self.shared);
        }
        // A second hive would be a mistake of the program; the first one stays.
        let _ = organisation.hive.set(Arc::downgrade(&self.shared));
        let keeping = keep_time(Arc::clone(&self.shared), Arc::clone(organisation));
        self.shared.tasks.spawn(keeping);
    }

    /// Ends a task, or every task that an item led to, and what was given in their course.
    pub async fn cancel_tasks(&self, item: &ItemId) -> Result<usize, DoorError> {
        let command = CancelTask { item: item.clone(), now: clock::now_ms() };
        let cancelled = self.shared.store.write(command).await.map_err(door_error)?;
        follow(&self.shared, &cancelled);
        Ok(cancelled.tasks)
    }
}

/// Ends what has a time, at its time.
async fn keep_time(shared: Arc<Shared>, organisation: Arc<Organisation>) {
    loop {
        let mut pause = LONGEST;
        if let Ok(Some(next)) = shared.store.read(expiry::next_over).await {
            let left = next.saturating_sub(clock::now_ms());
            pause = Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LONGEST);
        }
        if pause.is_zero() {
            match shared.store.write(ExpireTasks { now: clock::now_ms() }).await {
                Ok(over) => {
                    follow(&shared, &over);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "tasks whose time is over stay open for now");
                    pause = AFTER_FAILURE;
                }
            }
        }
        tokio::select! {
            () = shared.env().stop.draining.cancelled() => return,
            () = organisation.changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
