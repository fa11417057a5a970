//! Sessions that an engine keeps beside ours, and what was decided about calls it is to ask for
//! again.

use skep_core::decision::Decision;
use skep_core::engine::EngineSession;
use skep_core::ids::{CallId, SessionId, TurnId};
use skep_db::{Conn, SqlError, Tx, args, record};

/// A session of an engine, and what it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedSession {
    pub engine: String,
    /// The engine's own word for it.
    pub id: String,
    /// Over everything the engine was given at its start.
    pub launch_hash: String,
}

record!(LaunchedSession { engine, id, launch_hash });

impl LaunchedSession {
    pub(crate) async fn mark_seen(
        &self,
        tx: &mut Tx<'_>,
        session: &SessionId,
    ) -> Result<(), SqlError> {
        let update = "UPDATE sessions SET engine = $2, engine_session = $3, launch_hash = $4, \
                      seen_seq = last_seq WHERE id = $1";
        let args = args![session, self.engine, self.id, self.launch_hash];
        tx.conn.run(update, &args).await.map(drop)
    }
}

/// The engine's session that goes on with this one.
pub async fn find(
    conn: &mut Conn,
    session: &SessionId,
) -> Result<Option<(LaunchedSession, EngineSession)>, SqlError> {
    let select = "SELECT engine, engine_session, launch_hash, seen_seq FROM sessions \
                  WHERE id = $1 AND engine_session IS NOT NULL";
    let found: Option<(LaunchedSession, i64)> = conn.find(select, &args![session]).await?;
    Ok(found.map(|(launched, seen_seq)| {
        let id = launched.id.clone();
        (launched, EngineSession { id, seen_seq })
    }))
}

/// What was decided in a turn about calls that have not run, with the call each was asked for.
pub async fn decided(conn: &mut Conn, turn: &TurnId) -> Result<Vec<(CallId, Decision)>, SqlError> {
    let select = "SELECT id, call_id, state = 'approved', decided_by, note FROM approvals \
                  WHERE turn = $1 AND state IN ('approved', 'denied') AND used_at IS NULL \
                  ORDER BY number";
    let rows: Vec<(_, _, _, Option<String>, _)> = conn.list(select, &args![turn]).await?;
    let decisions = rows.into_iter().map(|(id, call, approve, by, note)| {
        (call, Decision::Approval { id, approve, by: by.unwrap_or_default(), note })
    });
    Ok(decisions.collect())
}
