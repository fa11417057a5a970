//! Agents: their rows and the counters on them, and how often each may still ask which host.

use std::collections::HashMap;

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::bucket::{Bucket, FILLS_IN};
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, TurnId};
use skep_core::settings::Wanted;
use skep_db::{Addition, Cell, Columns, Conn, Record, Refusal, Run, SqlError, Tx, args, record};

use crate::tables::lanes;

/// Gives every agent a row; those that have one keep it, also while they are not among these.
/// A change of status becomes an event.
pub struct RegisterAgents {
    pub agents: Vec<NewAgent>,
    pub now: Millis,
}

pub struct NewAgent {
    pub name: AgentName,
    /// Why it cannot run, when it cannot.
    pub failed: Option<String>,
    /// Whose team it belongs to; one that has no row counts as none.
    pub parent: Option<AgentName>,
    /// One turn at a time, in whatever session.
    pub parallel_one: bool,
}

impl NewAgent {
    /// A root of the tree that can run.
    pub fn root(name: AgentName) -> Self {
        Self { name, failed: None, parent: None, parallel_one: false }
    }
}

impl Run for RegisterAgents {
    type Out = Vec<(AgentName, AgentId)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let living = "SELECT name, id, wanted, installed, failure, parent_id, parallel_one \
                      FROM agents WHERE removed_at IS NULL";
        let known: Vec<(String, Found)> = tx.conn.list(living, &[]).await?;
        let mut known: HashMap<_, _> = known.into_iter().collect();
        let mut rows = Vec::with_capacity(self.agents.len());
        for agent in &self.agents {
            let found = known.remove(agent.name.as_str());
            rows.push((agent, settle(tx, found, agent, self.now).await?));
        }
        for (name, found) in known {
            withdraw(tx, &AgentName(name), found, self.now).await?;
        }
        let ids: HashMap<&str, AgentId> =
            rows.iter().map(|(agent, row)| (agent.name.as_str(), row.id)).collect();
        for (agent, row) in &rows {
            let parent = agent.parent.as_ref().and_then(|name| ids.get(name.as_str()).copied());
            place(tx, row, parent, agent.parallel_one).await?;
        }
        Ok(rows.into_iter().map(|(agent, row)| (agent.name.clone(), row.id)).collect())
    }
}

/// Gives some agents their rows, and notes that others are gone. Nobody else is looked at.
pub struct InstallAgents {
    pub agents: Vec<NewAgent>,
    /// Those that the settings do not name any more.
    pub gone: Vec<AgentName>,
    pub now: Millis,
}

impl Run for InstallAgents {
    type Out = Vec<(AgentName, AgentId)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let living = "SELECT id, wanted, installed, failure, parent_id, parallel_one FROM agents \
                      WHERE name = $1 AND removed_at IS NULL";
        let mut rows = Vec::with_capacity(self.agents.len());
        for agent in &self.agents {
            let found = tx.conn.find(living, &args![agent.name]).await?;
            rows.push((agent, settle(tx, found, agent, self.now).await?));
        }
        for name in &self.gone {
            if let Some(found) = tx.conn.find(living, &args![name]).await? {
                withdraw(tx, name, found, self.now).await?;
            }
        }
        for (agent, row) in &rows {
            let parent = match &agent.parent {
                Some(name) => {
                    let select = "SELECT id FROM agents WHERE name = $1 AND removed_at IS NULL";
                    tx.conn.find(select, &args![name]).await?
                }
                None => None,
            };
            place(tx, row, parent, agent.parallel_one).await?;
        }
        Ok(rows.into_iter().map(|(agent, row)| (agent.name.clone(), row.id)).collect())
    }
}

/// The row of an agent.
struct Found {
    id: AgentId,
    status: AgentStatus,
    parent: Option<AgentId>,
    parallel_one: bool,
}

record!(Found { id, status, parent, parallel_one });

/// Writes what an agent is now, where its row says something else.
async fn settle(
    tx: &mut Tx<'_>,
    found: Option<Found>,
    agent: &NewAgent,
    now: Millis,
) -> Result<Found, SqlError> {
    let mut row = match found {
        Some(found) => found,
        None => {
            let insert = "INSERT INTO agents (name, created_at) VALUES ($1, $2) RETURNING id";
            let made = args![agent.name, now];
            let id = tx.conn.one(insert, &made, "an insert gave no id").await?;
            Found { id, status: AgentStatus::of_new(), parent: None, parallel_one: false }
        }
    };
    let failure = agent.failed.clone();
    let is = AgentStatus { wanted: row.status.wanted, installed: true, failure };
    change(tx, &agent.name, &mut row, is, now).await?;
    Ok(row)
}

/// The settings do not name it any more.
async fn withdraw(
    tx: &mut Tx<'_>,
    name: &AgentName,
    mut row: Found,
    now: Millis,
) -> Result<(), SqlError> {
    let is = AgentStatus { wanted: row.status.wanted, installed: false, failure: None };
    change(tx, name, &mut row, is, now).await
}

async fn change(
    tx: &mut Tx<'_>,
    name: &AgentName,
    row: &mut Found,
    is: AgentStatus,
    now: Millis,
) -> Result<(), SqlError> {
    if row.status != is {
        let update = "UPDATE agents SET installed = $2, failure = $3 WHERE id = $1";
        tx.conn.run(update, &args![row.id, is.installed, is.failure]).await?;
        let kind = EventKind::Status { state: is.word().to_owned(), reason: is.failure.clone() };
        tx.event(Event::of(row.id, name, now, kind));
        row.status = is;
    }
    Ok(())
}

/// Its place in the tree.
async fn place(
    tx: &mut Tx<'_>,
    row: &Found,
    parent: Option<AgentId>,
    parallel_one: bool,
) -> Result<(), SqlError> {
    if (row.parent, row.parallel_one) != (parent, parallel_one) {
        let update = "UPDATE agents SET parent_id = $2, parallel_one = $3 WHERE id = $1";
        tx.conn.run(update, &args![row.id, parent, parallel_one]).await?;
    }
    Ok(())
}

/// Has an agent work, finish what it does, or do nothing.
pub struct WantAgent {
    pub agent: AgentId,
    pub wanted: Wanted,
    /// Who wants it.
    pub by: String,
    pub now: Millis,
}

impl Run for WantAgent {
    /// Whether that is new.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let select = "SELECT name, wanted, installed, failure FROM agents \
                      WHERE id = $1 AND removed_at IS NULL";
        let found: Option<(AgentName, AgentStatus)> =
            tx.conn.find(select, &args![self.agent]).await?;
        let (name, was) = found.ok_or_else(|| Refusal::not_found("the agent"))?;
        if was.wanted == self.wanted {
            return Ok(false);
        }
        let update = "UPDATE agents SET wanted = $2 WHERE id = $1";
        tx.conn.run(update, &args![self.agent, self.wanted]).await?;
        lanes::refresh_agent(tx, self.agent).await?;
        let is = AgentStatus { wanted: self.wanted, ..was };
        let kind = EventKind::Status { state: is.word().to_owned(), reason: is.failure };
        tx.event(Event::of(self.agent, &name, self.now, kind));
        let what = json!({ "agent": name, "wanted": self.wanted.as_str() });
        tx.audit(AuditRow::change("agent_wanted", Some(&self.by), &what, self.now)).await?;
        Ok(true)
    }
}

/// An agent says what it does.
pub struct SayDoing {
    pub agent: AgentId,
    pub doing: Option<String>,
}

impl Run for SayDoing {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let update = "UPDATE agents SET doing = $2 WHERE id = $1";
        tx.conn.run(update, &args![self.agent, self.doing]).await?;
        Ok(())
    }
}

/// What the shown status of an agent follows from.
#[derive(PartialEq)]
pub(crate) struct AgentStatus {
    wanted: Wanted,
    /// The settings name it.
    installed: bool,
    /// Why it cannot run, when it cannot.
    pub failure: Option<String>,
}

record!(AgentStatus { wanted, installed, failure });

impl AgentStatus {
    fn of_new() -> Self {
        Self { wanted: Wanted::Active, installed: false, failure: None }
    }

    /// As it is shown.
    pub fn word(&self) -> &str {
        match self {
            Self { installed: false, .. } => "removed",
            Self { failure: Some(_), .. } => "failed",
            Self { wanted, .. } => wanted.as_str(),
        }
    }
}

/// The turn runs: of an agent that runs one at a time, no other does but those of subagents.
pub(crate) async fn occupy(tx: &mut Tx<'_>, agent: AgentId, turn: &TurnId) -> Result<(), SqlError> {
    let occupy = "UPDATE agents SET busy = $2, ready_priority = (SELECT ready_priority FROM lanes \
                  WHERE agent = $1 AND apart = 1 AND ready_priority IS NOT NULL \
                  ORDER BY ready_priority, ready_ord LIMIT 1) \
                  WHERE id = $1 AND parallel_one = 1 AND busy IS NULL";
    tx.conn.run(occupy, &args![agent, turn]).await?;
    Ok(())
}

/// How the item counters of an agent change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    pub turns: i64,
    /// Its place among the agents that were served.
    pub served: Option<i64>,
}

pub(crate) async fn tally(tx: &mut Tx<'_>, agent: AgentId, by: Tally) -> Result<(), SqlError> {
    let update = "UPDATE agents SET pending = pending + $2, running = running + $3, \
                  waiting = waiting + $4, turns = turns + $5, \
                  served = COALESCE($6, served) WHERE id = $1";
    tx.add(Addition {
        sql: update,
        key: vec![Cell::Int(agent.0)],
        sums: vec![by.pending, by.running, by.waiting, by.turns],
        newest: by.served,
    })
    .await
}

/// What one agent has to do: the words mean the same wherever they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCounts {
    pub agent: AgentId,
    pub wanted: Wanted,
    /// Turns that run, also those that pause before a model call is made again.
    pub running: i64,
    /// Turns that wait: for a person, for a time, or for another try.
    pub waiting: i64,
    /// Messages that a turn has still to take up, and those of turns that are about to go on.
    pub queued: i64,
    /// What it says it does.
    pub doing: Option<String>,
}

record!(AgentCounts { agent, wanted, running, waiting, queued, doing });

/// The row of an agent, also of one that is not in the settings now. The living one has the name;
/// removed ones are found by their id.
pub async fn find(
    conn: &mut Conn,
    wanted: &AgentName,
) -> Result<Option<(AgentId, AgentName)>, SqlError> {
    match wanted.as_id() {
        Some(id) => conn.find("SELECT id, name FROM agents WHERE id = $1", &args![id]).await,
        None => {
            let select = "SELECT id, name FROM agents WHERE name = $1 AND removed_at IS NULL";
            conn.find(select, &args![wanted]).await
        }
    }
}

/// The newest removed agent that had the name.
pub async fn find_removed(conn: &mut Conn, name: &AgentName) -> Result<Option<AgentId>, SqlError> {
    let select = "SELECT id FROM agents WHERE name = $1 AND removed_at IS NOT NULL \
                  ORDER BY id DESC LIMIT 1";
    conn.find(select, &args![name]).await
}

pub async fn counts(conn: &mut Conn) -> Result<Vec<AgentCounts>, SqlError> {
    // Items of a turn that is tried again later are pending, and wait with it.
    let select = "SELECT a.id, a.wanted, COALESCE(o.running, 0), COALESCE(o.waiting, 0), \
                  a.pending - COALESCE(o.items, 0), a.doing FROM agents a \
                  LEFT JOIN (SELECT t.agent, \
                  sum(CASE WHEN t.state = 'running' THEN 1 ELSE 0 END) AS running, \
                  sum(CASE WHEN t.state = 'waiting' OR t.state = 'ready' \
                  AND t.available_at IS NOT NULL THEN 1 ELSE 0 END) AS waiting, \
                  sum(CASE WHEN t.state = 'ready' AND t.available_at IS NOT NULL \
                  THEN (SELECT count(*) FROM items i WHERE i.turn = t.id) ELSE 0 END) AS items \
                  FROM turns t WHERE t.ended_at IS NULL GROUP BY t.agent) o ON o.agent = a.id \
                  WHERE a.removed_at IS NULL ORDER BY a.name";
    conn.list(select, &[]).await
}

/// How often an agent may still ask a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressBucket {
    pub agent: AgentId,
    pub host: String,
    pub bucket: Bucket,
}

impl Record for EgressBucket {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (agent, host) = (row.take()?, row.take()?);
        let bucket = Bucket { tokens: row.take()?, at: row.take()? };
        Ok(Self { agent, host, bucket })
    }
}

/// Keeps what changed; rows that say nothing any more go.
pub struct KeepBuckets {
    pub buckets: Vec<EgressBucket>,
    pub now: Millis,
}

impl Run for KeepBuckets {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let upsert = "INSERT INTO egress_buckets (agent, host, tokens, at) \
                      VALUES ($1, $2, $3, $4) ON CONFLICT (agent, host) DO UPDATE SET \
                      tokens = excluded.tokens, at = excluded.at";
        for EgressBucket { agent, host, bucket } in &self.buckets {
            tx.conn.run(upsert, &args![agent, host, bucket.tokens, bucket.at]).await?;
        }
        let delete = "DELETE FROM egress_buckets WHERE at <= $1";
        tx.conn.run(delete, &args![self.now.saturating_sub(FILLS_IN)]).await?;
        Ok(())
    }
}

/// Those that are not full again by now.
pub async fn buckets(conn: &mut Conn, now: Millis) -> Result<Vec<EgressBucket>, SqlError> {
    let select = "SELECT agent, host, tokens, at FROM egress_buckets WHERE at > $1";
    conn.list(select, &args![now.saturating_sub(FILLS_IN)]).await
}
