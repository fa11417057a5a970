//! What a person allowed for a time or for a session.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::{AgentId, AgentName, SessionId};
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args};

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

impl GrantRow {
    pub fn counts_in(&self, session: &SessionId) -> bool {
        self.session.as_deref().is_none_or(|own| own == session.as_str())
    }
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
        let args = args![
            row.id,
            row.agent,
            row.session,
            row.tool,
            row.path,
            row.command,
            row.host,
            grants,
            row.made_by,
            row.made_at,
            row.until
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
        let found: Option<(String, Option<String>, Option<String>, AgentId)> =
            tx.conn.find(update, &args![self.id, self.now]).await?;
        let (tool, session, agent, agent_id) =
            found.ok_or_else(|| Refusal::not_found(format!("grant {}", self.id)))?;
        let what = json!({"grant": self.id});
        let told = AuditRow {
            agent,
            agent_id: Some(agent_id),
            session,
            tool: Some(tool),
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
    conn.list(select, &args![agent, now, MOST]).await
}

impl Record for GrantRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.take()?,
            agent: row.take()?,
            agent_name: row.take()?,
            session: row.take()?,
            tool: row.take()?,
            path: row.take()?,
            command: row.take()?,
            host: row.take()?,
            grants: row.take::<String>()?.lines().map(str::to_owned).collect(),
            made_by: row.take()?,
            made_at: row.take()?,
            until: row.take()?,
        })
    }
}
