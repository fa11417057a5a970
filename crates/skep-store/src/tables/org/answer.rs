//! What operators answer to agents that have none above them.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::{ItemId, Principal};
use skep_core::task::{TaskKind, TaskState};

use super::assign::OPERATOR;
use super::results::{self, Task, TaskEnd};
use skep_db::{Refusal, Run, SqlError, Tx, args};

/// Ends a task of the operator. Whoever gave it reads the answer as an event.
pub struct AnswerTask {
    pub task: ItemId,
    pub answer: String,
    pub by: Principal,
    pub now: Millis,
}

impl Run for AnswerTask {
    /// A lane has work.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let open = Task::open(tx.conn, &self.task).await?;
        let asked = |task: &Task| task.agent_name.is_none() && task.kind != TaskKind::Shape;
        let Some(task) = open.filter(asked) else {
            return Err(self.why_not(tx).await?);
        };
        let by = "UPDATE tasks SET answered_by = $2 WHERE item = $1";
        tx.conn.run(by, &args![self.task, self.by]).await?;
        let what = json!({ "task": self.task });
        tx.audit(AuditRow::change("task_answered", Some(&self.by.0), &what, self.now)).await?;
        let (state, code, text, now) = (TaskState::Done, None, self.answer.as_str(), self.now);
        results::end(tx, &task, &TaskEnd { state, code, text, file: None, now }).await
    }

    fn cost(&self) -> usize {
        self.answer.len() + 1024
    }
}

impl AnswerTask {
    async fn why_not(&self, tx: &mut Tx<'_>) -> Result<Refusal, SqlError> {
        let select = "SELECT state FROM tasks WHERE item = $1 AND agent = $2";
        let state: Option<String> = tx.conn.find(select, &args![self.task, OPERATOR]).await?;
        Ok(match state {
            None => Refusal::not_found(format!("question {} to the operator", self.task)),
            Some(state) => {
                let detail = format!("the question {} is {state} already", self.task);
                Refusal::conflict("already_ended", detail)
            }
        })
    }
}
