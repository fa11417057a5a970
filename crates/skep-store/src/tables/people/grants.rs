//! What a person allowed for a time or for a session.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::{AgentId, AgentName};

use crate::engine::command::Run;
use crate::engine::conn::{Conn, Row};
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::Tx;

/// Grants that count for one agent at the most; more than anybody overlooks.
const MOST: i64 = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRow {
    pub id: String,
    pub agent: AgentId,
    pub agent_name: AgentName,
    /// Only there.
    pub session: Option<String>,
    pub tool: String,
    pub path: Option<String>,
    pub command: Option<String>,
    pub host: Option<String>,
    /// For whom, each in words.
    pub grants: Vec<String>,
    pub made_by: String,
    pub made_at: Millis,
    pub until: Option<Millis>,
}

#[derive(Clone)]
pub struct AddGrant(pub GrantRow);

impl Run for AddGrant {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let row = &self.0;
        let insert = "INSERT INTO grants (id, agent, session, tool, path, command, host, grants, \
                      made_by, made_at, until) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let grants = row.grants.join("\n");
        let args = [
            (&row.id).into(),
            row.agent.0.into(),
            (&row.session).into(),
            (&row.tool).into(),
            (&row.path).into(),
            (&row.command).into(),
            (&row.host).into(),
            (&grants).into(),
            (&row.made_by).into(),
            row.made_at.into(),
            row.until.into(),
        ];
        tx.conn.run(insert, &args).await?;
        let what = json!({"grant": row.id, "path": row.path, "command": row.command,
                          "host": row.host, "for": row.grants, "until": row.until});
        let told = AuditRow {
            agent: Some(row.agent_name.0.clone()),
            agent_id: Some(row.agent),
            session: row.session.clone(),
            tool: Some(row.tool.clone()),
            ..AuditRow::change("granted", Some(&row.made_by), &what, row.made_at)
        };
        Ok(tx.audit(told).await?)
    }
}

#[derive(Clone)]
pub struct RevokeGrant {
    pub id: String,
    pub by: String,
    pub now: Millis,
}

impl Run for RevokeGrant {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let update = "UPDATE grants SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL \
                      RETURNING tool, session, (SELECT name FROM agents a WHERE a.id = agent), \
                      agent";
        let row = tx.conn.row(update, &[(&self.id).into(), self.now.into()]).await?;
        let row = row.ok_or_else(|| Refusal::not_found(format!("grant {}", self.id)))?;
        let what = json!({"grant": self.id});
        let told = AuditRow {
            agent: row.text_opt(2)?,
            agent_id: Some(AgentId(row.int(3)?)),
            session: row.text_opt(1)?,
            tool: Some(row.text(0)?),
            ..AuditRow::change("grant_revoked", Some(&self.by), &what, self.now)
        };
        Ok(tx.audit(told).await?)
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT g.id, g.agent, a.name, g.session, g.tool, g.path, g.command, g.host, ",
            "g.grants, g.made_by, g.made_at, g.until FROM grants g ",
            "JOIN agents a ON a.id = g.agent ",
            $rest
        )
    };
}

/// Those in force for an agent, the newest first.
pub async fn of_agent(
    conn: &mut Conn,
    agent: AgentId,
    now: Millis,
) -> Result<Vec<GrantRow>, SqlError> {
    let select = select!(
        "WHERE g.agent = $1 AND g.revoked_at IS NULL AND (g.until IS NULL OR g.until > $2) \
         ORDER BY g.made_at DESC LIMIT $3"
    );
    let args = [agent.0.into(), now.into(), MOST.into()];
    conn.rows(select, &args).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<GrantRow, SqlError> {
    let grants = row.text(8)?;
    Ok(GrantRow {
        id: row.text(0)?,
        agent: AgentId(row.int(1)?),
        agent_name: AgentName(row.text(2)?),
        session: row.text_opt(3)?,
        tool: row.text(4)?,
        path: row.text_opt(5)?,
        command: row.text_opt(6)?,
        host: row.text_opt(7)?,
        grants: grants.lines().map(str::to_owned).collect(),
        made_by: row.text(9)?,
        made_at: row.int(10)?,
        until: row.int_opt(11)?,
    })
}
