//! Credentials: only their hashes are here.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::{AgentId, AgentName};
use skep_core::role::{Grant, Role};

use crate::engine::command::Run;
use crate::engine::conn::Conn;
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::Tx;

pub struct AddToken {
    pub id: String,
    pub name: String,
    pub grant: Grant,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Nobody, for the one of a first start.
    pub by: Option<String>,
    pub now: Millis,
}

impl Run for AddToken {
    /// The name of its agent.
    type Out = Option<AgentName>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let known = "SELECT 1 FROM tokens WHERE id = $1";
        if tx.conn.row(known, &[(&self.id).into()]).await?.is_some() {
            let detail = format!(
                "this request made the token {} before, and a token is shown once; revoke that \
                 one, then make another with a new Idempotency-Key",
                self.id
            );
            return Err(Refusal::Conflict { code: "id_reused", detail });
        }
        let insert = "INSERT INTO tokens (id, name, role, prefix, agent, hash, created_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7) \
                      RETURNING (SELECT a.name FROM agents a WHERE a.id = agent)";
        let args = [
            (&self.id).into(),
            (&self.name).into(),
            self.grant.role.as_str().into(),
            self.grant.prefix.as_deref().into(),
            self.grant.agent.map(|agent| agent.0).into(),
            self.hash.as_slice().into(),
            self.now.into(),
        ];
        let row = tx.conn.row(insert, &args).await?;
        let agent_name = row.map(|row| row.text_opt(0)).transpose()?.flatten();
        if let Some(by) = &self.by {
            let Grant { role, prefix, agent } = &self.grant;
            let what = json!({"token": self.id, "name": self.name, "role": role.as_str(),
                              "prefix": prefix, "agent": agent_name, "agent_id": agent});
            tx.audit(AuditRow::change("token_made", Some(by), &what, self.now)).await?;
        }
        Ok(agent_name.map(AgentName))
    }
}

pub struct RevokeToken {
    pub id: String,
    pub by: String,
    pub now: Millis,
}

impl Run for RevokeToken {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let update = "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL \
                      RETURNING name, role";
        let row = tx.conn.row(update, &[(&self.id).into(), self.now.into()]).await?;
        let row = row.ok_or_else(|| Refusal::not_found(format!("token {}", self.id)))?;
        let what = json!({"token": self.id, "name": row.text(0)?, "role": row.text(1)?});
        tx.audit(AuditRow::change("token_revoked", Some(&self.by), &what, self.now)).await?;
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    pub name: String,
    pub grant: Grant,
    pub agent_name: Option<AgentName>,
    pub hash: Vec<u8>,
    pub created_at: Millis,
    pub revoked_at: Option<Millis>,
}

pub async fn all(conn: &mut Conn) -> Result<Vec<TokenRow>, SqlError> {
    let select = "SELECT id, name, hash, created_at, revoked_at, role, prefix, agent, \
                  (SELECT a.name FROM agents a WHERE a.id = agent) FROM tokens \
                  ORDER BY created_at";
    let rows = conn.rows(select, &[]).await?;
    let tokens = rows.iter().map(|row| {
        let role = row.text(5)?;
        let role = Role::parse(&role).ok_or_else(|| SqlError::decode(format!("role {role}")))?;
        let (prefix, agent) = (row.text_opt(6)?, row.int_opt(7)?.map(AgentId));
        Ok(TokenRow {
            id: row.text(0)?,
            name: row.text(1)?,
            grant: Grant { role, prefix, agent },
            agent_name: row.text_opt(8)?.map(AgentName),
            hash: row.blob(2)?,
            created_at: row.int(3)?,
            revoked_at: row.int_opt(4)?,
        })
    });
    tokens.collect()
}
