//! One item of the inbox taken by itself: looking at it, ending it, trying it again.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::engine::FailureCode;
use skep_core::event::{CancelReason, Event, EventKind, ItemState, TurnState};
use skep_core::frame::FrameKind;
use skep_core::ids::{AgentId, AgentName, ChannelId, ItemId, LaneId, MessageId, SessionId, TurnId};

use crate::engine::command::Run;
use crate::engine::conn::Conn;
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::Tx;
use crate::tables::agents::{Tally, tally};
use crate::tables::inbox::{self, Accept, Accepted, EndedTurn};
use crate::tables::lanes::{self, turn_state};
use crate::tables::leases;
use crate::tables::outbox::{self, NewFrame};
use crate::tables::pending::cause;

/// What a list of items does not say about one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemTrace {
    pub started_at: Option<Millis>,
    pub session: Option<SessionId>,
    /// Model calls of its turn.
    pub steps: i64,
    pub waiting_for: Option<String>,
    /// The item this one is another try of.
    pub retry_of: Option<ItemId>,
    /// Its newest try.
    pub retried_as: Option<ItemId>,
}

pub async fn trace(conn: &mut Conn, item: &ItemId) -> Result<ItemTrace, SqlError> {
    let select = "SELECT i.started_at, t.session, t.steps, t.waiting_for, i.retry_of, \
                  i.retried_by FROM items i LEFT JOIN turns t ON t.id = i.turn WHERE i.id = $1";
    let Some(row) = conn.row(select, &[item.as_str().into()]).await? else {
        return Ok(ItemTrace::default());
    };
    Ok(ItemTrace {
        started_at: row.int_opt(0)?,
        session: row.text_opt(1)?.map(SessionId),
        steps: row.int_opt(2)?.unwrap_or(0),
        waiting_for: row.text_opt(3)?,
        retry_of: row.text_opt(4)?.map(ItemId),
        retried_as: row.text_opt(5)?.map(ItemId),
    })
}

async fn newest_try(
    conn: &mut Conn,
    item: &ItemId,
) -> Result<Option<(ItemId, ItemState)>, SqlError> {
    let select = "SELECT r.id, r.state FROM items i JOIN items r ON r.id = i.retried_by \
                  WHERE i.id = $1";
    let row = conn.row(select, &[item.as_str().into()]).await?;
    row.map(|row| Ok((ItemId(row.text(0)?), item_state(&row.text(1)?)?))).transpose()
}

fn item_state(word: &str) -> Result<ItemState, SqlError> {
    ItemState::parse(word).ok_or_else(|| SqlError::decode(format!("item state {word}")))
}

fn is_open(state: ItemState) -> bool {
    matches!(state, ItemState::Pending | ItemState::Running | ItemState::Waiting)
}

/// Ends an item. One that nobody has begun ends here, with the error its sender is owed; one that
/// belongs to a turn ends with the turn.
pub struct CancelItem {
    pub item: ItemId,
    pub reason: CancelReason,
    pub now: Millis,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cancelled {
    Ended,
    /// Its turn was asked to end.
    Stopping(EndedTurn),
}

struct Found {
    state: ItemState,
    lane: LaneId,
    agent: AgentId,
    agent_name: AgentName,
    message_id: MessageId,
    channel: Option<ChannelId>,
    turn: Option<(TurnId, TurnState)>,
    /// Another turn holds the lane.
    held: bool,
}

impl Run for CancelItem {
    type Out = Cancelled;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let found = self.find(tx).await?;
        if !is_open(found.state) {
            let detail = format!(
                "the item {} is {} already; there is nothing to cancel",
                self.item,
                found.state.as_str()
            );
            return Err(Refusal::conflict("already_ended", detail));
        }
        match &found.turn {
            Some((turn, state)) => {
                leases::request_cancel(tx, turn, self.reason, self.now).await?;
                let idle = *state != TurnState::Running;
                Ok(Cancelled::Stopping(EndedTurn { turn: turn.clone(), idle }))
            }
            None => self.end(tx, &found).await.map(|()| Cancelled::Ended),
        }
    }
}

impl CancelItem {
    async fn find(&self, tx: &mut Tx<'_>) -> Result<Found, Refusal> {
        let select = "SELECT i.state, i.lane, i.agent, a.name, i.message_id, i.channel, \
                      t.id, t.state, EXISTS (SELECT 1 FROM turns o WHERE o.lane = i.lane \
                      AND o.ended_at IS NULL) FROM items i JOIN agents a ON a.id = i.agent \
                      LEFT JOIN turns t ON t.id = i.turn WHERE i.id = $1";
        let row = tx.conn.row(select, &[self.item.as_str().into()]).await?;
        let row = row.ok_or_else(|| Refusal::not_found(format!("item {}", self.item)))?;
        let turn = match (row.text_opt(6)?, row.text_opt(7)?) {
            (Some(id), Some(state)) => Some((TurnId(id), turn_state(&state)?)),
            _ => None,
        };
        Ok(Found {
            state: item_state(&row.text(0)?)?,
            lane: LaneId(row.int(1)?),
            agent: AgentId(row.int(2)?),
            agent_name: AgentName(row.text(3)?),
            message_id: MessageId(row.text(4)?),
            channel: row.text_opt(5)?.map(ChannelId),
            turn,
            held: row.bool(8)?,
        })
    }

    async fn end(&self, tx: &mut Tx<'_>, found: &Found) -> Result<(), Refusal> {
        let (code, text) = match self.reason {
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
        let args = [self.item.as_str().into(), code.into(), text.into(), self.now.into()];
        tx.conn.run(end, &args).await?;
        let less = "UPDATE lanes SET pending = pending - 1 WHERE id = $1";
        tx.conn.run(less, &[found.lane.0.into()]).await?;
        tally(tx, found.agent, Tally { pending: -1, ..Tally::default() }).await?;
        // It may have been the head of a lane that is free.
        if !found.held {
            lanes::refresh(tx, found.lane, found.agent, self.now).await?;
        }
        if let Some(channel) = &found.channel {
            let payload = json!({
                "code": code, "error": text, "in_reply_to": [found.message_id],
                "agent": found.agent_name,
            });
            let id = format!("{}.end", self.item);
            let (kind, now) = (FrameKind::Error, self.now);
            let frame = NewFrame { id, channel, item: &self.item, kind, payload, now };
            outbox::push(tx, frame).await?;
        }
        let kind = EventKind::InboxEnded {
            item: self.item.clone(),
            message_id: found.message_id.clone(),
            state: ItemState::Cancelled,
        };
        tx.event(Event::of(found.agent, &found.agent_name, self.now, kind));
        Ok(())
    }
}

/// The same message again, as a new item that is linked to the old one.
pub struct Retry {
    pub of: ItemId,
    pub accept: Accept,
}

impl Run for Retry {
    type Out = Accepted;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let select = "SELECT state, kind, cause FROM items WHERE id = $1";
        let row = tx.conn.row(select, &[self.of.as_str().into()]).await?;
        let row = row.ok_or_else(|| Refusal::not_found(format!("item {}", self.of)))?;
        let state = item_state(&row.text(0)?)?;
        let refused = match cause(&row, 1, 2)? {
            Cause::Command(_) => Some("a command; send it again instead"),
            Cause::Approved(_) | Cause::Again(_) => {
                Some("there to run one call; ask the agent for the call again")
            }
            Cause::Message if state == ItemState::Done => {
                Some("answered; send it again if you want another answer")
            }
            Cause::Message if is_open(state) => Some("not ended yet; cancel it first"),
            Cause::Message => None,
            _ => Some("no message of a person"),
        };
        if let Some(why) = refused {
            let detail = format!("the item {} is {why}", self.of);
            return Err(Refusal::conflict("not_retryable", detail));
        }
        // The same key again: the answer is the earlier retry.
        if let Some(repeated) = inbox::repeated(tx, &self.accept.letter).await? {
            return Ok(Accepted::Repeated(repeated));
        }
        if let Some((id, state)) = newest_try(tx.conn, &self.of).await?
            && is_open(state)
        {
            let detail = format!("the item {} is tried again already, as {id}", self.of);
            return Err(Refusal::conflict("already_retried", detail));
        }
        let accepted = self.accept.run(tx).await?;
        let (item, of) = (self.accept.letter.item.as_str(), self.of.as_str());
        let links = [
            "UPDATE items SET retry_of = $2 WHERE id = $1",
            "UPDATE items SET retried_by = $1 WHERE id = $2",
        ];
        for link in links {
            tx.conn.run(link, &[item.into(), of.into()]).await?;
        }
        Ok(accepted)
    }

    fn cost(&self) -> usize {
        self.accept.cost() + 64
    }
}
