//! Agents: their rows and the counters on them.

use std::collections::HashMap;

use skep_core::Millis;
use skep_core::event::EventKind;
use skep_core::ids::{AgentId, AgentName};

use crate::engine::command::Run;
use crate::engine::conn::Conn;
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::{NewEvent, Tx};

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
        let living = "SELECT name, id, status, status_reason FROM agents \
                      WHERE removed_at IS NULL";
        let mut known = HashMap::new();
        for row in tx.conn.rows(living, &[]).await? {
            let (id, status, reason) = (row.int(1)?, row.text(2)?, row.text_opt(3)?);
            known.insert(row.text(0)?, (AgentId(id), status, reason));
        }
        let mut ids = Vec::with_capacity(self.agents.len());
        for agent in &self.agents {
            let status = if agent.failed.is_none() { "active" } else { "failed" };
            let id = match known.get(agent.name.as_str()) {
                Some((id, was, why)) => {
                    if was != status || *why != agent.failed {
                        self.set_status(tx, *id, agent, status).await?;
                    }
                    *id
                }
                None => {
                    let id = self.insert(tx, agent).await?;
                    self.set_status(tx, id, agent, status).await?;
                    id
                }
            };
            known.remove(agent.name.as_str());
            ids.push((agent.name.clone(), id));
        }
        for (name, (id, was, _)) in known {
            if !was.is_empty() {
                let gone = NewAgent { name: AgentName(name), failed: None };
                self.set_status(tx, id, &gone, "").await?;
            }
        }
        Ok(ids)
    }
}

impl RegisterAgents {
    async fn insert(&self, tx: &mut Tx<'_>, agent: &NewAgent) -> Result<AgentId, SqlError> {
        let insert = "INSERT INTO agents (name, created_at) VALUES ($1, $2) RETURNING id";
        let args = [agent.name.as_str().into(), self.now.into()];
        let row = tx.conn.row(insert, &args).await?;
        Ok(AgentId(row.ok_or_else(|| SqlError::decode("an insert gave no id"))?.int(0)?))
    }

    async fn set_status(
        &self,
        tx: &mut Tx<'_>,
        id: AgentId,
        agent: &NewAgent,
        status: &'static str,
    ) -> Result<(), SqlError> {
        let update = "UPDATE agents SET status = $2, status_reason = $3 WHERE id = $1";
        tx.conn.run(update, &[id.0.into(), status.into(), (&agent.failed).into()]).await?;
        let state = if status.is_empty() { "removed" } else { status };
        let kind = EventKind::Status { state: state.to_owned(), reason: agent.failed.clone() };
        let (at, name) = (self.now, agent.name.clone());
        tx.event(NewEvent { at, agent: name, session: None, turn: None, kind });
        Ok(())
    }
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
    let args = [
        agent.0.into(),
        by.pending.into(),
        by.running.into(),
        by.waiting.into(),
        by.turns.into(),
        by.served.into(),
    ];
    tx.conn.run(update, &args).await?;
    Ok(())
}

/// The counters of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCounts {
    pub name: AgentName,
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    pub turns: i64,
}

/// The row of an agent, also of one that is not in the settings now.
pub async fn id_of(conn: &mut Conn, name: &AgentName) -> Result<Option<AgentId>, SqlError> {
    let select = "SELECT id FROM agents WHERE name = $1 AND removed_at IS NULL";
    let row = conn.row(select, &[name.as_str().into()]).await?;
    row.map(|row| row.int(0).map(AgentId)).transpose()
}

pub async fn counts(conn: &mut Conn) -> Result<Vec<AgentCounts>, SqlError> {
    let select = "SELECT name, pending, running, waiting, turns FROM agents \
                  WHERE removed_at IS NULL ORDER BY name";
    let rows = conn.rows(select, &[]).await?;
    let counts = rows.iter().map(|row| {
        Ok(AgentCounts {
            name: AgentName(row.text(0)?),
            pending: row.int(1)?,
            running: row.int(2)?,
            waiting: row.int(3)?,
            turns: row.int(4)?,
        })
    });
    counts.collect()
}
