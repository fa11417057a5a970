//! Agents: their rows and the counters on them.

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName};

use crate::command::Run;
use crate::conn::Conn;
use crate::error::{Refusal, SqlError};
use crate::tx::Tx;

/// Gives every name a row; those that have one keep it.
pub struct RegisterAgents {
    pub names: Vec<AgentName>,
    pub now: Millis,
}

impl Run for RegisterAgents {
    type Out = Vec<(AgentName, AgentId)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mut ids = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let found = "SELECT id FROM agents WHERE name = $1 AND removed_at IS NULL";
            let id = match tx.conn.row(found, &[name.as_str().into()]).await? {
                Some(row) => row.int(0)?,
                None => {
                    let insert =
                        "INSERT INTO agents (name, created_at) VALUES ($1, $2) RETURNING id";
                    let row = tx.conn.row(insert, &[name.as_str().into(), self.now.into()]).await?;
                    row.ok_or_else(|| SqlError::decode("an insert gave no id"))?.int(0)?
                }
            };
            ids.push((name.clone(), AgentId(id)));
        }
        Ok(ids)
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
