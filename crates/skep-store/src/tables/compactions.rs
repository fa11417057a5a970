//! What models are shown of sessions that grew too long: notes, and the rows after them.

use skep_core::Millis;
use skep_core::compaction::{self, Reason};
use skep_core::ids::{SessionId, TurnId};
use skep_core::message::Body;

use crate::engine::conn::Conn;
use crate::engine::error::SqlError;
use crate::engine::tx::Tx;
use crate::tables::history::RowPlace;

#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The row of history that tells of it.
    pub seam: i64,
    /// Rows up to this one are shown as notes.
    pub upto: i64,
    pub turn: TurnId,
    pub at: Millis,
    pub reason: Reason,
    pub notes: String,
}

/// Remembers a row that tells of a compaction; other rows are none of its business.
pub(crate) async fn note(
    tx: &mut Tx<'_>,
    place: &RowPlace<'_>,
    seq: i64,
    body: &Body,
) -> Result<(), SqlError> {
    let Some((seam, notes)) = compaction::seam_of(body) else {
        return Ok(());
    };
    let insert = "INSERT INTO compactions (session, seam, upto, turn, at, reason, notes) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let args = [
        place.session.as_str().into(),
        seq.into(),
        seam.upto.into(),
        place.turn.as_str().into(),
        place.now.into(),
        seam.reason.as_str().into(),
        notes.into(),
    ];
    tx.conn.run(insert, &args).await?;
    Ok(())
}

/// The one that counts.
pub async fn newest(conn: &mut Conn, session: &SessionId) -> Result<Option<Compaction>, SqlError> {
    let select = "SELECT seam, upto, turn, at, reason, notes FROM compactions \
                  WHERE session = $1 ORDER BY seam DESC LIMIT 1";
    let Some(row) = conn.row(select, &[session.as_str().into()]).await? else {
        return Ok(None);
    };
    let word = row.text(4)?;
    let reason = Reason::parse(&word);
    Ok(Some(Compaction {
        seam: row.int(0)?,
        upto: row.int(1)?,
        turn: TurnId(row.text(2)?),
        at: row.int(3)?,
        reason: reason.ok_or_else(|| SqlError::decode(format!("reason {word}")))?,
        notes: row.text(5)?,
    }))
}
