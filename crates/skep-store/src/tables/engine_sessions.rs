//! Sessions that an engine keeps beside ours, and what was decided about calls it is to ask for
//! again.

use skep_core::approval::ApprovalState;
use skep_core::decision::Decision;
use skep_core::engine::EngineSession;
use skep_core::ids::{ApprovalId, CallId, SessionId, TurnId};

use crate::engine::conn::Conn;
use crate::engine::error::SqlError;
use crate::engine::tx::Tx;

/// A session of an engine, and what it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedSession {
    pub engine: String,
    /// The engine's own word for it.
    pub id: String,
    /// Over everything the engine was given at its start.
    pub launch_hash: String,
}

impl LaunchedSession {
    pub(crate) async fn mark_seen(
        &self,
        tx: &mut Tx<'_>,
        session: &SessionId,
    ) -> Result<(), SqlError> {
        let update = "UPDATE sessions SET engine = $2, engine_session = $3, launch_hash = $4, \
                      seen_seq = last_seq WHERE id = $1";
        let args = [
            session.as_str().into(),
            (&self.engine).into(),
            (&self.id).into(),
            (&self.launch_hash).into(),
        ];
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
    let Some(row) = conn.row(select, &[session.as_str().into()]).await? else { return Ok(None) };
    let (engine, id, launch_hash) = (row.text(0)?, row.text(1)?, row.text(2)?);
    let session = EngineSession { id: id.clone(), seen_seq: row.int(3)? };
    Ok(Some((LaunchedSession { engine, id, launch_hash }, session)))
}

/// What was decided in a turn about calls that have not run, with the call each was asked for.
pub async fn decided(conn: &mut Conn, turn: &TurnId) -> Result<Vec<(CallId, Decision)>, SqlError> {
    let select = "SELECT id, call_id, state, decided_by, note FROM approvals WHERE turn = $1 \
                  AND state IN ('approved', 'denied') AND used_at IS NULL ORDER BY number";
    let rows = conn.rows(select, &[turn.as_str().into()]).await?;
    let decisions = rows.iter().map(|row| {
        let decision = Decision::Approval {
            id: ApprovalId(row.text(0)?),
            approve: row.text(2)? == ApprovalState::Approved.as_str(),
            by: row.text_opt(3)?.unwrap_or_default(),
            note: row.text_opt(4)?,
        };
        Ok((CallId(row.text(1)?), decision))
    });
    decisions.collect()
}
