//! Agents: their rows and the counters on them, and how often each may still ask which host.

use std::collections::HashMap;

use skep_core::Millis;
use skep_core::bucket::{Bucket, FILLS_IN};
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, TurnId};

use crate::engine::additions::Addition;
use crate::engine::conn::Cell;
use crate::engine::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args, record};

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
}

impl Run for RegisterAgents {
    type Out = Vec<(AgentName, AgentId)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let living = "SELECT name, id, wanted, installed, failure FROM agents \
                      WHERE removed_at IS NULL";
        let known: Vec<(String, (AgentId, Status))> = tx.conn.list(living, &[]).await?;
        let mut known: HashMap<_, _> = known.into_iter().collect();
        let mut ids = Vec::with_capacity(self.agents.len());
        for agent in &self.agents {
            let found = known.remove(agent.name.as_str());
            ids.push((agent.name.clone(), settle(tx, found, agent, true, self.now).await?));
        }
        for (name, found) in known {
            let gone = NewAgent { name: AgentName(name), failed: None };
            settle(tx, Some(found), &gone, false, self.now).await?;
        }
        Ok(ids)
    }
}

/// Gives one agent its row, or notes that it is gone. The others are not looked at.
pub struct RegisterAgent {
    pub agent: NewAgent,
    /// The settings name it.
    pub installed: bool,
    pub now: Millis,
}

impl Run for RegisterAgent {
    type Out = AgentId;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let living = "SELECT id, wanted, installed, failure FROM agents \
                      WHERE name = $1 AND removed_at IS NULL";
        let found = tx.conn.find(living, &args![self.agent.name]).await?;
        Ok(settle(tx, found, &self.agent, self.installed, self.now).await?)
    }
}

/// Writes what an agent is now, where its row says something else.
async fn settle(
    tx: &mut Tx<'_>,
    found: Option<(AgentId, Status)>,
    agent: &NewAgent,
    installed: bool,
    now: Millis,
) -> Result<AgentId, SqlError> {
    let (id, was) = match found {
        Some(found) => found,
        None => {
            let insert = "INSERT INTO agents (name, created_at) VALUES ($1, $2) RETURNING id";
            let made = args![agent.name, now];
            (tx.conn.one(insert, &made, "an insert gave no id").await?, Status::of_new())
        }
    };
    let is = Status { wanted: was.wanted.clone(), installed, failure: agent.failed.clone() };
    if was != is {
        let update = "UPDATE agents SET installed = $2, failure = $3 WHERE id = $1";
        tx.conn.run(update, &args![id, installed, is.failure]).await?;
        let kind = EventKind::Status { state: is.word().to_owned(), reason: is.failure };
        tx.event(Event::of(id, &agent.name, now, kind));
    }
    Ok(id)
}

/// What the shown status of an agent follows from.
#[derive(PartialEq)]
struct Status {
    /// `active`, `paused` or `stopped`.
    wanted: String,
    /// The settings name it.
    installed: bool,
    /// Why it cannot run, when it cannot.
    failure: Option<String>,
}

record!(Status { wanted, installed, failure });

impl Status {
    fn of_new() -> Self {
        Self { wanted: "active".to_owned(), installed: false, failure: None }
    }

    /// As it is shown.
    fn word(&self) -> &str {
        match self {
            Self { installed: false, .. } => "removed",
            Self { failure: Some(_), .. } => "failed",
            Self { wanted, .. } => wanted,
        }
    }
}

/// The turn runs: of an agent that runs one at a time, no other does.
pub(crate) async fn occupy(tx: &mut Tx<'_>, agent: AgentId, turn: &TurnId) -> Result<(), SqlError> {
    let occupy = "UPDATE agents SET busy = $2, ready_priority = NULL \
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
    /// Turns that run, also those that pause before a model call is made again.
    pub running: i64,
    /// Turns that wait: for a person, for a time, or for another try.
    pub waiting: i64,
    /// Messages that a turn has still to take up, and those of turns that are about to go on.
    pub queued: i64,
}

record!(AgentCounts { agent, running, waiting, queued });

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

pub async fn counts(conn: &mut Conn) -> Result<Vec<AgentCounts>, SqlError> {
    // Items of a turn that is tried again later are pending, and wait with it.
    let select = "SELECT a.id, COALESCE(o.running, 0), COALESCE(o.waiting, 0), \
                  a.pending - COALESCE(o.items, 0) FROM agents a LEFT JOIN (SELECT t.agent, \
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
