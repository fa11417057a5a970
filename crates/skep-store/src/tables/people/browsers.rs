//! Browsers that are signed in: only hashes of what they hold.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::ids::Principal;
use skep_core::role::Role;
use skep_db::{Conn, Record, Refusal, Run, SqlError, Tx, args, record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// SHA-256 of the cookie.
    pub cookie: [u8; 32],
    /// SHA-256 of the key in the origin's storage.
    pub key: [u8; 32],
    pub created_at: Millis,
    pub expires_at: Millis,
}

record!(Browser { id, name, role, cookie, key, created_at, expires_at });

impl Browser {
    /// A person at a browser: the operator is the same one as at the terminal.
    pub fn principal(&self) -> Principal {
        principal(&self.name, self.role.as_str())
    }
}

fn principal(name: &str, role: &str) -> Principal {
    match role == Role::Operator.as_str() {
        true => Principal::new("operator"),
        false => Principal(format!("person:{name}")),
    }
}

/// Signs a browser in, and lets go of those whose time is over.
pub struct SignIn {
    pub browser: Browser,
}

impl Run for SignIn {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let Browser { id, name, role, cookie, key, created_at, expires_at } = &self.browser;
        let over = "DELETE FROM browsers WHERE expires_at <= $1";
        tx.conn.run(over, &args![created_at]).await?;
        let insert = "INSERT INTO browsers (id, name, role, cookie, key, created_at, expires_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7)";
        tx.conn.run(insert, &args![id, name, role, cookie, key, created_at, expires_at]).await?;
        let what = json!({"browser": id, "name": name, "role": role.as_str()});
        let who = principal(name, role.as_str());
        Ok(tx.audit(AuditRow::change("signed_in", Some(who.as_str()), &what, *created_at)).await?)
    }
}

pub struct SignOut {
    pub id: String,
    pub now: Millis,
}

impl Run for SignOut {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let delete = "DELETE FROM browsers WHERE id = $1 RETURNING name, role";
        let found: Option<(String, String)> = tx.conn.find(delete, &args![self.id]).await?;
        if let Some((name, role)) = found {
            let what = json!({"browser": self.id, "name": name, "role": role});
            let who = principal(&name, &role);
            tx.audit(AuditRow::change("signed_out", Some(who.as_str()), &what, self.now)).await?;
        }
        Ok(())
    }
}

/// Those whose time is not over.
pub async fn signed_in(conn: &mut Conn, now: Millis) -> Result<Vec<Browser>, SqlError> {
    let select = "SELECT id, name, role, cookie, key, created_at, expires_at FROM browsers \
                  WHERE expires_at > $1";
    let rows = conn.rows(select, &args![now]).await?;
    // A row we cannot read opens nothing.
    Ok(rows.into_iter().filter_map(|row| Browser::of(row).ok()).collect())
}
