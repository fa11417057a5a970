//! One item of the inbox taken by itself: looking at it, ending it, trying it again.

use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::event::{CancelReason, ItemState, TurnState};
use skep_core::ids::{ItemId, SessionId, TurnId};
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

use crate::tables::inbox::{self, Accept, Accepted, EndedTurn};
use crate::tables::leases;
use crate::tables::org;
use crate::tables::pending;
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
    turn: Option<(TurnId, TurnState)>,
}

record!(Found { state, turn });

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
            None => {
                pending::end(tx, &self.item, self.reason, self.now).await?;
                org::cancel::unbegun(tx, &self.item, self.now).await?;
                Ok(Cancelled::Ended)
            }
        }
    }
}

impl CancelItem {
    async fn find(&self, tx: &mut Tx<'_>) -> Result<Found, Refusal> {
        let select = "SELECT i.state, t.id, t.state FROM items i \
                      LEFT JOIN turns t ON t.id = i.turn WHERE i.id = $1";
        let found = tx.conn.find(select, &args![self.item]).await?;
        found.ok_or_else(|| Refusal::not_found(format!("item {}", self.item)))
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
            _ => Some("no message of a person; ask the agent that gave it to give it again"),
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
