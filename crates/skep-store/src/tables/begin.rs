//! Sessions that begin with what was said elsewhere.

use skep_core::Millis;
use skep_core::file::File;
use skep_core::ids::{AgentId, AgentName, Principal, SessionId, SessionKey, TurnId};
use skep_db::{Refusal, Run, Tx, args};

use crate::tables::history::{self, NewHistoryRow, NewSession, RowPlace};
use crate::tables::lanes;
use crate::tables::people::storage;

/// Makes a session of earlier messages under a key that has none. They stand in a turn of their own
/// that has ended. A key that has a session keeps it: who asks twice finds what the first made.
pub struct BeginSession {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session_key: SessionKey,
    pub session: SessionId,
    pub turn: TurnId,
    pub messages: Vec<NewHistoryRow>,
    pub principal: Principal,
    /// Bytes the principal may store in all; nothing where that has no limit.
    pub room: Option<u64>,
    pub now: Millis,
}

impl Run for BeginSession {
    /// Whether it was made.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let key = self.session_key.as_str();
        let lane = lanes::find_or_make(tx, self.agent, key).await?;
        if lane.session.is_some() || lane.open.is_some() || lane.pending > 0 {
            return Ok(false);
        }
        let sizes = self.messages.iter().map(|message| {
            let files: Vec<File> = message.body.files().cloned().collect();
            storage::size(&message.body.plain_text(), &files)
        });
        storage::charge(tx, &self.principal, sizes.sum(), self.room).await?;
        let wanted = NewSession { id: &self.session, key, now: self.now, idle_ms: 0 };
        let (session, last_seq) = history::resolve(tx, &lane, self.agent, &wanted).await?;
        let ord = tx.next_ord().await?;
        let insert = "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, \
                      first_seq, outcome, started_at, changed_at, ended_at) \
                      VALUES ($1, $2, $3, $4, 2, $5, 0, 'ended', 1, 'given', $6, $6, $6)";
        tx.conn.run(insert, &args![self.turn, lane.id, self.agent, session, ord, self.now]).await?;
        let place = RowPlace {
            agent: self.agent,
            agent_name: &self.agent_name,
            session: &session,
            last_seq,
            turn: &self.turn,
            now: self.now,
        };
        history::append(tx, &place, self.messages.clone()).await?;
        Ok(true)
    }

    fn cost(&self) -> usize {
        let texts = self.messages.iter().map(|message| message.body.plain_text().len() + 256);
        texts.sum::<usize>() + 1024
    }
}
