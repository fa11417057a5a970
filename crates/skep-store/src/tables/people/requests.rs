//! Requests by the key their sender gave them: what came before is known again. A message's row
//! names its item and is written with it; every other write has the row before it begins and its
//! answer there when it is done.

use skep_core::Millis;
use skep_db::{Refusal, Run, Tx, args};

#[derive(Clone, Debug)]
pub struct Request {
    /// Where the id is unique.
    pub scope: String,
    pub id: String,
    pub body_hash: [u8; 32],
}

/// The item of a request that is no message.
const NO_ITEM: &str = "";

pub(crate) async fn insert(
    tx: &mut Tx<'_>,
    request: &Request,
    item: &str,
    now: Millis,
) -> Result<(), Refusal> {
    let insert = "INSERT INTO requests (scope, id, body_hash, item, created_at) \
                  VALUES ($1, $2, $3, $4, $5)";
    tx.conn.run(insert, &args![request.scope, request.id, request.body_hash, item, now]).await?;
    Ok(())
}

pub(crate) fn reused(id: &str) -> Refusal {
    let detail = format!("the id {id} was used for another request; give each request its own id");
    Refusal::conflict("id_reused", detail)
}

/// Notes that a write begins.
pub struct BeginRequest {
    pub request: Request,
    pub now: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    First,
    /// The same request began before, and its answer is not there.
    Open,
    /// The same request was answered with this.
    Answered(String),
}

impl Run for BeginRequest {
    type Out = Begun;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Begun, Refusal> {
        let Request { scope, id, body_hash } = &self.request;
        let select = "SELECT body_hash, answer FROM requests WHERE scope = $1 AND id = $2";
        let found: Option<(Vec<u8>, Option<String>)> =
            tx.conn.find(select, &args![scope, id]).await?;
        let Some((known, answer)) = found else {
            insert(tx, &self.request, NO_ITEM, self.now).await?;
            return Ok(Begun::First);
        };
        if known != body_hash {
            return Err(reused(id));
        }
        Ok(answer.map_or(Begun::Open, Begun::Answered))
    }
}

/// Keeps the answer of a write; without one the write was refused and may be tried again.
pub struct CloseRequest {
    pub scope: String,
    pub id: String,
    pub answer: Option<String>,
}

impl Run for CloseRequest {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let Some(answer) = &self.answer else {
            let delete = "DELETE FROM requests WHERE scope = $1 AND id = $2";
            tx.conn.run(delete, &args![self.scope, self.id]).await?;
            return Ok(());
        };
        let update = "UPDATE requests SET answer = $3 WHERE scope = $1 AND id = $2";
        tx.conn.run(update, &args![self.scope, self.id, answer]).await?;
        Ok(())
    }

    fn cost(&self) -> usize {
        self.answer.as_ref().map_or(0, String::len) + 256
    }
}
