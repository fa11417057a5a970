//! The end of a task: its result reaches whoever gave it, and what that one works at may end.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::event::{EventKind, ItemState};
use skep_core::ids::{AgentId, AgentName, ItemId, LaneId, Principal, SessionKey, TurnId};
use skep_core::task::{QuestionEnd, TaskKind, TaskState};
use skep_core::task_event::{self, TaskEvent};

use super::cancel::{self, CancelledTasks};
use super::chain::{self, ChainPlace};
use super::new_item::NewItem;
use super::{questions, shape, waits};
use crate::tables::inbox::NORMAL;
use skep_db::{Columns, Conn, Record, Refusal, SqlError, Tx, args};

/// Who does what an agent without one above it asks for. No agent has such a name.
const OPERATOR: &str = "the operator";

/// A task as commands find it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub item: ItemId,
    pub root: ItemId,
    pub parent_task: Option<ItemId>,
    /// Who does it; nobody: the operator.
    pub agent_name: Option<AgentName>,
    pub from_agent: AgentId,
    pub from_key: SessionKey,
    pub from_turn: TurnId,
    pub kind: TaskKind,
    /// What was given in its course and has not ended.
    pub open: i64,
    pub created_at: Millis,
    pub body: String,
    pub lane: LaneId,
}

impl Record for Task {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            item: row.take()?,
            root: row.take()?,
            parent_task: row.take()?,
            agent_name: row.take()?,
            from_agent: row.take()?,
            from_key: row.take()?,
            from_turn: row.take()?,
            kind: kind_of(&row.take::<String>()?)?,
            open: row.take()?,
            created_at: row.take()?,
            body: row.take()?,
            lane: row.take()?,
        })
    }
}

pub(crate) fn kind_of(word: &str) -> Result<TaskKind, SqlError> {
    TaskKind::parse(word).ok_or_else(|| SqlError::decode("a kind of task is not known"))
}

macro_rules! select_tasks {
    ($which:literal) => {
        concat!(
            "SELECT t.item, t.root, t.parent_task, a.name, t.from_agent, t.from_key, t.from_turn, ",
            "t.kind, t.open, t.created_at, coalesce(t.body, i.body, ''), coalesce(i.lane, 0) ",
            "FROM tasks t LEFT JOIN agents a ON a.id = t.agent ",
            "LEFT JOIN items i ON i.id = t.item ",
            $which
        )
    };
}

impl Task {
    /// Who does it, in words.
    fn worker(&self) -> &str {
        self.agent_name.as_ref().map_or(OPERATOR, AgentName::as_str)
    }

    /// Somebody was told of it as a question. What is to be approved stands among the approvals.
    fn is_asked(&self) -> bool {
        match self.kind {
            TaskKind::Question => true,
            TaskKind::Shape => false,
            TaskKind::Delegate
            | TaskKind::Query
            | TaskKind::Escalate
            | TaskKind::HandUp
            | TaskKind::Subagent => self.agent_name.is_none(),
        }
    }

    /// Where it has not ended.
    pub async fn open(conn: &mut Conn, item: &ItemId) -> Result<Option<Self>, SqlError> {
        let select = select_tasks!("WHERE t.item = $1 AND t.state = 'open'");
        conn.find(select, &args![item]).await
    }

    /// Those given in its course that have not ended.
    pub async fn within(conn: &mut Conn, task: &ItemId) -> Result<Vec<Self>, SqlError> {
        conn.list(select_tasks!("WHERE t.parent_task = $1 AND t.state = 'open'"), &args![task])
            .await
    }

    /// Those that a turn gave and that have not ended.
    pub async fn of_turn(conn: &mut Conn, turn: &TurnId) -> Result<Vec<Self>, SqlError> {
        conn.list(select_tasks!("WHERE t.from_turn = $1 AND t.state = 'open'"), &args![turn]).await
    }

    /// Those of a chain that have not ended and belong to no other task.
    pub async fn of_root(conn: &mut Conn, root: &ItemId) -> Result<Vec<Self>, SqlError> {
        let select =
            select_tasks!("WHERE t.root = $1 AND t.parent_task IS NULL AND t.state = 'open'");
        conn.list(select, &args![root]).await
    }

    /// Those that an agent has to do and has not ended, so many at a time.
    pub async fn of_worker(
        conn: &mut Conn,
        agent: AgentId,
        most: i64,
    ) -> Result<Vec<Self>, SqlError> {
        let select =
            select_tasks!("WHERE t.agent = $1 AND t.state = 'open' ORDER BY t.created_at LIMIT $2");
        conn.list(select, &args![agent, most]).await
    }

    /// Those that an agent gave and that have not ended, so many at a time.
    pub async fn of_giver(
        conn: &mut Conn,
        agent: AgentId,
        most: i64,
    ) -> Result<Vec<Self>, SqlError> {
        let select = select_tasks!("WHERE t.from_agent = $1 AND t.state = 'open' LIMIT $2");
        conn.list(select, &args![agent, most]).await
    }

    /// Those whose time is over.
    pub async fn overdue(conn: &mut Conn, now: Millis, most: i64) -> Result<Vec<Self>, SqlError> {
        let select = select_tasks!(
            "WHERE t.deadline <= $1 AND t.state = 'open' ORDER BY t.deadline LIMIT $2"
        );
        conn.list(select, &args![now, most]).await
    }
}

/// How a task ends.
pub(crate) struct TaskEnd<'a> {
    pub state: TaskState,
    pub code: Option<&'a str>,
    pub text: &'a str,
    /// Where a long text is kept whole.
    pub file: Option<&'a str>,
    pub now: Millis,
}

/// The whole text of a long result, where whoever gave the task can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    pub task: ItemId,
    pub file: String,
}

/// A turn that has ended, as far as tasks go.
pub(crate) struct TurnResult<'a> {
    pub turn: &'a TurnId,
    pub lane: LaneId,
    pub agent_name: &'a AgentName,
    pub state: ItemState,
    pub code: Option<&'a str>,
    /// What it said, or why it said nothing.
    pub text: &'a str,
    pub kept: &'a [KeptResult],
    /// It was there for what came back alone: events, messages, reminders.
    pub comes_back: bool,
    pub now: Millis,
}

/// Ends the tasks that a turn worked at and that wait for nothing more, and answers whoever is
/// behind the chain.
pub(crate) async fn of_turn(
    tx: &mut Tx<'_>,
    turn: &TurnResult<'_>,
    cancelled: &mut CancelledTasks,
) -> Result<(), Refusal> {
    for id in worked_at(tx.conn, turn.turn).await? {
        let Some(task) = Task::open(tx.conn, &id).await? else { continue };
        let (text, code, now) = (turn.text, turn.code, turn.now);
        let state = match turn.state {
            ItemState::Done => TaskState::Done,
            ItemState::Cancelled => TaskState::Cancelled,
            _ => TaskState::Failed,
        };
        // What is asked is answered by a tool alone; a turn that says nothing may come back to it.
        if task.kind == TaskKind::Question && state == TaskState::Done {
            continue;
        }
        if state == TaskState::Cancelled {
            cancel::within(tx, &id, now, cancelled).await?;
        } else if task.open > 0 || awaits_event(tx.conn, turn.lane, &id).await? {
            continue;
        }
        let kept = turn.kept.iter().find(|kept| kept.task == id);
        let file = kept.map(|kept| kept.file.as_str());
        cancelled.woke |= end(tx, &task, &TaskEnd { state, code, text, file, now }).await?;
    }
    if turn.comes_back {
        answer_origin(tx, turn).await?;
    }
    Ok(())
}

/// What the items of a turn belong to: each task once, and items that are none.
pub(crate) async fn worked_at(conn: &mut Conn, turn: &TurnId) -> Result<Vec<ItemId>, SqlError> {
    let select = "SELECT CASE WHEN i.kind IN ('event', 'approved') \
                  THEN (SELECT c.parent_task FROM tasks c WHERE c.item = i.correlation) \
                  WHEN i.kind = 'continue' THEN i.correlation ELSE i.id END \
                  FROM items i WHERE i.turn = $1 ORDER BY i.ord";
    let mut tasks: Vec<ItemId> = Vec::new();
    for task in conn.list::<Option<ItemId>>(select, &args![turn]).await?.into_iter().flatten() {
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// The end of something given in its course is on its way to the task, or a turn that goes on
/// with it.
async fn awaits_event(conn: &mut Conn, lane: LaneId, task: &ItemId) -> Result<bool, SqlError> {
    let select = "SELECT 1 FROM items i LEFT JOIN tasks c ON c.item = i.correlation \
                  WHERE i.lane = $1 AND i.state = 'pending' AND i.turn IS NULL \
                  AND (i.kind IN ('event', 'approved') AND c.parent_task = $2 \
                  OR i.kind = 'continue' AND i.correlation = $2) LIMIT 1";
    Ok(conn.find::<i64>(select, &args![lane, task]).await?.is_some())
}

/// Ends a task and tells whoever gave it. One that has ended before keeps its end. True: a lane
/// has work.
pub(crate) async fn end(tx: &mut Tx<'_>, task: &Task, end: &TaskEnd<'_>) -> Result<bool, Refusal> {
    if !mark_ended(tx, task, end).await? {
        return Ok(false);
    }
    if let Some((turn, call)) = waits::end(tx, &task.item).await? {
        return waits::settle(tx, &turn, &call, end.now).await;
    }
    // What a subagent comes to is the answer of its call and nothing else.
    if !task.kind.is_awaited() || task.kind == TaskKind::Subagent {
        return Ok(false);
    }
    tell_giver(tx, task, end).await
}

/// Writes the end of a task, once. Nobody is told.
pub(crate) async fn mark_ended(
    tx: &mut Tx<'_>,
    task: &Task,
    end: &TaskEnd<'_>,
) -> Result<bool, SqlError> {
    let result = task_event::bounded(end.text, task.worker(), end.file);
    let update = "UPDATE tasks SET state = $2, code = $3, result = $4, ended_at = $5 \
                  WHERE item = $1 AND state = 'open'";
    let state = end.state.as_str();
    let args = args![task.item, state, end.code, result, end.now];
    if tx.conn.run(update, &args).await? == 0 {
        return Ok(false);
    }
    if task.is_asked() {
        let state = match end.state {
            TaskState::Open | TaskState::Done => QuestionEnd::Answered,
            TaskState::Cancelled => QuestionEnd::Withdrawn,
            TaskState::Failed if end.code == Some(task_event::EXPIRED) => QuestionEnd::Expired,
            TaskState::Failed => QuestionEnd::Failed,
        };
        let kind = EventKind::QuestionEnded { question: task.item.clone(), state };
        questions::tell(tx, &task.from_turn, kind, end.now).await?;
    }
    if let (Some(parent), true) = (&task.parent_task, task.kind.is_awaited()) {
        let less = "UPDATE tasks SET open = open - 1 WHERE item = $1";
        tx.conn.run(less, &args![parent]).await?;
    }
    shape::close(tx, task, end).await?;
    Ok(true)
}

async fn tell_giver(tx: &mut Tx<'_>, task: &Task, end: &TaskEnd<'_>) -> Result<bool, Refusal> {
    let name = "SELECT name FROM agents WHERE id = $1 AND removed_at IS NULL";
    let name: Option<AgentName> = tx.conn.find(name, &args![task.from_agent]).await?;
    let place = match task.agent_name {
        Some(_) => ChainPlace::of_item(tx.conn, &task.item).await?.map(ChainPlace::back),
        None => ChainPlace::of_turn(tx.conn, &task.from_turn).await?,
    };
    let (Some(agent_name), Some(place)) = (name, place) else { return Ok(false) };
    let counts = "SELECT coalesce(sum(state = 'open'), 0), count(*) FROM tasks \
                  WHERE root = $1 AND from_agent = $2 AND from_key = $3 \
                  AND kind <> 'hand_up' AND kind <> 'shape'";
    let args = args![task.root, task.from_agent, task.from_key];
    let (open, all) = tx.conn.one(counts, &args, "a sum has a row").await?;
    let body = TaskEvent {
        task: task.item.as_str(),
        kind: task.kind,
        team: task.agent_name.as_ref().map(AgentName::as_str),
        code: end.code,
        state: end.state,
        took_ms: end.now - task.created_at,
        open,
        all,
        body: &task.body,
        result: &task_event::bounded(end.text, task.worker(), end.file),
    };
    let event = NewItem {
        id: &ItemId(format!("{}.end", task.item)),
        agent: task.from_agent,
        agent_name: &agent_name,
        key: &task.from_key,
        cause: Cause::Event,
        options: ItemOptions::default(),
        priority: NORMAL,
        principal: task.agent_name.as_ref().map_or_else(|| Principal::new("operator"), sender),
        body: &body.text(),
        place: &place,
        hops: place.hops,
        correlation: Some(task.item.as_str()),
        dedup: &format!("result:{}", task.item),
        now: end.now,
    };
    let woke = event.insert(tx).await?;
    if let (Some(team), None) = (&task.agent_name, &task.parent_task)
        && end.state != TaskState::Cancelled
        && task.kind != TaskKind::Question
    {
        let word = if end.state == TaskState::Done { "done" } else { "failed" };
        let payload = json!({
            "content": format!("{team}: task {word}"),
            "status": format!("task_{word}"), "task": task.item, "root": task.root,
            "agent": agent_name, "team": team, "took_ms": end.now - task.created_at,
        });
        chain::notify(tx, &place, format!("{}.status", task.item), payload, end.now).await?;
    }
    Ok(woke)
}

/// Whom an item of an agent is from.
pub(crate) fn sender(agent: &AgentName) -> Principal {
    Principal(format!("agent:{agent}"))
}

/// The text of a turn that was there for what came back alone, in the conversation that the chain
/// began in, where nothing of it is open any more: whoever is behind it has their answer.
async fn answer_origin(tx: &mut Tx<'_>, turn: &TurnResult<'_>) -> Result<(), Refusal> {
    let Some(place) = ChainPlace::of_turn(tx.conn, turn.turn).await? else { return Ok(()) };
    if place.task.is_some() || turn.state == ItemState::Cancelled || turn.text.trim().is_empty() {
        return Ok(());
    }
    let open = "SELECT 1 FROM tasks WHERE root = $1 AND state = 'open' LIMIT 1";
    let pending = "SELECT 1 FROM items WHERE lane = $1 AND state = 'pending' AND turn IS NULL \
                   AND kind IN ('event', 'approved', 'peer', 'continue') AND chain_root = $2 \
                   LIMIT 1";
    let began = "SELECT message_id FROM items WHERE id = $1 AND lane = $2";
    let message: Option<String> = tx.conn.find(began, &args![place.root, turn.lane]).await?;
    let Some(message) = message else { return Ok(()) };
    if tx.conn.find::<i64>(open, &args![place.root]).await?.is_some()
        || tx.conn.find::<i64>(pending, &args![turn.lane, place.root]).await?.is_some()
    {
        return Ok(());
    }
    let payload = json!({
        "content": turn.text, "code": turn.code, "agent": turn.agent_name, "turn": turn.turn,
        "root": place.root, "about": message,
    });
    chain::notify(tx, &place, format!("{}.end", turn.turn), payload, turn.now).await
}
