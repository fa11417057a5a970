//! Pending items: accepted, and not yet part of a turn.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::engine::FailureCode;
use skep_core::event::{CancelReason, Event, EventKind, ItemState};
use skep_core::file::File;
use skep_core::frame::FrameKind;
use skep_core::ids::{AgentId, AgentName, ChannelId, ItemId, LaneId, MessageId};
use skep_core::settings::Think;
use skep_core::tool::ChainOrigin;
use skep_db::{Conn, Refusal, SqlError, Tx, args, record};

use crate::tables::agents::{Tally, tally};
use crate::tables::files;
use crate::tables::inbox::UserText;
use crate::tables::lanes;
use crate::tables::outbox::{self, NewFrame};

macro_rules! next_items {
    ($which:literal) => {
        concat!(
            "SELECT id, message_id, channel, principal, body, priority, ord, fresh, kind, cause, ",
            "files, think, skill_text, options, coalesce(origin_channel, channel), origin_topic, ",
            "coalesce(origin_principal, principal) FROM items ",
            "WHERE lane = $1 AND state = 'pending' AND turn IS NULL ",
            $which,
            "ORDER BY priority, ord LIMIT $2"
        )
    };
}

/// A pending item.
pub(crate) struct PendingItem {
    pub id: ItemId,
    pub message_id: MessageId,
    pub channel: Option<String>,
    pub principal: String,
    pub origin: ChainOrigin,
    pub body: String,
    pub priority: i64,
    pub ord: i64,
    /// Its turn begins a new session.
    pub fresh: bool,
    pub cause: Cause,
    has_files: bool,
    pub files: Vec<File>,
    pub think: Option<Think>,
    pub skill: Option<String>,
    pub options: ItemOptions,
}

record! { PendingItem {
    id, message_id, channel, principal, body, priority, ord, fresh, cause, has_files, think,
    skill, options, origin; files = Vec::new()
} }

impl PendingItem {
    /// The first pending items of a lane.
    pub async fn next(tx: &mut Tx<'_>, lane: LaneId, most: i64) -> Result<Vec<Self>, SqlError> {
        Self::list(tx, next_items!(""), lane, most).await
    }

    /// Of those, what may join a turn that runs. Messages of other agents wait for the call that
    /// reads them, or for a turn of their own, and nothing waits behind them.
    pub async fn joining(tx: &mut Tx<'_>, lane: LaneId, most: i64) -> Result<Vec<Self>, SqlError> {
        Self::list(tx, next_items!("AND kind <> 'peer' "), lane, most).await
    }

    async fn list(
        tx: &mut Tx<'_>,
        select: &'static str,
        lane: LaneId,
        most: i64,
    ) -> Result<Vec<Self>, SqlError> {
        let mut items: Vec<Self> = tx.conn.list(select, &args![lane, most]).await?;
        for item in items.iter_mut().filter(|item| item.has_files) {
            item.files = files::of_item(tx.conn, &item.id).await?;
        }
        Ok(items)
    }

    pub fn text(&self, now: Millis) -> UserText<'_> {
        UserText {
            item: &self.id,
            cause: &self.cause,
            message_id: &self.message_id,
            channel: self.channel.as_deref(),
            principal: &self.principal,
            origin: &self.origin,
            text: &self.body,
            skill: self.skill.as_deref(),
            files: self.files.clone(),
            peers: 0,
            now,
        }
    }
}

/// Messages of other agents that wait in a lane.
pub(crate) async fn peers(conn: &mut Conn, lane: LaneId) -> Result<i64, SqlError> {
    let count = "SELECT count(*) FROM items WHERE lane = $1 AND state = 'pending' \
                 AND turn IS NULL AND kind = 'peer'";
    conn.one(count, &args![lane], "a count has a row").await
}

/// A pending item that is to end.
struct Unbegun {
    lane: LaneId,
    agent: AgentId,
    agent_name: AgentName,
    message_id: MessageId,
    channel: Option<ChannelId>,
    /// A turn holds the lane.
    held: bool,
}

record!(Unbegun { lane, agent, agent_name, message_id, channel, held });

/// Ends an item that nobody has begun, with the error its sender is owed. One that was begun, or
/// has ended, stays as it is.
pub(crate) async fn end(
    tx: &mut Tx<'_>,
    item: &ItemId,
    reason: CancelReason,
    now: Millis,
) -> Result<(), Refusal> {
    let select = "SELECT i.lane, i.agent, a.name, i.message_id, i.channel, \
                  EXISTS (SELECT 1 FROM turns o WHERE o.lane = i.lane AND o.ended_at IS NULL) \
                  FROM items i JOIN agents a ON a.id = i.agent \
                  WHERE i.id = $1 AND i.state = 'pending' AND i.turn IS NULL";
    let found: Option<Unbegun> = tx.conn.find(select, &args![item]).await?;
    let Some(found) = found else { return Ok(()) };
    let (code, text) = match reason {
        CancelReason::ClientGone => (
            FailureCode::ClientGone,
            "The client closed its connection before the message was begun; the agent never \
             saw it.",
        ),
        CancelReason::Stop | CancelReason::Interrupt => {
            (FailureCode::Cancelled, "Cancelled before it was begun; the agent never saw it.")
        }
    };
    let code = code.as_str();
    let end = "UPDATE items SET state = 'cancelled', error_code = $2, error = $3, \
               finished_at = $4 WHERE id = $1";
    tx.conn.run(end, &args![item, code, text, now]).await?;
    let less = "UPDATE lanes SET pending = pending - 1 WHERE id = $1";
    tx.conn.run(less, &args![found.lane]).await?;
    tally(tx, found.agent, Tally { pending: -1, ..Tally::default() }).await?;
    // It may have been the head of a lane that is free.
    if !found.held {
        lanes::refresh(tx, found.lane, found.agent, now).await?;
    }
    if let Some(channel) = &found.channel {
        let payload = json!({
            "code": code, "error": text, "in_reply_to": [found.message_id],
            "agent": found.agent_name,
        });
        let (id, kind) = (format!("{item}.end"), FrameKind::Error);
        outbox::push(tx, NewFrame { id, channel, item, kind, payload, now }).await?;
    }
    let kind = EventKind::InboxEnded {
        item: item.clone(),
        message_id: found.message_id,
        state: ItemState::Cancelled,
        code: Some(code.to_owned()),
        error: Some(text.to_owned()),
    };
    tx.event(Event::of(found.agent, &found.agent_name, now, kind));
    Ok(())
}
