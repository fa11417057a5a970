//! Reading messages in the middle of a turn. What a call has read is its own: once more it reads
//! the same.

use skep_core::Millis;
use skep_core::event::{Event, EventKind, ItemState};
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, LaneId, MessageId, TurnId};

use super::waits;
use crate::tables::agents::{Tally, tally};
use crate::tables::pending;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

/// Takes messages that wait in the conversation of a turn, oldest first.
#[derive(Clone)]
pub struct Receive {
    pub turn: TurnId,
    pub call: CallId,
    pub most: i64,
    /// Where there is none, the call waits until then.
    pub until: Option<Millis>,
    pub now: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// `left`: more that wait.
    Letters { letters: Vec<ReadLetter>, left: i64 },
    /// There is none yet.
    Waits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadLetter {
    pub id: ItemId,
    pub thread: ItemId,
    pub in_reply_to: Option<ItemId>,
    /// Nobody: the operator.
    pub from: Option<AgentName>,
    pub body: String,
    pub created_at: Millis,
}

record!(ReadLetter { id, thread, in_reply_to, from, body, created_at });

/// Whose turn it is.
struct Reader {
    lane: LaneId,
    agent: AgentId,
    agent_name: AgentName,
}

record!(Reader { lane, agent, agent_name });

impl Run for Receive {
    type Out = Received;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Received, Refusal> {
        let select = "SELECT t.lane, t.agent, a.name FROM turns t \
                      JOIN agents a ON a.id = t.agent WHERE t.id = $1 AND t.ended_at IS NULL";
        let reader: Option<Reader> = tx.conn.find(select, &args![self.turn]).await?;
        let reader = reader.ok_or(Refusal::Stale)?;
        let mut letters = self.claimed(tx.conn).await?;
        if letters.is_empty() {
            self.claim(tx, &reader).await?;
            letters = self.claimed(tx.conn).await?;
        }
        if letters.is_empty()
            && let Some(until) = self.until
        {
            waits::insert_receiver(tx, &self.turn, &self.call, until).await?;
            return Ok(Received::Waits);
        }
        waits::end_receiver(tx, &self.turn, &self.call).await?;
        let left = pending::peers(tx.conn, reader.lane).await?;
        Ok(Received::Letters { letters, left })
    }
}

impl Receive {
    fn key(&self) -> String {
        format!("{}/{}", self.turn, self.call)
    }

    async fn claimed(&self, conn: &mut Conn) -> Result<Vec<ReadLetter>, SqlError> {
        let select = "SELECT m.id, m.thread, m.in_reply_to, a.name, m.body, m.created_at \
                      FROM letters m LEFT JOIN agents a ON a.id = m.from_agent \
                      WHERE m.claim = $1 ORDER BY m.created_at";
        conn.list(select, &args![self.key()]).await
    }

    async fn claim(&self, tx: &mut Tx<'_>, reader: &Reader) -> Result<(), Refusal> {
        let next = "SELECT id, message_id FROM items WHERE lane = $1 AND state = 'pending' \
                    AND turn IS NULL AND kind = 'peer' ORDER BY priority, ord LIMIT $2";
        let next: Vec<(ItemId, MessageId)> =
            tx.conn.list(next, &args![reader.lane, self.most]).await?;
        for (item, message_id) in &next {
            let claim = "UPDATE letters SET claim = $2 WHERE id = $1";
            tx.conn.run(claim, &args![item, self.key()]).await?;
            let state = ItemState::Done;
            let end = "UPDATE items SET state = $2, started_at = $3, finished_at = $3 \
                       WHERE id = $1";
            tx.conn.run(end, &args![item, state, self.now]).await?;
            let (item, message_id) = (item.clone(), message_id.clone());
            let kind = EventKind::InboxEnded { item, message_id, state, code: None, error: None };
            tx.event(Event::of(reader.agent, &reader.agent_name, self.now, kind));
        }
        let read = i64::try_from(next.len()).unwrap_or(0);
        if read > 0 {
            let less = "UPDATE lanes SET pending = pending - $2 WHERE id = $1";
            tx.conn.run(less, &args![reader.lane, read]).await?;
            tally(tx, reader.agent, Tally { pending: -read, ..Tally::default() }).await?;
        }
        Ok(())
    }
}
