//! What an agent has begun in a conversation and what has not ended, as it may look at it and end
//! it.

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName, ItemId, SessionKey};
use skep_core::task::TaskKind;

use super::cancel::{self, CancelledTasks};
use super::results::{Task, kind_of};
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args, record};

/// Of one kind.
const SHOWN: i64 = 100;

/// A task or a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTask {
    pub id: ItemId,
    pub kind: TaskKind,
    /// Who is to do it, or has asked.
    pub agent: AgentName,
    pub body: String,
    pub created_at: Millis,
    pub deadline: Millis,
}

impl Record for OpenTask {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.take()?,
            kind: kind_of(&row.take::<String>()?)?,
            agent: row.take()?,
            body: row.take()?,
            created_at: row.take()?,
            deadline: row.take()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReminder {
    pub id: ItemId,
    pub body: String,
    pub at: Millis,
}

record!(PendingReminder { id, body, at });

/// What is open in a conversation of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenThreads {
    /// What it has given or asked.
    pub given: Vec<OpenTask>,
    /// What others ask it.
    pub asked: Vec<OpenTask>,
    pub reminders: Vec<PendingReminder>,
    /// Messages that wait.
    pub messages: i64,
}

pub async fn of_session(
    conn: &mut Conn,
    agent: AgentId,
    key: &SessionKey,
) -> Result<OpenThreads, SqlError> {
    let given = "SELECT t.item, t.kind, coalesce(a.name, 'operator'), \
                 coalesce(t.body, i.body, ''), t.created_at, t.deadline FROM tasks t \
                 LEFT JOIN agents a ON a.id = t.agent LEFT JOIN items i ON i.id = t.item \
                 WHERE t.from_agent = $1 AND t.from_key = $2 AND t.state = 'open' \
                 ORDER BY t.created_at LIMIT $3";
    let asked = "SELECT t.item, t.kind, f.name, coalesce(t.body, ''), t.created_at, t.deadline \
                 FROM tasks t JOIN agents f ON f.id = t.from_agent \
                 JOIN items i ON i.id = t.item JOIN lanes l ON l.id = i.lane \
                 WHERE t.agent = $1 AND t.state = 'open' AND t.kind = 'question' AND l.key = $2 \
                 ORDER BY t.created_at LIMIT $3";
    let reminders = "SELECT id, body, at FROM reminders WHERE agent = $1 AND key = $2 \
                     ORDER BY at LIMIT $3";
    let messages = "SELECT count(*) FROM lanes l JOIN items i ON i.lane = l.id \
                    AND i.state = 'pending' AND i.turn IS NULL AND i.kind = 'peer' \
                    WHERE l.agent = $1 AND l.key = $2";
    let args = args![agent, key, SHOWN];
    Ok(OpenThreads {
        given: conn.list(given, &args).await?,
        asked: conn.list(asked, &args).await?,
        reminders: conn.list(reminders, &args).await?,
        messages: conn.one(messages, &args[..2], "a count has a row").await?,
    })
}

/// Ends a task, a question or a reminder that an agent has begun in this conversation.
#[derive(Clone)]
pub struct CancelThread {
    pub agent: AgentId,
    pub key: SessionKey,
    pub id: ItemId,
    pub now: Millis,
}

impl Run for CancelThread {
    type Out = CancelledTasks;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mut cancelled = CancelledTasks::default();
        let reminder = "DELETE FROM reminders WHERE id = $1 AND agent = $2 AND key = $3";
        if tx.conn.run(reminder, &args![self.id, self.agent, self.key]).await? > 0 {
            cancelled.tasks = 1;
            return Ok(cancelled);
        }
        let state = "SELECT state FROM tasks WHERE item = $1 AND from_agent = $2 AND from_key = $3";
        let state: Option<String> =
            tx.conn.find(state, &args![self.id, self.agent, self.key]).await?;
        let state = state.ok_or_else(|| Refusal::not_found(format!("thread {}", self.id)))?;
        // Whoever ends it need not be told.
        match Task::open(tx.conn, &self.id).await? {
            Some(task) => cancel::silently(tx, &task, self.now, &mut cancelled).await?,
            None if state == "cancelled" => {}
            None => {
                let detail = format!("{} is {state} already", self.id);
                return Err(Refusal::conflict("already_ended", detail));
            }
        }
        Ok(cancelled)
    }
}
