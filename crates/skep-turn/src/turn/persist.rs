//! Writes of a running turn. A store that cannot write now holds the turn, not the hive: the
//! write is tried again each second until it goes through or the process ends.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use skep_core::brake::Brake;
use skep_core::message::Message;
use skep_store::journal::{Entry, Journal, Journalled};
use skep_store::{Command, Member, Pending, Refusal, StoreError};

use super::env::TurnEnv;
use super::redact;
use super::state::{EndRequest, EngineMemory, Turn, TurnState};

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a turn cannot go on writing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    /// Somebody else owns the turn now: stop quietly.
    #[error("the lease is stale")]
    Stale,
    /// The process ends; the next one goes on.
    #[error("the hive is stopping")]
    Stopping,
    /// A defect of ours: the command can never succeed.
    #[error("{0}")]
    Refused(String),
}

/// Whether messages that wait in the lane join the turn now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joining {
    Now,
    Later,
}

enum Never {}

impl TurnEnv {
    /// Writes until it is done. In this process a failed commit left nothing behind, so the same
    /// command is tried again; after a crash the lease is taken anew and the rows say what is
    /// there.
    pub(crate) async fn persist<C>(
        &self,
        stopping: &CancellationToken,
        command: C,
    ) -> Result<C::Out, Lost>
    where
        C: Member<Command> + Clone,
    {
        match self.persist_unless(stopping, std::future::pending::<Never>(), command).await? {
            Ok(out) => Ok(out),
            Err(never) => match never {},
        }
    }

    /// As `persist`; where `end` comes while the write is held, it is given up and nothing of it
    /// was written. A write that is under way is waited for: it may still succeed.
    async fn persist_unless<C, E>(
        &self,
        stopping: &CancellationToken,
        end: impl Future<Output = E>,
        command: C,
    ) -> Result<Result<C::Out, E>, Lost>
    where
        C: Member<Command> + Clone,
    {
        let mut end = std::pin::pin!(end);
        loop {
            let outcome = tokio::select! {
                biased;
                outcome = self.store.write(command.clone()) => outcome,
                // A sync that hangs must not keep the process; the next one reads what is there.
                () = stopping.cancelled() => return Err(Lost::Stopping),
            };
            self.lanes.health.note(&outcome);
            match outcome {
                Ok(out) => return Ok(Ok(out)),
                Err(StoreError::Refused(Refusal::Stale)) => return Err(Lost::Stale),
                Err(StoreError::Refused(refusal)) => {
                    return Err(Lost::Refused(refusal.to_string()));
                }
                Err(StoreError::Closed) => return Err(Lost::Stopping),
                Err(error) => {
                    tracing::warn!(%error, "a turn is held until its write goes through");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                request = &mut end => return Ok(Err(request)),
                () = stopping.cancelled() => return Err(Lost::Stopping),
            }
        }
    }
}

impl Turn {
    /// These entries, after what was deferred and what is still to be told.
    pub fn entries(&self, state: &mut TurnState, entries: Vec<Entry>) -> Vec<Entry> {
        let mut entries = state.with_notes(entries);
        if let EngineMemory::Kept(session) = &state.engine_session {
            entries.push(Entry::Seen { session: session.clone() });
        }
        state.deferred.with(entries)
    }

    pub fn journal(&self, state: &mut TurnState, entries: Vec<Entry>, joining: Joining) -> Journal {
        if joining == Joining::Now {
            self.running.forget_arrivals();
        }
        Journal {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            entries: self.entries(state, entries),
            steer: joining == Joining::Now && self.can_steer,
            active_ms: self.active_ms(),
            now: self.env.now(),
        }
    }

    pub fn submit(&self, journal: Journal) -> Pending<Journalled> {
        self.env.store.submit(journal)
    }

    /// Waits for a submitted write; one that did not go through is written again.
    pub async fn confirm(
        &self,
        state: &mut TurnState,
        pending: Pending<Journalled>,
        journal: Journal,
    ) -> Result<Vec<Arc<Message>>, Lost> {
        match pending.await {
            Ok(written) => Ok(self.rows_of(state, written)),
            Err(StoreError::Refused(Refusal::Stale)) => Err(Lost::Stale),
            Err(_) => {
                let written = self.persist(journal).await?;
                Ok(self.rows_of(state, written))
            }
        }
    }

    /// Journals these entries, with everything that waits before them.
    pub async fn write(
        &self,
        state: &mut TurnState,
        entries: Vec<Entry>,
        joining: Joining,
    ) -> Result<Vec<Arc<Message>>, Lost> {
        let written = self.persist(self.journal(state, entries, joining)).await?;
        Ok(self.rows_of(state, written))
    }

    pub async fn persist<C: Member<Command> + Clone>(&self, command: C) -> Result<C::Out, Lost> {
        self.env.persist(&self.env.stop.cut_hard, command).await
    }

    /// As `write`; a turn that is held can be ended, and then nothing of this was written.
    pub async fn write_unless_ended(
        &self,
        state: &mut TurnState,
        entries: Vec<Entry>,
    ) -> Result<Result<Vec<Arc<Message>>, EndRequest>, Lost> {
        let journal = self.journal(state, entries, Joining::Later);
        let stopping = &self.env.stop.cut_hard;
        let written = self.env.persist_unless(stopping, self.ended(), journal).await?;
        Ok(written.map(|written| self.rows_of(state, written)))
    }

    pub async fn write_deferred(&self, state: &mut TurnState) -> Result<(), Lost> {
        if !state.deferred.is_empty() {
            self.write(state, Vec::new(), Joining::Later).await?;
        }
        Ok(())
    }

    /// Before the model's next words: whoever watches is told things in the order they happened.
    pub async fn write_deferred_for_watchers(&self, state: &mut TurnState) -> Result<(), Lost> {
        if self.env.bus.is_watched() { self.write_deferred(state).await } else { Ok(()) }
    }

    fn rows_of(&self, state: &mut TurnState, written: Journalled) -> Vec<Arc<Message>> {
        state.progressed |= !written.rows.is_empty();
        if !written.steered.is_empty() {
            // Whoever speaks anew may well be answered by the same calls.
            state.brake = Brake::default();
            // There may be more of them than join at once.
            self.running.note_arrival();
        }
        let mut steered = written.steered;
        steered.iter_mut().for_each(|row| redact::clean(skep_scrub::known(), &mut row.body));
        let rows: Vec<_> = written.rows.into_iter().chain(steered).map(Arc::new).collect();
        if let Some(session) = &mut state.session {
            session.rows.extend(rows.iter().cloned());
        }
        rows
    }
}

impl TurnState {
    /// Puts what is still to be told before the entries it led to.
    pub fn with_notes(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let notes = std::mem::take(&mut self.notes);
        notes.into_iter().map(|text| Entry::Note { text }).chain(entries).collect()
    }
}
