//! Entries of the vault, sealed: what they say is nobody's business here.

use serde_json::{Value, json};
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::policy::vault::{VaultRow, VaultWrite};
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args};

/// One change of the vault, with its row in the audit trail where somebody made it.
pub struct ChangeVault {
    pub change: VaultWrite,
    /// Nobody, for what the hive does by itself.
    pub by: Option<String>,
    pub now: Millis,
}

impl Run for ChangeVault {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        match &self.change {
            VaultWrite::Put(row) => {
                put(tx, row).await?;
                let hosts: Vec<String> = row.hosts.iter().map(ToString::to_string).collect();
                let what = json!({"name": row.name, "agent_id": row.owner, "hosts": hosts});
                self.audit(tx, "vault_set", &what).await?;
            }
            VaultWrite::Reseal(rows) => {
                for row in rows {
                    put(tx, row).await?;
                }
                let key = rows.first().map(|row| row.key_id.as_str());
                let what = json!({"entries": rows.len(), "key": key});
                self.audit(tx, "vault_rotated", &what).await?;
            }
            VaultWrite::Remove { owner, name } => {
                let delete = "DELETE FROM vault WHERE owner = $1 AND name = $2";
                tx.conn.run(delete, &args![owner, name]).await?;
                self.audit(tx, "vault_removed", &json!({"name": name, "agent_id": owner})).await?;
            }
            VaultWrite::RemoveOwner(owner) => {
                tx.conn.run("DELETE FROM vault WHERE owner = $1", &args![owner]).await?;
                let row =
                    AuditRow::change("vault_removed", None, &json!({"agent_id": owner}), self.now);
                tx.audit(row).await?;
            }
            VaultWrite::Used { owner, name, at } => {
                let update = "UPDATE vault SET used_at = $3 WHERE owner = $1 AND name = $2";
                tx.conn.run(update, &args![owner, name, at]).await?;
            }
        }
        Ok(())
    }
}

impl ChangeVault {
    async fn audit(&self, tx: &mut Tx<'_>, what: &str, of: &Value) -> Result<(), SqlError> {
        let Some(by) = &self.by else { return Ok(()) };
        tx.audit(AuditRow::change(what, Some(by), of, self.now)).await
    }
}

async fn put(tx: &mut Tx<'_>, row: &VaultRow) -> Result<(), SqlError> {
    let upsert = "INSERT INTO vault (owner, name, key_id, sealed, secret, hosts, set_at, used_at) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (owner, name) DO UPDATE SET \
                  key_id = excluded.key_id, sealed = excluded.sealed, secret = excluded.secret, \
                  hosts = excluded.hosts, set_at = excluded.set_at, used_at = excluded.used_at";
    let hosts = json!(row.hosts).to_string();
    let args = args![
        row.owner,
        row.name,
        row.key_id,
        row.sealed,
        row.secret,
        hosts,
        row.set_at,
        row.used_at
    ];
    tx.conn.run(upsert, &args).await?;
    Ok(())
}

pub async fn all(conn: &mut Conn) -> Result<Vec<VaultRow>, SqlError> {
    let select = "SELECT owner, name, key_id, sealed, secret, hosts, set_at, used_at FROM vault \
                  ORDER BY owner, name";
    conn.list(select, &[]).await
}
