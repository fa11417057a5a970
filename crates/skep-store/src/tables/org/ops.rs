//! Changes of the tree that take several commits, with files between them. Each is on record before
//! anything happens, so that after a crash a spawn is undone and a shutdown goes on.

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName};

use skep_db::{Conn, Refusal, SqlError, Tx, args, record};

/// A change that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOp {
    pub id: String,
    /// Whom it makes or removes.
    pub name: AgentName,
}

record!(OpenOp { id, name });

/// How a change stands when somebody wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpStanding {
    /// It is on record now.
    Begun,
    /// It was begun before, and has not ended.
    Unfinished,
    /// It has ended, with this answer.
    Done(String),
    /// Nothing was begun: a word, and why.
    Refused { code: &'static str, why: String },
}

#[derive(Clone, Copy)]
pub(crate) enum OpKind {
    Spawn,
    Shutdown,
}

impl OpKind {
    fn word(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Shutdown => "shutdown",
        }
    }
}

/// A change that was wanted before. `None`: never.
pub(crate) async fn standing(conn: &mut Conn, id: &str) -> Result<Option<OpStanding>, SqlError> {
    let select = "SELECT ended_at IS NOT NULL, result FROM org_ops WHERE id = $1";
    let found: Option<(bool, Option<String>)> = conn.find(select, &args![id]).await?;
    Ok(found.map(|(ended, result)| match ended {
        true => OpStanding::Done(result.unwrap_or_default()),
        false => OpStanding::Unfinished,
    }))
}

/// The same for whoever wants a change: another one under its id is refused.
pub(crate) async fn wanted_before(
    conn: &mut Conn,
    (id, kind): (&str, OpKind),
    name: &AgentName,
) -> Result<Option<OpStanding>, SqlError> {
    let other = "SELECT 1 FROM org_ops WHERE id = $1 AND (kind <> $2 OR name <> $3)";
    if conn.find::<i64>(other, &args![id, kind.word(), name]).await?.is_some() {
        let why = "another change was wanted with the same key".to_owned();
        return Ok(Some(OpStanding::Refused { code: "id_reused", why }));
    }
    standing(conn, id).await
}

/// Puts a change on record. Of two that are about one name the second is refused.
pub(crate) async fn begin(
    tx: &mut Tx<'_>,
    (id, kind): (&str, OpKind),
    name: &AgentName,
    by: &str,
    now: Millis,
) -> Result<OpStanding, SqlError> {
    let other = "SELECT 1 FROM org_ops WHERE name = $1 AND ended_at IS NULL";
    if tx.conn.find::<i64>(other, &args![name]).await?.is_some() {
        let why = format!("{name} is made or removed right now");
        return Ok(OpStanding::Refused { code: "busy", why });
    }
    let insert = "INSERT INTO org_ops (id, kind, name, wanted_by, begun_at) \
                  VALUES ($1, $2, $3, $4, $5)";
    tx.conn.run(insert, &args![id, kind.word(), name, by, now]).await?;
    Ok(OpStanding::Begun)
}

/// It has ended, with this answer for whoever wants it again.
pub(crate) async fn end(
    tx: &mut Tx<'_>,
    id: &str,
    result: &str,
    now: Millis,
) -> Result<(), Refusal> {
    let update = "UPDATE org_ops SET ended_at = $2, result = $3 \
                  WHERE id = $1 AND ended_at IS NULL";
    match tx.conn.run(update, &args![id, now, result]).await? {
        0 => Err(Refusal::not_found("the change of the tree")),
        _ => Ok(()),
    }
}

/// Agents that are being made.
pub async fn spawns(conn: &mut Conn) -> Result<Vec<OpenOp>, SqlError> {
    let select = "SELECT id, name FROM org_ops WHERE ended_at IS NULL AND kind = 'spawn'";
    conn.list(select, &[]).await
}

/// Agents that are being removed.
pub async fn shutdowns(conn: &mut Conn) -> Result<Vec<OpenOp>, SqlError> {
    let select = "SELECT id, name FROM org_ops WHERE ended_at IS NULL AND kind = 'shutdown'";
    conn.list(select, &[]).await
}

/// The row of the agent that a change makes, where it is there already.
pub async fn spawning(conn: &mut Conn, op: &str) -> Result<Option<AgentId>, SqlError> {
    conn.find("SELECT id FROM agents WHERE spawning = $1", &args![op]).await
}
