//! One item of the inbox taken by itself: looking at it, ending it, trying it again.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::engine::FailureCode;
use skep_core::event::{CancelReason, Event, EventKind, ItemState, TurnState};
use skep_core::frame::FrameKind;
use skep_core::ids::{AgentId, AgentName, ChannelId, ItemId, LaneId, MessageId, SessionId, TurnId};
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

use crate::tables::agents::{Tally, tally};
use crate::tables::inbox::{self, Accept, Accepted, EndedTurn};
use crate::tables::lanes;
use crate::tables::leases;
use crate::tables::outbox::{self, NewFrame};
use crate::tables::sessions::ForkSession;

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

record!(ItemTrace { started_at, session, steps, waiting_for, retry_of, retried_as });

pub async fn trace(conn: &mut Conn, item: &ItemId) -> Result<ItemTrace, SqlError> {
    let select = "SELECT i.started_at, t.session, COALESCE(t.steps, 0), t.waiting_for, i.retry_of, \
                  i.retried_by FROM items i LEFT JOIN turns t ON t.id = i.turn WHERE i.id = $1";
    Ok(conn.find(select, &args![item]).await?.unwrap_or_default())
}

async fn newest_try(
    conn: &mut Conn,
    item: &ItemId,
) -> Result<Option<(ItemId, ItemState)>, SqlError> {
    let select = "SELECT r.id, r.state FROM items i JOIN items r ON r.id = i.retried_by \
                  WHERE i.id = $1";
    conn.find(select, &args![item]).await
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

record!(Found { state, lane, agent, agent_name, message_id, channel, turn, held });

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
        let found = tx.conn.find(select, &args![self.item]).await?;
        found.ok_or_else(|| Refusal::not_found(format!("item {}", self.item)))
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
        let args = args![self.item, code, text, self.now];
        tx.conn.run(end, &args).await?;
        let less = "UPDATE lanes SET pending = pending - 1 WHERE id = $1";
        tx.conn.run(less, &args![found.lane]).await?;
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
            code: Some(code.to_owned()),
            error: Some(text.to_owned()),
        };
        tx.event(Event::of(found.agent, &found.agent_name, self.now, kind));
        Ok(())
    }
}

/// The same message again, as a new item that is linked to the old one.
pub struct Retry {
    pub of: ItemId,
    pub accept: Accept,
    /// Also where it was answered: in this copy, which ends before the message and takes the place
    /// of the session.
    pub fork: Option<ForkSession>,
}

impl Run for Retry {
    type Out = Accepted;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let select = "SELECT state, kind, cause FROM items WHERE id = $1";
        let found: Option<(ItemState, Cause)> = tx.conn.find(select, &args![self.of]).await?;
        let (state, cause) =
            found.ok_or_else(|| Refusal::not_found(format!("item {}", self.of)))?;
        let refused = match cause {
            Cause::Command(_) => Some("a command; send it again instead"),
            Cause::Approved(_) | Cause::Again(_) => {
                Some("there to run one call; ask the agent for the call again")
            }
            // Whether the conversation is free for it is looked at there.
            Cause::Message if self.fork.is_some() => None,
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
        if let Some(fork) = &self.fork {
            fork.replace(tx).await?;
        }
        let accepted = self.accept.run(tx).await?;
        let (item, of) = (self.accept.letter.item.as_str(), self.of.as_str());
        let links = [
            "UPDATE items SET retry_of = $2 WHERE id = $1",
            "UPDATE items SET retried_by = $1 WHERE id = $2",
        ];
        for link in links {
            tx.conn.run(link, &args![item, of]).await?;
        }
        Ok(accepted)
    }

    fn cost(&self) -> usize {
        self.accept.cost() + 64
    }
}
