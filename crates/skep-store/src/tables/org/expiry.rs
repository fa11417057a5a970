//! What waits for a time: calls for the answer of a task, tasks for their end, reminders.

use std::collections::BTreeSet;

use skep_core::Millis;
use skep_core::event::CancelReason;
use skep_core::ids::{CallId, ItemId, TurnId};
use skep_core::task::{TaskKind, TaskState};
use skep_core::task_event::EXPIRED;

use super::cancel::{self, CancelledTasks};
use super::results::{self, Task, TaskEnd};
use super::{reminders, shape, waits};
use crate::tables::pending;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args};

/// So that one command never holds the writer long; the timer comes again.
const AT_ONCE: i64 = 100;

/// Ends waits and tasks whose time is over, and reminds.
#[derive(Clone)]
pub struct ExpireTasks {
    pub now: Millis,
}

impl Run for ExpireTasks {
    type Out = CancelledTasks;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mut ended = CancelledTasks::default();
        self.end_waits(tx, &mut ended).await?;
        for task in Task::overdue(tx.conn, self.now, AT_ONCE).await? {
            if task.kind == TaskKind::Shape {
                shape::expire(tx, &task, self.now).await?;
                (ended.tasks, ended.woke) = (ended.tasks + 1, true);
                continue;
            }
            cancel::tree(tx, &task, self.now, &mut ended).await?;
            let text = match task.kind {
                TaskKind::Question => EXPIRED,
                _ => "It did not end in time (limits.task_hours).",
            };
            let (state, code, now) = (TaskState::Failed, Some(EXPIRED), self.now);
            ended.woke |=
                results::end(tx, &task, &TaskEnd { state, code, text, file: None, now }).await?;
            ended.tasks += 1;
        }
        ended.woke |= reminders::fire(tx, self.now, AT_ONCE).await?;
        Ok(ended)
    }
}

impl ExpireTasks {
    /// What nobody has begun is taken back; what runs goes on, and its end comes as an event.
    async fn end_waits(&self, tx: &mut Tx<'_>, ended: &mut CancelledTasks) -> Result<(), Refusal> {
        let over = "SELECT turn, call, task FROM waits WHERE until <= $1 ORDER BY until LIMIT $2";
        let over: Vec<(TurnId, CallId, ItemId)> =
            tx.conn.list(over, &args![self.now, AT_ONCE]).await?;
        let mut calls = BTreeSet::new();
        for (turn, call, id) in over {
            if waits::is_receiver(&id) {
                ended.woke |= waits::expire_receiver(tx, &turn, &call, self.now).await?;
                continue;
            }
            waits::end(tx, &id).await?;
            calls.insert((turn, call));
            let begun = "SELECT started_at IS NOT NULL FROM items WHERE id = $1";
            let begun: Option<bool> = tx.conn.find(begun, &args![id]).await?;
            let Some(task) = Task::open(tx.conn, &id).await?.filter(|_| begun == Some(false))
            else {
                continue;
            };
            pending::end(tx, &id, CancelReason::Stop, self.now).await?;
            let (state, code, now) = (TaskState::Cancelled, Some("timeout"), self.now);
            let text = "Nobody had begun it in time.";
            results::mark_ended(tx, &task, &TaskEnd { state, code, text, file: None, now }).await?;
            ended.tasks += 1;
        }
        for (turn, call) in calls {
            ended.woke |= waits::settle(tx, &turn, &call, self.now).await?;
        }
        Ok(())
    }
}

/// When the next wait or task is over, or somebody is to be reminded.
pub async fn next_over(conn: &mut Conn) -> Result<Option<Millis>, SqlError> {
    let wait = "SELECT until FROM waits WHERE until > 0 ORDER BY until LIMIT 1";
    let task = "SELECT deadline FROM tasks WHERE deadline > 0 AND state = 'open' \
                ORDER BY deadline LIMIT 1";
    let wait: Option<Millis> = conn.find(wait, &[]).await?;
    let task: Option<Millis> = conn.find(task, &[]).await?;
    Ok(wait.into_iter().chain(task).chain(reminders::next(conn).await?).min())
}
