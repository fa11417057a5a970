//! Credentials: only their hashes are here.

use skep_core::Millis;

use crate::command::Run;
use crate::conn::Conn;
use crate::error::{Refusal, SqlError};
use crate::tx::Tx;

/// Every token's role so far; the column is there for those to come.
const OPERATOR: &str = "operator";

pub struct NewToken {
    pub id: String,
    pub name: String,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    pub now: Millis,
}

impl Run for NewToken {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let insert = "INSERT INTO tokens (id, name, role, hash, created_at) \
                      VALUES ($1, $2, $3, $4, $5)";
        let args = [
            (&self.id).into(),
            (&self.name).into(),
            OPERATOR.into(),
            self.hash.as_slice().into(),
            self.now.into(),
        ];
        tx.conn.run(insert, &args).await?;
        Ok(())
    }
}

pub struct RevokeToken {
    pub id: String,
    pub now: Millis,
}

impl Run for RevokeToken {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let update = "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        if tx.conn.run(update, &[(&self.id).into(), self.now.into()]).await? == 0 {
            return Err(Refusal::not_found(format!("token {}", self.id)));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    pub name: String,
    pub hash: Vec<u8>,
    pub created_at: Millis,
    pub revoked_at: Option<Millis>,
}

pub async fn all(conn: &mut Conn) -> Result<Vec<TokenRow>, SqlError> {
    let select = "SELECT id, name, hash, created_at, revoked_at FROM tokens ORDER BY created_at";
    let rows = conn.rows(select, &[]).await?;
    let tokens = rows.iter().map(|row| {
        Ok(TokenRow {
            id: row.text(0)?,
            name: row.text(1)?,
            hash: row.blob(2)?,
            created_at: row.int(3)?,
            revoked_at: row.int_opt(4)?,
        })
    });
    tokens.collect()
}
