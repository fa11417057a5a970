//! What agents do with each other: the tools, and the times that tasks and queries have.

mod arguments;
mod ask;
mod by_people;
mod completed;
pub(crate) mod delegate;
mod leftovers;
mod letters;
mod making;
mod manage;
mod organisation;
mod peer_tools;
pub(crate) mod query;
mod reminders;
mod removing;
mod shutdown_team;
mod skills;
mod spawn_team;
mod task_tools;
mod team_status;
mod team_tools;
mod threads;
pub(crate) mod tool;
mod update_team;
mod upward;

use std::sync::Arc;
use std::time::Duration;

use skep_core::ids::ItemId;
use skep_core::tool::Tool;
use skep_guard::clock;
use skep_store::cancel::CancelTask;
use skep_store::expiry::ExpireTasks;

use crate::door::DoorError;
use crate::hive::{Hive, Shared, door_error};
pub use organisation::Organisation;
use organisation::follow;
use tool::OrgTool;

/// Looked at from time to time whatever the clock does.
const LONGEST: Duration = Duration::from_secs(600);
/// Before a write that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

impl Organisation {
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        all_tools().map(|tool| tool.offered_by(self)).collect()
    }

    /// What configuration files may name of them.
    pub fn tool_names() -> impl Iterator<Item = String> {
        all_tools().map(|tool| tool.name().to_owned())
    }

    /// Their other names, which models alone use.
    pub fn aliases() -> impl Iterator<Item = String> {
        all_tools().flat_map(|tool| tool.aliases()).map(|alias| (*alias).to_owned())
    }
}

fn all_tools() -> impl Iterator<Item = OrgTool> {
    let all = [task_tools::all(), peer_tools::all(), team_tools::all(), skills::all()];
    all.into_iter().flatten()
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
        if let Some(next) = organisation.next_over.read(&shared.store).await {
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
            () = organisation.next_over.sooner() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
