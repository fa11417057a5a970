//! Retention. Each command deletes a bounded number of rows, so that it never blocks the writer.

use skep_core::Millis;
use skep_db::{Refusal, Run, Tx, args};

use crate::tables::audit;

/// Rows that one command deletes from one table.
const BITE: i64 = 500;
/// Channels whose frames one command looks at.
const CHANNELS: usize = 50;

/// Lets go of events, frames, remembered ids, files and audit rows that are older than their time.
/// The newest event stays: numbers given after it go on from there.
pub struct Expire {
    pub events_before: Millis,
    pub frames_before: Millis,
    /// Frames of the channels behind this one are looked at.
    pub frames_after: String,
    /// Ids of messages that ended before this may be used again.
    pub ids_before: Millis,
    /// Unreferenced files from before this time are deleted.
    pub files_before: Millis,
    pub audit_before: Millis,
    pub now: Millis,
}

impl Run for Expire {
    /// Where there is more: the channel behind which it goes on.
    type Out = Option<String>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Option<String>, Refusal> {
        // The oldest have the lowest numbers.
        let ends = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)";
        let (first, last): (Option<i64>, Option<i64>) =
            tx.conn.one(ends, &[], "the events have no ends").await?;
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let events = "DELETE FROM events WHERE seq >= $1 AND seq < $2 AND at < $3";
        let end = last.min(first + BITE);
        let args = args![first, end, self.events_before];
        let mut gone = tx.conn.run(events, &args).await?;
        let mut frames_after = self.frames_after.clone();
        let more_frames = self.frames(tx, &mut frames_after).await?;
        // By their own age first: a message cannot have ended before it was accepted. Other
        // requests have no item.
        let ids = "DELETE FROM requests WHERE (scope, id) IN (SELECT r.scope, r.id \
                   FROM requests r WHERE r.created_at < $1 AND (r.item = '' OR EXISTS \
                   (SELECT 1 FROM items i WHERE i.id = r.item AND i.finished_at < $1)) \
                   ORDER BY r.created_at LIMIT $2)";
        gone += tx.conn.run(ids, &args![self.ids_before, BITE]).await?;
        let files = "DELETE FROM files WHERE uses = 0 AND hash IN (SELECT hash FROM files \
                     WHERE uses = 0 AND added_at < $1 ORDER BY added_at LIMIT $2)";
        gone += tx.conn.run(files, &args![self.files_before, BITE]).await?;
        let more = audit::expire(tx, self.audit_before, BITE, self.now).await?;
        let more = more || gone > 0 || more_frames;
        Ok(more.then_some(frames_after))
    }
}

impl Expire {
    /// Whether there is more behind the channel `after`. By channel, in which the oldest come
    /// first: an index by age would cost every frame a page more.
    async fn frames(&self, tx: &mut Tx<'_>, after: &mut String) -> Result<bool, Refusal> {
        let next = "SELECT id FROM channels WHERE id > $1 ORDER BY id LIMIT $2";
        let channels: Vec<String> = tx.conn.list(next, &args![*after, CHANNELS]).await?;
        let more = channels.len() == CHANNELS;
        let mut gone = 0;
        for channel in channels {
            // Frames of items that are not ended stay, whatever their age.
            let old = "SELECT o.seq FROM outbox o WHERE o.channel = $1 AND o.at < $2 \
                       AND o.seq < $3 + (SELECT min(seq) FROM outbox WHERE channel = $1) \
                       AND (o.item IS NULL OR EXISTS (SELECT 1 FROM items i \
                       WHERE i.id = o.item AND i.finished_at IS NOT NULL)) ORDER BY o.seq";
            let old: Vec<i64> =
                tx.conn.list(old, &args![channel, self.frames_before, BITE]).await?;
            gone += old.len();
            for seq in &old {
                let delete = "DELETE FROM outbox WHERE channel = $1 AND seq = $2";
                tx.conn.run(delete, &args![channel, seq]).await?;
            }
            if let Some(last) = old.last() {
                let floor = "UPDATE channels SET floor_seq = $2 WHERE id = $1 AND floor_seq < $2";
                tx.conn.run(floor, &args![channel, last]).await?;
            }
            if gone >= BITE as usize {
                return Ok(true);
            }
            *after = channel;
        }
        Ok(more)
    }
}
