//! Channels and the frames that leave through them. A frame's `seq` comes from its channel's row.

use serde_json::Value as Json;
use skep_core::Millis;
use skep_core::frame::{Frame, FrameKind};
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
    let last = "SELECT last_seq FROM channels WHERE id = $1";
    let row = tx.conn.row(last, &[new.channel.as_str().into()]).await?;
    let row = row.ok_or_else(|| Refusal::not_found(format!("channel {}", new.channel)))?;
    let seq = row.int(0)? + 1;
    let next = "UPDATE channels SET last_seq = $2 WHERE id = $1";
    tx.conn.run(next, &[new.channel.as_str().into(), seq.into()]).await?;
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
    let kind = row.text(3)?;
    Ok(Frame {
        channel: ChannelId(row.text(0)?),
        seq: row.int(1)?,
        id: row.text(2)?,
        kind: FrameKind::parse(&kind)
            .ok_or_else(|| SqlError::decode(format!("frame kind {kind}")))?,
        at: row.int(4)?,
        payload: serde_json::from_str(&row.text(5)?)
            .map_err(|error| SqlError::decode(format!("frame payload: {error}")))?,
    })
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
