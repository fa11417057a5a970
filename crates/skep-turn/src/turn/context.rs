//! What of a session its model is shown: everything, or notes and the rows after them.

use std::sync::Arc;

use skep_core::compaction;
use skep_core::ids::TurnId;
use skep_core::message::{Block, Body, Message, Role, history_tag};
use skep_store::compactions::{self, Compaction};
use skep_store::{files, history};

use super::persist::Lost;
use super::redact;
use super::session_cache::CachedSession;
use super::state::{Turn, TurnState};

const CARRIED: &str = include_str!("prompts/carried.md");

pub(crate) struct ModelContext {
    /// The newest compaction of the session.
    pub compaction: Option<Compaction>,
    /// Every row after it, and all of the turn's own.
    pub rows: Vec<Arc<Message>>,
    /// Stands where the rows up to the compaction were.
    notes: Option<Arc<Message>>,
}

impl ModelContext {
    /// The rows the model sees as they are.
    pub fn whole(&self) -> &[Arc<Message>] {
        let upto = self.compaction.as_ref().map_or(0, |compaction| compaction.upto);
        &self.rows[self.rows.partition_point(|row| row.seq <= upto)..]
    }

    /// The notes and the first of the whole rows.
    pub fn up_to(&self, rows: usize) -> Vec<Arc<Message>> {
        self.notes.iter().chain(self.whole().iter().take(rows)).cloned().collect()
    }

    pub fn all(&self) -> Vec<Arc<Message>> {
        self.up_to(usize::MAX)
    }

    /// Tokens that the last call of the model had before it and added; nothing before the first
    /// call after a compaction.
    pub fn used(&self) -> Option<u64> {
        let seam = self.compaction.as_ref().map_or(0, |compaction| compaction.seam);
        let after = self.rows.iter().rev().take_while(|row| row.seq > seam);
        let mut metas = after
            .filter(|row| row.body.role == Role::Assistant)
            .filter_map(|row| row.body.meta.as_ref().filter(|meta| !meta.api.is_empty()));
        metas.next().map(|meta| meta.usage.total_tokens)
    }
}

impl Turn {
    pub(crate) async fn read_context(&self, state: &mut TurnState) -> Result<ModelContext, Lost> {
        self.write_deferred(state).await?;
        let secrets = skep_scrub::known().version();
        let (compaction, rows) = match self.begun_here(state, secrets) {
            Some(session) => (session.compaction, session.rows),
            None => self.read_rows().await?,
        };
        state.session =
            Some(CachedSession { compaction: compaction.clone(), rows: rows.clone(), secrets });
        let notes = compaction.as_ref().map(|compaction| {
            let notes = skep_scrub::known().clean(&compaction.notes);
            let text = format!("{}\n{notes}", CARRIED.trim_end());
            self.aside(&compaction.turn, compaction.upto, text)
        });
        Ok(ModelContext { compaction, rows, notes })
    }

    /// The session where it begins now or was kept since its last turn, and the message this turn
    /// begins with.
    fn begun_here(&self, state: &TurnState, secrets: usize) -> Option<CachedSession> {
        let mut first = self.lease.first.clone()?;
        // Rows were written since the last read.
        if state.progressed || self.lease.resumed {
            return None;
        }
        let mut session = match first.seq {
            1 => CachedSession { compaction: None, rows: Vec::new(), secrets },
            next => self.env.session_cache.take(&self.lease.session, next, secrets)?,
        };
        if first.body.files().next().is_some() {
            return None;
        }
        redact::clean(skep_scrub::known(), &mut first.body);
        session.rows.push(Arc::new(first));
        Some(session)
    }

    async fn read_rows(&self) -> Result<(Option<Compaction>, Vec<Arc<Message>>), Lost> {
        let (name, session) = (self.agent.name.clone(), self.lease.session.clone());
        let own = self.lease.first_seq - 1;
        let read = self.env.store.read(async |conn| {
            let compaction = compactions::newest(conn, &session).await?;
            let after = compaction.as_ref().map_or(0, |compaction| compaction.upto.min(own));
            let mut rows = history::whole(conn, &name, &session, after).await?;
            files::fill(conn, rows.iter_mut(), |file| self.needs(file)).await?;
            Ok((compaction, rows))
        });
        let (compaction, mut rows) =
            read.await.map_err(|error| Lost::Refused(format!("reading the session: {error}")))?;
        rows.iter_mut().for_each(|row| redact::clean(skep_scrub::known(), &mut row.body));
        Ok((compaction, rows.into_iter().map(Arc::new).collect()))
    }

    /// A message to the model that is no row: the same bytes whenever it is made again.
    pub(crate) fn aside(&self, turn: &TurnId, seq: i64, text: String) -> Arc<Message> {
        let mut body = Body::assistant(vec![Block::text(text)], None);
        body.role = Role::User;
        Arc::new(Message {
            tag: history_tag(),
            id: String::new(),
            agent_id: self.agent.name.clone(),
            session_id: self.lease.session.clone(),
            turn: turn.clone(),
            seq,
            timestamp: 0,
            body,
        })
    }

    /// What the turn was asked for, where the rows that say so are about to be told in notes.
    pub(crate) fn task(&self, context: &ModelContext) -> Option<String> {
        let own = context.rows.iter().filter(|row| row.turn == self.lease.turn);
        let first = own.filter(|row| row.body.role == Role::User).map(|row| &row.body).next()?;
        Some(compaction::shortened(first))
    }
}
