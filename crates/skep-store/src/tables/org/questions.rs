//! Questions: tasks of the operator or of another agent that are ended by an answer, and the
//! answers.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::cause::CallRef;
use skep_core::event::{CancelReason, Event, EventKind};
use skep_core::ids::{AgentId, AgentName, ItemId, Principal, SessionId, SessionKey, TurnId};
use skep_core::question::{AnswerForm, GivenAnswer};
use skep_core::task::{TaskKind, TaskState};

use super::hierarchy::OPERATOR;
use super::results::{self, Task, TaskEnd, kind_of, sender};
use crate::tables::pending;
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args};

pub(super) async fn insert(
    tx: &mut Tx<'_>,
    task: &ItemId,
    form: &AnswerForm,
) -> Result<(), SqlError> {
    let insert = "INSERT INTO questions (task, options, multi) VALUES ($1, $2, $3)";
    let options = json!(form.options).to_string();
    tx.conn.run(insert, &args![task, options, form.multi]).await?;
    Ok(())
}

/// Tells whoever watches the conversation that asks.
pub(super) async fn tell(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    kind: EventKind,
    now: Millis,
) -> Result<(), SqlError> {
    let select = "SELECT a.id, a.name, t.session FROM turns t JOIN agents a ON a.id = t.agent \
                  WHERE t.id = $1";
    let asking: Option<(AgentId, AgentName, SessionId)> =
        tx.conn.find(select, &args![turn]).await?;
    if let Some((agent, name, session)) = asking {
        tx.event(Event::of(agent, &name, now, kind).within(&session, Some(turn)));
    }
    Ok(())
}

/// Something that has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenQuestion {
    pub id: ItemId,
    /// Escalate or Question.
    pub kind: TaskKind,
    pub root: ItemId,
    pub from_agent: AgentName,
    pub from_key: SessionKey,
    pub text: String,
    pub form: AnswerForm,
    pub created_at: Millis,
    pub deadline: Millis,
}

impl Record for OpenQuestion {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.take()?,
            kind: kind_of(&row.take::<String>()?)?,
            root: row.take()?,
            from_agent: row.take()?,
            from_key: row.take()?,
            text: row.take()?,
            form: AnswerForm { options: row.take()?, multi: row.take()? },
            created_at: row.take()?,
            deadline: row.take()?,
        })
    }
}

/// What the operator is asked, oldest first. An agent that is not there any more waits for nothing,
/// and what is to be approved stands among the approvals.
pub async fn of_operator(conn: &mut Conn, most: i64) -> Result<Vec<OpenQuestion>, SqlError> {
    let select = "SELECT t.item, t.kind, t.root, f.name, t.from_key, coalesce(t.body, ''), \
                  coalesce(q.options, '[]'), coalesce(q.multi, 0), t.created_at, t.deadline \
                  FROM tasks t JOIN agents f ON f.id = t.from_agent \
                  LEFT JOIN questions q ON q.task = t.item WHERE t.agent = $1 \
                  AND t.state = 'open' AND t.kind <> 'shape' \
                  AND f.removed_at IS NULL AND f.installed = 1 \
                  ORDER BY t.created_at LIMIT $2";
    conn.list(select, &args![OPERATOR, most]).await
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum Answerer {
    Operator(Principal),
    /// By this call; once more it changes nothing.
    Agent {
        agent: AgentId,
        agent_name: AgentName,
        call: CallRef,
    },
}

/// Ends what was asked. Whoever asked reads the answer as an event.
pub struct AnswerTask {
    pub task: ItemId,
    pub answer: GivenAnswer,
    pub by: Answerer,
    pub now: Millis,
}

/// What is known of a task that is to be answered.
type Asked = (AgentId, String, Option<String>, bool);

impl Run for AnswerTask {
    /// A lane has work.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let select = "SELECT t.agent, t.state, q.answered_call, \
                      f.removed_at IS NULL AND f.installed = 1 FROM tasks t \
                      JOIN agents f ON f.id = t.from_agent \
                      LEFT JOIN questions q ON q.task = t.item WHERE t.item = $1 \
                      AND (t.kind = 'question' OR t.agent = $2) AND t.kind <> 'shape'";
        let asked: Option<Asked> = tx.conn.find(select, &args![self.task, OPERATOR]).await?;
        let asked = asked.filter(|(agent, ..)| *agent == self.target());
        let Some((_, state, answered_call, waits)) = asked else {
            return Err(Refusal::not_found(format!("question {} to {}", self.task, self.name())));
        };
        if let (Some(before), Some(now)) = (&answered_call, self.call())
            && *before == now
        {
            return Ok(false);
        }
        let Some(task) = Task::open(tx.conn, &self.task).await? else {
            let detail = format!("the question {} is {state} already", self.task);
            return Err(Refusal::conflict("already_ended", detail));
        };
        if !waits {
            let detail = "the agent that asked is not there any more";
            return Err(Refusal::conflict("withdrawn", detail));
        }
        let text = self.form(tx.conn).await?.read(&self.answer);
        let text = text.map_err(|why| Refusal::conflict("invalid_answer", why))?;
        self.record(tx).await?;
        // Whoever answers it before it was read need not read it any more.
        pending::end(tx, &self.task, CancelReason::Stop, self.now).await?;
        let (state, code, text, now) = (TaskState::Done, None, text.as_str(), self.now);
        results::end(tx, &task, &TaskEnd { state, code, text, file: None, now }).await
    }

    fn cost(&self) -> usize {
        self.answer.size() + 1024
    }
}

impl AnswerTask {
    /// Whom it has to have been asked.
    fn target(&self) -> AgentId {
        match &self.by {
            Answerer::Operator(_) => OPERATOR,
            Answerer::Agent { agent, .. } => *agent,
        }
    }

    fn name(&self) -> &str {
        match &self.by {
            Answerer::Operator(_) => "the operator",
            Answerer::Agent { agent_name, .. } => agent_name.as_str(),
        }
    }

    fn call(&self) -> Option<String> {
        match &self.by {
            Answerer::Operator(_) => None,
            Answerer::Agent { call, .. } => Some(format!("{}/{}", call.turn, call.call)),
        }
    }

    async fn form(&self, conn: &mut Conn) -> Result<AnswerForm, SqlError> {
        let select = "SELECT options, multi FROM questions WHERE task = $1";
        let form: Option<(Vec<String>, bool)> = conn.find(select, &args![self.task]).await?;
        Ok(form.map_or_else(AnswerForm::default, |(options, multi)| AnswerForm { options, multi }))
    }

    /// Who answered, in every place that asks for it later.
    async fn record(&self, tx: &mut Tx<'_>) -> Result<(), SqlError> {
        let by = match &self.by {
            Answerer::Operator(principal) => principal.clone(),
            Answerer::Agent { agent_name, .. } => sender(agent_name),
        };
        let update = "UPDATE tasks SET answered_by = $2 WHERE item = $1";
        tx.conn.run(update, &args![self.task, by]).await?;
        let update = "UPDATE questions SET answered_call = $2 WHERE task = $1";
        tx.conn.run(update, &args![self.task, self.call()]).await?;
        let what = json!({ "task": self.task });
        tx.audit(AuditRow::change("task_answered", Some(&by.0), &what, self.now)).await
    }
}
