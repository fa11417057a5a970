//! Credentials: only their hashes are here.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::AgentName;
use skep_core::role::Grant;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

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
        if tx.conn.row(known, &args![self.id]).await?.is_some() {
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
        let args = args![
            self.id,
            self.name,
            self.grant.role,
            self.grant.prefix,
            self.grant.agent,
            self.hash,
            self.now
        ];
        let agent_name: Option<AgentName> = tx.conn.find(insert, &args).await?.flatten();
        if let Some(by) = &self.by {
            let Grant { role, prefix, agent } = &self.grant;
            let what = json!({"token": self.id, "name": self.name, "role": role.as_str(),
                              "prefix": prefix, "agent": agent_name, "agent_id": agent});
            tx.audit(AuditRow::change("token_made", Some(by), &what, self.now)).await?;
        }
        Ok(agent_name)
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
        let found: Option<(String, String)> =
            tx.conn.find(update, &args![self.id, self.now]).await?;
        let (name, role) = found.ok_or_else(|| Refusal::not_found(format!("token {}", self.id)))?;
        let what = json!({"token": self.id, "name": name, "role": role});
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

record!(TokenRow { id, name, grant, agent_name, hash, created_at, revoked_at });

pub async fn all(conn: &mut Conn) -> Result<Vec<TokenRow>, SqlError> {
    let select = "SELECT id, name, role, prefix, agent, \
                  (SELECT a.name FROM agents a WHERE a.id = agent), hash, created_at, \
                  revoked_at FROM tokens ORDER BY created_at";
    conn.list(select, &[]).await
}
