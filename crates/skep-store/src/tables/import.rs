//! A session that comes from an export: all of it in one command, or nothing.

use std::collections::HashMap;

use skep_core::Millis;
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, LaneId, SessionId, SessionKey, TurnId};
use skep_core::message::{Message, View};
use skep_db::{Refusal, Run, SqlError, Tx, args};

use crate::tables::history::{self, Sum};
use crate::tables::inbox::NORMAL;
use crate::tables::lanes;

/// The messages as they were: ids, numbers, times and turns stay.
pub struct Import {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    /// Leads to the session if it led nowhere before.
    pub key: SessionKey,
    /// Numbered from 1 without a gap; at least one.
    pub messages: Vec<Message>,
    /// About what it weighs.
    pub bytes: usize,
    pub now: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    New,
    /// The same messages were there already.
    Same,
}

impl Run for Import {
    type Out = Imported;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Imported, Refusal> {
        let select = "SELECT agent, last_seq FROM sessions WHERE id = $1 AND deleted_at IS NULL";
        if let Some((agent, last)) = tx.conn.find(select, &args![self.session]).await? {
            return self.compare(tx, agent, last).await;
        }
        let lane = lanes::find_or_make(tx, self.agent, self.key.as_str()).await?;
        self.insert_session(tx).await?;
        self.insert_turns(tx, lane.id).await?;
        for message in &self.messages {
            history::restore(tx, self.agent, message).await?;
        }
        let point = "UPDATE lanes SET session = $2 WHERE id = $1 AND session IS NULL";
        tx.conn.run(point, &args![lane.id, self.session]).await?;
        let kind = EventKind::HistoryUpdated { first: 1, last: self.last().seq };
        let event = Event::of(self.agent, &self.agent_name, self.now, kind);
        tx.event(event.within(&self.session, None));
        Ok(Imported::New)
    }

    fn cost(&self) -> usize {
        self.bytes
    }
}

/// Rows are kept without the bytes of their files; the hash speaks for those.
fn is_same(given: &Message, kept: &Message) -> bool {
    if given.body.files().all(|file| file.data.is_none()) {
        return given == kept;
    }
    let mut bare = given.clone();
    bare.body.files_mut().for_each(|file| file.data = None);
    bare == *kept
}

impl Import {
    fn last(&self) -> &Message {
        // The caller hands in at least one.
        &self.messages[self.messages.len() - 1]
    }

    /// The session is there: the same, or not ours to change.
    async fn compare(
        &self,
        tx: &mut Tx<'_>,
        agent: AgentId,
        last: i64,
    ) -> Result<Imported, Refusal> {
        const PIECE: u32 = 500;
        let differs = |what: String| {
            let detail = format!(
                "the session {} is there already and {what}; nothing was changed",
                self.session
            );
            Refusal::conflict("session_exists", detail)
        };
        if agent != self.agent {
            return Err(differs("belongs to another agent".to_owned()));
        }
        let mut known = 0;
        while known < last {
            let (name, session) = (&self.agent_name, &self.session);
            let rows = history::after(tx.conn, name, session, View::Full, known, PIECE).await?;
            for row in rows {
                let at = usize::try_from(row.seq - 1).unwrap_or(usize::MAX);
                match self.messages.get(at) {
                    Some(message) if is_same(message, &row) => {}
                    Some(_) => return Err(differs(format!("its message {} differs", row.seq))),
                    None => return Err(differs(format!("has {last} messages, more than these"))),
                }
                known = row.seq;
            }
        }
        if self.last().seq > last {
            return Err(differs(format!("has only {last} of these messages")));
        }
        Ok(Imported::Same)
    }

    async fn insert_session(&self, tx: &mut Tx<'_>) -> Result<(), SqlError> {
        let sum = Sum::of(self.messages.iter().map(|message| &message.body));
        let times = self.messages.iter().map(|message| message.timestamp);
        let first = times.clone().min().unwrap_or(self.now);
        let last = times.max().unwrap_or(self.now);
        let count = self.last().seq;
        let insert = "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq, title, \
                      tokens, cost, unpriced) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let args = args![
            self.session,
            self.agent,
            self.key,
            first,
            last,
            count,
            sum.title,
            sum.tokens,
            sum.cost,
            sum.unpriced,
        ];
        // One that was deleted comes back.
        let back = "UPDATE sessions SET deleted_at = NULL, agent = $2, key = $3, created_at = $4, \
                    last_at = $5, last_seq = $6, title = $7, tokens = $8, cost = $9, \
                    unpriced = $10 WHERE id = $1";
        if tx.conn.run(back, &args).await? == 0 {
            tx.conn.run(insert, &args).await?;
        }
        Ok(())
    }

    /// Ended turns for the messages to belong to. A fork shares turns with the session it came
    /// from, so some may be there.
    async fn insert_turns(&self, tx: &mut Tx<'_>, lane: LaneId) -> Result<(), SqlError> {
        let mut turns: HashMap<&TurnId, (i64, Millis, Millis)> = HashMap::new();
        for message in &self.messages {
            let at = message.timestamp;
            let turn = turns.entry(&message.turn).or_insert((message.seq, at, at));
            turn.2 = at;
        }
        for (turn, (first_seq, began, ended)) in turns {
            let ord = tx.next_ord().await?;
            let insert = "INSERT INTO turns (id, lane, agent, session, priority, ord, token, \
                          state, first_seq, outcome, started_at, changed_at, ended_at) VALUES \
                          ($1, $2, $3, $4, $5, $6, 0, 'ended', $7, 'imported', $8, $9, $9) \
                          ON CONFLICT (id) DO NOTHING";
            let args =
                args![turn, lane, self.agent, self.session, NORMAL, ord, first_seq, began, ended];
            tx.conn.run(insert, &args).await?;
        }
        Ok(())
    }
}
