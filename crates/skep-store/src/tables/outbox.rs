//! Channels and the frames that leave through them. A frame's `seq` comes from its channel's row.

use serde_json::Value as Json;
use skep_core::Millis;
use skep_core::channel::Delivery;
use skep_core::frame::{Frame, FrameKind, FrameState, UndeliveredFrame};
use skep_core::ids::{ChannelId, ItemId, Principal};

use crate::engine::command::Run;
use crate::engine::conn::{Conn, PAGE_BYTES, PAGE_ROWS, Row};
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::Tx;

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
        let args = [self.channel.as_str().into(), self.principal.as_str().into(), self.now.into()];
        tx.conn.run(insert, &args).await?;
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
            let (state, next_at, reason) = match &record.delivery {
                Delivery::Delivered => (FrameState::Delivered, None, None),
                Delivery::Absent => continue,
                Delivery::Retry { at } => (FrameState::Pending, Some(*at), None),
                Delivery::Refused { why } => (FrameState::Refused, None, Some(why.as_str())),
            };
            let update = "UPDATE outbox SET state = $4, attempts = attempts + 1, next_at = $5, \
                          reason = $6 WHERE channel = $1 AND seq >= $2 AND seq <= $3 \
                          AND state = 'pending'";
            let args = [
                record.channel.as_str().into(),
                record.from.into(),
                record.to.into(),
                state.as_str().into(),
                next_at.into(),
                reason.into(),
            ];
            tx.conn.run(update, &args).await?;
        }
        Ok(())
    }

    fn cost(&self) -> usize {
        self.records.len() * std::mem::size_of::<FrameRecord>()
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
    let next = "UPDATE channels SET last_seq = last_seq + 1 WHERE id = $1 RETURNING last_seq";
    let row = tx.conn.row(next, &[new.channel.as_str().into()]).await?;
    let row = row.ok_or_else(|| Refusal::not_found(format!("channel {}", new.channel)))?;
    let seq = row.int(0)?;
    let insert = "INSERT INTO outbox (channel, seq, id, kind, item, at, payload) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let payload = new.payload.to_string();
    let args = [
        new.channel.as_str().into(),
        seq.into(),
        (&new.id).into(),
        new.kind.as_str().into(),
        new.item.as_str().into(),
        new.now.into(),
        (&payload).into(),
    ];
    tx.conn.run(insert, &args).await?;
    tx.frame(Frame {
        channel: new.channel.clone(),
        seq,
        id: new.id,
        kind: new.kind,
        at: new.now,
        payload: new.payload,
    });
    Ok(())
}

/// A page of durable frames after `since`, in order, whatever became of them.
pub async fn frames_since(
    conn: &mut Conn,
    channel: &ChannelId,
    since: i64,
) -> Result<Vec<Frame>, SqlError> {
    let select = "SELECT channel, seq, id, kind, at, payload FROM outbox \
                  WHERE channel = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    let args = [channel.as_str().into(), since.into(), PAGE_ROWS.into()];
    let rows = conn.page(select, &args, PAGE_BYTES).await?;
    rows.iter().map(decode).collect()
}

/// A frame that is to be sent, not before `not_before`.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingFrame {
    pub frame: Frame,
    pub not_before: Option<Millis>,
}

/// The first undelivered frame of a channel after `after`.
pub async fn next_undelivered(
    conn: &mut Conn,
    channel: &ChannelId,
    after: i64,
) -> Result<Option<PendingFrame>, SqlError> {
    let select = "SELECT channel, seq, id, kind, at, payload, next_at FROM outbox \
                  WHERE state = 'pending' AND channel = $1 AND seq > $2 ORDER BY seq LIMIT 1";
    let row = conn.row(select, &[channel.as_str().into(), after.into()]).await?;
    row.as_ref().map(undelivered).transpose()
}

/// The first undelivered frame of the next channel after this one whose id begins with the word.
pub async fn first_undelivered(
    conn: &mut Conn,
    word: &str,
    after: &str,
) -> Result<Option<PendingFrame>, SqlError> {
    // `;` is the sign behind `:`.
    let (first, end) = (format!("{word}:"), format!("{word};"));
    let select = "SELECT channel, seq, id, kind, at, payload, next_at FROM outbox \
                  WHERE state = 'pending' AND channel > $1 AND channel < $2 \
                  ORDER BY channel, seq LIMIT 1";
    let row = conn.row(select, &[after.max(&first).into(), (&end).into()]).await?;
    row.as_ref().map(undelivered).transpose()
}

fn undelivered(row: &Row) -> Result<PendingFrame, SqlError> {
    Ok(PendingFrame { frame: decode(row)?, not_before: row.int_opt(6)? })
}

/// The frames about one item that were tried and are not delivered, in order.
pub async fn undelivered_of_item(
    conn: &mut Conn,
    item: &ItemId,
) -> Result<Vec<UndeliveredFrame>, SqlError> {
    let select = "SELECT kind, state, attempts, next_at, reason FROM outbox WHERE item = $1 \
                  AND (state = 'refused' OR (state = 'pending' AND attempts > 0)) \
                  ORDER BY channel, seq";
    let rows = conn.rows(select, &[item.as_str().into()]).await?;
    let frames = rows.iter().map(|row| {
        let state = row.text(1)?;
        Ok(UndeliveredFrame {
            kind: kind(&row.text(0)?)?,
            state: FrameState::parse(&state)
                .ok_or_else(|| SqlError::decode(format!("frame state {state}")))?,
            attempts: row.int(2)?,
            next_at: row.int_opt(3)?,
            reason: row.text_opt(4)?,
        })
    });
    frames.collect()
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
    let rows = conn.rows(select, &[channel.as_str().into(), item.as_str().into()]).await?;
    let mut frames = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    frames.sort_by_key(|frame| frame.seq);
    Ok(frames)
}

fn decode(row: &Row) -> Result<Frame, SqlError> {
    Ok(Frame {
        channel: ChannelId(row.text(0)?),
        seq: row.int(1)?,
        id: row.text(2)?,
        kind: kind(&row.text(3)?)?,
        at: row.int(4)?,
        payload: serde_json::from_str(&row.text(5)?)
            .map_err(|error| SqlError::decode(format!("frame payload: {error}")))?,
    })
}

fn kind(word: &str) -> Result<FrameKind, SqlError> {
    FrameKind::parse(word).ok_or_else(|| SqlError::decode(format!("frame kind {word}")))
}

/// A channel's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    pub principal: Principal,
    pub last_seq: i64,
    pub floor_seq: i64,
}

pub async fn channel(conn: &mut Conn, id: &ChannelId) -> Result<Option<ChannelRow>, SqlError> {
    let select = "SELECT principal, last_seq, floor_seq FROM channels WHERE id = $1";
    let row = conn.row(select, &[id.as_str().into()]).await?;
    let channel = row.map(|row| {
        Ok(ChannelRow {
            principal: Principal(row.text(0)?),
            last_seq: row.int(1)?,
            floor_seq: row.int(2)?,
        })
    });
    channel.transpose()
}
