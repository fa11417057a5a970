//! Cancelling a task ends everything that was given in its course.

use skep_core::Millis;
use skep_core::event::{CancelReason, TurnState};
use skep_core::ids::{ItemId, TurnId};
use skep_core::task::{TaskKind, TaskState};

use super::results::{self, Task, TaskEnd};
use super::waits;
use crate::tables::inbox::EndedTurn;
use crate::tables::leases::request_cancel;
use crate::tables::pending;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args};

const CANCELLED: &str = "cancelled";

/// Ends a task, or every task that one request led to.
#[derive(Clone)]
pub struct CancelTask {
    /// Of a task, or the first of a chain.
    pub item: ItemId,
    pub now: Millis,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CancelledTasks {
    /// How many tasks were ended.
    pub tasks: usize,
    /// Turns that were asked to end: the caller ends them.
    pub turns: Vec<EndedTurn>,
    /// A lane has work.
    pub woke: bool,
}

impl Run for CancelTask {
    type Out = CancelledTasks;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mut cancelled = CancelledTasks::default();
        let tops = match Task::open(tx.conn, &self.item).await? {
            Some(task) => vec![task],
            None => Task::of_root(tx.conn, &self.item).await?,
        };
        if tops.is_empty() {
            return Err(self.why_not(tx).await?);
        }
        for task in tops {
            tree(tx, &task, self.now, &mut cancelled).await?;
            let end = told(self.now);
            cancelled.woke |= results::end(tx, &task, &end).await?;
            cancelled.tasks += 1;
        }
        Ok(cancelled)
    }
}

impl CancelTask {
    async fn why_not(&self, tx: &mut Tx<'_>) -> Result<Refusal, SqlError> {
        let select = "SELECT state FROM tasks WHERE item = $1";
        let state: Option<String> = tx.conn.find(select, &args![self.item]).await?;
        Ok(match state {
            None => Refusal::not_found(format!("open task {}", self.item)),
            Some(state) => {
                let detail = format!("the task {} is {state} already", self.item);
                Refusal::conflict("already_ended", detail)
            }
        })
    }
}

/// The item of a task was taken out of the inbox before anybody began it.
pub(crate) async fn unbegun(tx: &mut Tx<'_>, item: &ItemId, now: Millis) -> Result<(), Refusal> {
    if let Some(task) = Task::open(tx.conn, item).await? {
        results::end(tx, &task, &told(now)).await?;
    }
    Ok(())
}

fn told<'a>(now: Millis) -> TaskEnd<'a> {
    let (state, text) = (TaskState::Cancelled, "It was cancelled.");
    TaskEnd { state, code: Some(CANCELLED), text, file: None, now }
}

/// Ends what was given in the course of a task that ends. Whoever gave it is not told: it ends too.
pub(crate) async fn within(
    tx: &mut Tx<'_>,
    task: &ItemId,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    for below in Task::within(tx.conn, task).await? {
        silently(tx, &below, now, cancelled).await?;
    }
    Ok(())
}

/// Ends what a turn gave that was stopped.
pub(crate) async fn of_turn(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    for task in Task::of_turn(tx.conn, turn).await? {
        silently(tx, &task, now, cancelled).await?;
    }
    Ok(())
}

/// Ends the subagents of a turn that has ended, however it did: their answers are its own.
pub(crate) async fn subagents_of(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    for task in Task::of_turn(tx.conn, turn).await? {
        if task.kind == TaskKind::Subagent {
            silently(tx, &task, now, cancelled).await?;
        }
    }
    Ok(())
}

/// Ends a task that nobody wants any more. Whoever gave it is not told.
pub(crate) async fn silently(
    tx: &mut Tx<'_>,
    task: &Task,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    tree(tx, task, now, cancelled).await?;
    results::mark_ended(tx, task, &told(now)).await?;
    waits::end(tx, &task.item).await?;
    cancelled.tasks += 1;
    Ok(())
}

/// Ends the work at a task and everything below it. The task itself is the caller's.
pub(crate) async fn tree(
    tx: &mut Tx<'_>,
    task: &Task,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    end_work(tx, task, now, cancelled).await?;
    let mut below = Task::within(tx.conn, &task.item).await?;
    while let Some(next) = below.pop() {
        end_work(tx, &next, now, cancelled).await?;
        below.extend(Task::within(tx.conn, &next.item).await?);
        results::mark_ended(tx, &next, &told(now)).await?;
        waits::end(tx, &next.item).await?;
        cancelled.tasks += 1;
    }
    Ok(())
}

/// Takes its items out of the inbox, and asks the turn to end that works at it.
async fn end_work(
    tx: &mut Tx<'_>,
    task: &Task,
    now: Millis,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    for item in pending_of(tx.conn, task).await? {
        pending::end(tx, &item, CancelReason::Stop, now).await?;
    }
    let open = "SELECT t.id, t.state FROM turns t WHERE t.lane = $1 AND t.ended_at IS NULL \
                AND EXISTS (SELECT 1 FROM items i LEFT JOIN tasks c ON c.item = i.correlation \
                WHERE i.turn = t.id AND (i.id = $2 \
                OR i.kind IN ('event', 'approved') AND c.parent_task = $2 \
                OR i.kind = 'continue' AND i.correlation = $2))";
    let open: Option<(TurnId, TurnState)> =
        tx.conn.find(open, &args![task.lane, task.item]).await?;
    if let Some((turn, state)) = open {
        request_cancel(tx, &turn, CancelReason::Stop, now).await?;
        cancelled.turns.push(EndedTurn { turn, idle: state != TurnState::Running });
    }
    Ok(())
}

/// Its items that nobody has begun.
async fn pending_of(conn: &mut Conn, task: &Task) -> Result<Vec<ItemId>, SqlError> {
    let select = "SELECT i.id FROM items i LEFT JOIN tasks c ON c.item = i.correlation \
                  WHERE i.lane = $1 AND i.state = 'pending' AND i.turn IS NULL \
                  AND (i.id = $2 OR i.kind IN ('event', 'approved') AND c.parent_task = $2 \
                  OR i.kind = 'continue' AND i.correlation = $2)";
    conn.list(select, &args![task.lane, task.item]).await
}
