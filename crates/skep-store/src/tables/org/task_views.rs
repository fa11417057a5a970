//! Tasks as people and agents read them.

use skep_core::Millis;
use skep_core::event::ItemState;
use skep_core::ids::{AgentId, AgentName, ItemId, Principal, SessionKey, TurnId};
use skep_core::task::{TaskKind, TaskState};

use super::results::{self, kind_of};
use skep_db::{Columns, Conn, Record, SqlError, args};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub id: ItemId,
    pub root: ItemId,
    pub parent_task: Option<ItemId>,
    /// [`OPERATOR`](super::assign::OPERATOR) where the operator is asked.
    pub agent: AgentId,
    pub agent_name: AgentName,
    /// Where it is worked at; empty where the operator is asked.
    pub session_key: SessionKey,
    pub from_agent: AgentName,
    pub from_key: SessionKey,
    pub kind: TaskKind,
    pub state: TaskState,
    /// Of its item, where it has one.
    pub item_state: ItemState,
    /// What was given in its course and has not ended.
    pub open: i64,
    pub hops: i64,
    /// Who is behind its chain.
    pub origin: Principal,
    pub body: String,
    pub result: Option<String>,
    pub code: Option<String>,
    pub created_at: Millis,
    pub started_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub deadline: Millis,
}

impl Record for TaskRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.take()?,
            root: row.take()?,
            parent_task: row.take()?,
            agent: row.take()?,
            agent_name: row.take()?,
            session_key: row.take()?,
            from_agent: row.take()?,
            from_key: row.take()?,
            kind: kind_of(&row.take::<String>()?)?,
            state: state_of(&row.take::<String>()?)?,
            item_state: row.take()?,
            open: row.take()?,
            hops: row.take()?,
            origin: row.take()?,
            body: row.take()?,
            result: row.take()?,
            code: row.take()?,
            created_at: row.take()?,
            started_at: row.take()?,
            ended_at: row.take()?,
            deadline: row.take()?,
        })
    }
}

fn state_of(word: &str) -> Result<TaskState, SqlError> {
    TaskState::parse(word).ok_or_else(|| SqlError::decode("a state of a task is not known"))
}

macro_rules! select_rows {
    ($which:literal) => {
        concat!(
            "SELECT t.item, t.root, t.parent_task, t.agent, coalesce(a.name, 'operator'), ",
            "coalesce(l.key, ''), f.name, t.from_key, t.kind, t.state, ",
            "coalesce(i.state, CASE t.state WHEN 'open' THEN 'waiting' ELSE t.state END), ",
            "t.open, coalesce(i.hops, 0), coalesce(i.origin_principal, i.principal, ''), ",
            "coalesce(t.body, i.body, ''), t.result, t.code, t.created_at, ",
            "i.started_at, t.ended_at, t.deadline FROM tasks t ",
            "LEFT JOIN agents a ON a.id = t.agent JOIN agents f ON f.id = t.from_agent ",
            "LEFT JOIN items i ON i.id = t.item LEFT JOIN lanes l ON l.id = i.lane ",
            $which
        )
    };
}

pub async fn task(conn: &mut Conn, id: &ItemId) -> Result<Option<TaskRow>, SqlError> {
    conn.find(select_rows!("WHERE t.item = $1"), &args![id]).await
}

/// Every task of a chain, in the order they were given.
pub async fn of_root(conn: &mut Conn, root: &ItemId) -> Result<Vec<TaskRow>, SqlError> {
    conn.list(select_rows!("WHERE t.root = $1 ORDER BY t.created_at"), &args![root]).await
}

/// What an agent has to do and has not ended, oldest first.
pub async fn in_flight(
    conn: &mut Conn,
    agent: AgentId,
    most: i64,
) -> Result<Vec<TaskRow>, SqlError> {
    let select =
        select_rows!("WHERE t.agent = $1 AND t.state = 'open' ORDER BY t.created_at LIMIT $2");
    conn.list(select, &args![agent, most]).await
}

/// Of those, what it was given from above; what comes from below does not keep it busy.
pub async fn assigned(
    conn: &mut Conn,
    agent: AgentId,
    most: i64,
) -> Result<Vec<TaskRow>, SqlError> {
    let select = select_rows!(
        "WHERE t.agent = $1 AND t.state = 'open' AND t.kind IN ('delegate', 'query') \
         ORDER BY t.created_at LIMIT $2"
    );
    conn.list(select, &args![agent, most]).await
}

/// What an agent has ended since a time for one who is behind it, newest first.
pub async fn ended(
    conn: &mut Conn,
    agent: AgentId,
    origin: &Principal,
    since: Millis,
    most: i64,
) -> Result<Vec<TaskRow>, SqlError> {
    let select = select_rows!(
        "WHERE t.agent = $1 AND t.ended_at IS NOT NULL AND t.ended_at >= $2 \
         AND t.kind <> 'subagent' \
         AND coalesce(i.origin_principal, i.principal, '') = $3 ORDER BY t.ended_at DESC LIMIT $4"
    );
    conn.list(select, &args![agent, since, origin, most]).await
}

/// The agents directly below one.
pub async fn children(
    conn: &mut Conn,
    parent: AgentId,
) -> Result<Vec<(AgentId, AgentName)>, SqlError> {
    let select = "SELECT id, name FROM agents WHERE parent_id = $1 AND removed_at IS NULL \
                  ORDER BY name";
    conn.list(select, &args![parent]).await
}

/// Who hears what the turn comes to: its tasks, with the agents and the sessions that gave them.
pub async fn givers(
    conn: &mut Conn,
    turn: &TurnId,
) -> Result<Vec<(ItemId, AgentId, SessionKey)>, SqlError> {
    let mut givers = Vec::new();
    for task in results::worked_at(conn, turn).await? {
        let select = "SELECT item, from_agent, from_key FROM tasks WHERE item = $1";
        givers.extend(conn.find(select, &args![task]).await?);
    }
    Ok(givers)
}

/// The root of the chain that an item belongs to.
pub async fn root_of(conn: &mut Conn, item: &ItemId) -> Result<Option<ItemId>, SqlError> {
    let select = "SELECT coalesce(chain_root, id) FROM items WHERE id = $1";
    conn.find(select, &args![item]).await
}
