//! What models are shown of sessions that grew too long: notes, and the rows after them.

use skep_core::Millis;
use skep_core::compaction::{self, Reason};
use skep_core::ids::{SessionId, TurnId};
use skep_core::message::Body;
use skep_db::{Conn, SqlError, Tx, args, record};

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

record!(Compaction { seam, upto, turn, at, reason, notes });

/// Remembers a row that tells of a compaction; other rows are none of its business.
pub(crate) async fn note(
    tx: &mut Tx<'_>,
    place: &RowPlace<'_>,
    seq: i64,
    body: &Body,
) -> Result<(), SqlError> {
    let Some((seam, notes)) = compaction::seam_of(body) else { return Ok(()) };
    let insert = "INSERT INTO compactions (session, seam, upto, turn, at, reason, notes) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let args = args![place.session, seq, seam.upto, place.turn, place.now, seam.reason, notes];
    tx.conn.run(insert, &args).await?;
    Ok(())
}

/// The one that counts.
pub async fn newest(conn: &mut Conn, session: &SessionId) -> Result<Option<Compaction>, SqlError> {
    let select = "SELECT seam, upto, turn, at, reason, notes FROM compactions \
                  WHERE session = $1 ORDER BY seam DESC LIMIT 1";
    conn.find(select, &args![session]).await
}
