//! Channels and the frames that leave through them. A frame's `seq` comes from its channel's row.

use serde_json::Value as Json;
use skep_core::Millis;
use skep_core::channel::Delivery;
use skep_core::frame::{Frame, FrameKind, FrameState, UndeliveredFrame};
use skep_core::ids::{ChannelId, ItemId, Principal};
use skep_db::{Conn, PAGE_ROWS, Refusal, Run, SqlError, Tx, args, record};

/// A new channel; it belongs to the principal that opened it.
pub struct OpenChannel {
    pub channel: ChannelId,
    pub principal: Principal,
    pub now: Millis,
}

impl Run for OpenChannel {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let insert = "INSERT INTO channels (id, principal, created_at) VALUES ($1, $2, $3)";
        tx.conn.run(insert, &args![self.channel, self.principal, self.now]).await?;
        Ok(())
    }
}

/// What became of frames that were sent. A frame that nobody took stays as it is.
pub struct RecordFrames {
    pub records: Vec<FrameRecord>,
}

/// The same holds for each frame `from..=to` of the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    pub channel: ChannelId,
    pub from: i64,
    pub to: i64,
    pub delivery: Delivery,
}

impl Run for RecordFrames {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        for record in &self.records {
            let in_order = record.is_in_order(tx).await?;
            let (state, next_at, reason) = match &record.delivery {
                Delivery::Delivered => (FrameState::Delivered, None, None),
                Delivery::Absent => continue,
                Delivery::Retry { at } => (FrameState::Pending, Some(*at), None),
                Delivery::Refused { why } => (FrameState::Refused, None, Some(why.as_str())),
            };
            let rows = match (in_order, &record.delivery) {
                // Of these, only one that was put off has to say more than its channel.
                (true, Delivery::Delivered) => update_frames!("AND attempts > 0"),
                _ => update_frames!(""),
            };
            let args = args![record.channel, record.from, record.to, state, next_at, reason];
            tx.conn.run(rows, &args).await?;
            if in_order {
                let tried = "UPDATE channels SET tried_seq = $2 WHERE id = $1 AND tried_seq < $2";
                tx.conn.run(tried, &args![record.channel, record.to]).await?;
            }
        }
        Ok(())
    }

    fn cost(&self) -> usize {
        self.records.len() * std::mem::size_of::<FrameRecord>()
    }
}

macro_rules! update_frames {
    ($which:literal) => {
        concat!(
            "UPDATE outbox SET state = $4, attempts = attempts + 1, next_at = $5, reason = $6 ",
            "WHERE channel = $1 AND seq >= $2 AND seq <= $3 AND state = 'pending' ",
            $which
        )
    };
}
use update_frames;

impl FrameRecord {
    /// Whether no frame before these waits for its first try.
    async fn is_in_order(&self, tx: &mut Tx<'_>) -> Result<bool, Refusal> {
        let waits = "SELECT EXISTS (SELECT 1 FROM outbox o WHERE o.channel = $1 AND o.seq < $2 \
                     AND o.seq > (SELECT tried_seq FROM channels WHERE id = $1) \
                     AND o.state = 'pending' AND o.attempts = 0)";
        let waits: bool = tx.conn.one(waits, &args![self.channel, self.from], "no answer").await?;
        Ok(!waits)
    }
}

/// A frame before it has its place.
pub(crate) struct NewFrame<'a> {
    pub id: String,
    pub channel: &'a ChannelId,
    pub item: &'a ItemId,
    pub kind: FrameKind,
    pub payload: Json,
    pub now: Millis,
}

pub(crate) async fn push(tx: &mut Tx<'_>, new: NewFrame<'_>) -> Result<(), Refusal> {
    let channel = new.channel;
    let known = push_if_known(tx, new).await?;
    known.then_some(()).ok_or_else(|| Refusal::not_found(format!("channel {channel}")))
}

/// False: there is no such channel.
pub(crate) async fn push_if_known(tx: &mut Tx<'_>, new: NewFrame<'_>) -> Result<bool, Refusal> {
    // Two statements: a `RETURNING` makes a table of its own for its rows.
    let last = "SELECT last_seq FROM channels WHERE id = $1";
    let Some(last) = tx.conn.find::<i64>(last, &args![new.channel]).await? else {
        return Ok(false);
    };
    let seq = last + 1;
    let next = "UPDATE channels SET last_seq = $2 WHERE id = $1";
    tx.conn.run(next, &args![new.channel, seq]).await?;
    let insert = "INSERT INTO outbox (channel, seq, id, kind, item, at, payload) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let payload = new.payload.to_string();
    let args = args![new.channel, seq, new.id, new.kind, new.item, new.now, payload];
    tx.conn.run(insert, &args).await?;
    tx.frame(Frame {
        channel: new.channel.clone(),
        seq,
        id: new.id,
        kind: new.kind,
        at: new.now,
        payload: new.payload,
    });
    Ok(true)
}

/// A page of durable frames after `since`, in order, whatever became of them.
pub async fn frames_since(
    conn: &mut Conn,
    channel: &ChannelId,
    since: i64,
) -> Result<Vec<Frame>, SqlError> {
    let select = "SELECT channel, seq, id, kind, at, payload FROM outbox \
                  WHERE channel = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    conn.page(select, &args![channel, since, PAGE_ROWS]).await
}

/// A frame that is to be sent, not before `not_before`.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingFrame {
    pub frame: Frame,
    pub not_before: Option<Millis>,
}

record!(PendingFrame { frame, not_before });

/// The first frame of a channel after `after` that is to be sent.
pub async fn next_undelivered(
    conn: &mut Conn,
    channel: &ChannelId,
    after: i64,
) -> Result<Option<PendingFrame>, SqlError> {
    let put_off = "SELECT channel, seq, id, kind, at, payload, next_at FROM outbox \
                   WHERE state = 'pending' AND attempts > 0 AND channel = $1 AND seq > $2 \
                   ORDER BY seq LIMIT 1";
    let put_off: Option<PendingFrame> = conn.find(put_off, &args![channel, after]).await?;
    let untried = "SELECT channel, seq, id, kind, at, payload, next_at FROM outbox \
                   WHERE state = 'pending' AND channel = $1 \
                   AND seq > max($2, (SELECT tried_seq FROM channels WHERE id = $1)) \
                   ORDER BY seq LIMIT 1";
    let untried: Option<PendingFrame> = conn.find(untried, &args![channel, after]).await?;
    Ok(put_off.into_iter().chain(untried).min_by_key(|next| next.frame.seq))
}

/// The next channel after this one whose id begins with the word and that may have a frame to send.
pub async fn next_channel(
    conn: &mut Conn,
    word: &str,
    after: &str,
) -> Result<Option<ChannelId>, SqlError> {
    // `;` is the sign behind `:`.
    let (first, end) = (format!("{word}:"), format!("{word};"));
    let (first, end) = (after.max(&first), end.as_str());
    let put_off = "SELECT channel FROM outbox WHERE state = 'pending' AND attempts > 0 \
                   AND channel > $1 AND channel < $2 ORDER BY channel LIMIT 1";
    let put_off: Option<ChannelId> = conn.find(put_off, &args![first, end]).await?;
    let untried = "SELECT id FROM channels WHERE id > $1 AND id < $2 \
                   AND last_seq > tried_seq ORDER BY id LIMIT 1";
    let untried: Option<ChannelId> = conn.find(untried, &args![first, end]).await?;
    Ok(put_off.into_iter().chain(untried).min())
}

/// The frames about one item that were tried and are not delivered, in order.
pub async fn undelivered_of_item(
    conn: &mut Conn,
    item: &ItemId,
) -> Result<Vec<UndeliveredFrame>, SqlError> {
    let select = "SELECT kind, state, attempts, next_at, reason FROM outbox WHERE item = $1 \
                  AND (state = 'refused' OR (state = 'pending' AND attempts > 0)) \
                  ORDER BY channel, seq";
    conn.list(select, &args![item]).await
}

/// The frames a channel got about one item: its ack and, when it ended, its answer.
pub async fn frames_of_item(
    conn: &mut Conn,
    channel: &ChannelId,
    item: &ItemId,
) -> Result<Vec<Frame>, SqlError> {
    let select = "SELECT channel, seq, id, kind, at, payload FROM outbox \
                  WHERE channel = $1 AND (item = $2 OR kind <> 'ack') AND item IN \
                  (SELECT $2 UNION ALL SELECT other.id FROM items own \
                  JOIN items other ON other.turn = own.turn WHERE own.id = $2)";
    let mut frames: Vec<Frame> = conn.list(select, &args![channel, item]).await?;
    frames.sort_by_key(|frame| frame.seq);
    Ok(frames)
}

/// A channel's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    pub principal: Principal,
    pub last_seq: i64,
    pub floor_seq: i64,
}

record!(ChannelRow { principal, last_seq, floor_seq });

pub async fn channel(conn: &mut Conn, id: &ChannelId) -> Result<Option<ChannelRow>, SqlError> {
    let select = "SELECT principal, last_seq, floor_seq FROM channels WHERE id = $1";
    conn.find(select, &args![id]).await
}
