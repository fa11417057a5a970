//! Browsers that are signed in: only hashes of what they hold.

use skep_core::Millis;
use skep_core::role::Role;

use crate::command::Run;
use crate::conn::Conn;
use crate::error::{Refusal, SqlError};
use crate::tx::Tx;

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

/// Signs a browser in, and lets go of those whose time is over.
pub struct SignIn {
    pub browser: Browser,
}

impl Run for SignIn {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let Browser { id, name, role, cookie, key, created_at, expires_at } = &self.browser;
        let over = "DELETE FROM browsers WHERE expires_at <= $1";
        tx.conn.run(over, &[(*created_at).into()]).await?;
        let insert = "INSERT INTO browsers (id, name, role, cookie, key, created_at, expires_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let args = [
            id.into(),
            name.into(),
            role.as_str().into(),
            cookie.as_slice().into(),
            key.as_slice().into(),
            (*created_at).into(),
            (*expires_at).into(),
        ];
        tx.conn.run(insert, &args).await?;
        Ok(())
    }
}

pub struct SignOut {
    pub id: String,
}

impl Run for SignOut {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        tx.conn.run("DELETE FROM browsers WHERE id = $1", &[(&self.id).into()]).await?;
        Ok(())
    }
}

/// Those whose time is not over.
pub async fn signed_in(conn: &mut Conn, now: Millis) -> Result<Vec<Browser>, SqlError> {
    let select = "SELECT id, name, role, cookie, key, created_at, expires_at FROM browsers \
                  WHERE expires_at > $1";
    let mut browsers = Vec::new();
    for row in conn.rows(select, &[now.into()]).await? {
        let (cookie, key) = (row.blob(3)?.try_into(), row.blob(4)?.try_into());
        // A row we cannot read opens nothing.
        if let (Some(role), Ok(cookie), Ok(key)) = (Role::parse(&row.text(2)?), cookie, key) {
            let (id, name) = (row.text(0)?, row.text(1)?);
            let (created_at, expires_at) = (row.int(5)?, row.int(6)?);
            browsers.push(Browser { id, name, role, cookie, key, created_at, expires_at });
        }
    }
    Ok(browsers)
}
