//! Writes of a running turn. A store that cannot write now holds the turn, not the hive: the
//! write is tried again each second until it goes through or the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use skep_core::brake::Brake;
use skep_core::message::Message;
use skep_guard::scrub;
use skep_store::journal::{Journal, Journalled};
use skep_store::{Command, Member, Pending, Refusal, Store, StoreError};

use crate::hive::Shared;
use crate::turn::context;
use crate::turn::session_cache::CachedSession;
use crate::turn::{EndRequest, Turn, lock};

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

/// Whether writes go through, for whoever asks how the hive is.
#[derive(Default)]
pub(crate) struct StoreHealth(AtomicU8);

impl StoreHealth {
    pub fn word(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            0 => "ok",
            1 => "disk_full",
            2 => "store_unsynced",
            4 => "store_moved",
            _ => "store_broken",
        }
    }

    pub fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let code = match outcome {
            Ok(_) | Err(StoreError::Refused(_) | StoreError::Closed | StoreError::Busy) => 0,
            Err(StoreError::DiskFull) => 1,
            Err(StoreError::Unsynced) => 2,
            Err(StoreError::Broken { .. }) => 3,
            Err(StoreError::Moved { .. }) => 4,
        };
        self.0.store(code, Ordering::Relaxed);
    }
}

/// Writes until it is done. In this process a failed commit left nothing behind, so the same
/// command is tried again; after a crash the lease is taken anew and the rows say what is there.
pub(crate) async fn persist<C>(
    store: &Store,
    health: &StoreHealth,
    stopping: &CancellationToken,
    command: C,
) -> Result<C::Out, Lost>
where
    C: Member<Command> + Clone,
{
    match persist_unless(store, health, stopping, std::future::pending::<Never>(), command).await? {
        Ok(out) => Ok(out),
        Err(never) => match never {},
    }
}

enum Never {}

/// As `persist`; where `end` comes while the write is held, it is given up and nothing of it was
/// written. A write that is under way is waited for: it may still succeed.
pub(crate) async fn persist_unless<C, E>(
    store: &Store,
    health: &StoreHealth,
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
            outcome = store.write(command.clone()) => outcome,
            // A sync that hangs must not keep the process; the next one reads what is there.
            () = stopping.cancelled() => return Err(Lost::Stopping),
        };
        health.note(&outcome);
        match outcome {
            Ok(out) => return Ok(Ok(out)),
            Err(StoreError::Refused(Refusal::Stale)) => return Err(Lost::Stale),
            Err(StoreError::Refused(refusal)) => return Err(Lost::Refused(refusal.to_string())),
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

impl Turn {
    pub(crate) fn submit(&self, journal: Journal) -> Pending<Journalled> {
        self.shared.store.submit(journal)
    }

    /// Waits for a submitted write; one that did not go through is written again.
    pub(crate) async fn confirm(
        &self,
        pending: Pending<Journalled>,
        journal: Journal,
    ) -> Result<Vec<Arc<Message>>, Lost> {
        match pending.await {
            Ok(written) => Ok(self.rows_of(written)),
            Err(StoreError::Refused(Refusal::Stale)) => Err(Lost::Stale),
            Err(_) => self.persist(journal).await,
        }
    }

    pub(crate) async fn persist(&self, journal: Journal) -> Result<Vec<Arc<Message>>, Lost> {
        self.persist_any(journal).await.map(|written| self.rows_of(written))
    }

    pub(crate) async fn persist_any<C: Member<Command> + Clone>(
        &self,
        command: C,
    ) -> Result<C::Out, Lost> {
        let shared = &self.shared;
        persist(&shared.store, &shared.health, &shared.cut_hard, command).await
    }

    /// As `persist`; a turn that is held can be ended, and then nothing of this was written.
    pub(crate) async fn persist_unless_ended(
        &self,
        journal: Journal,
    ) -> Result<Result<Vec<Arc<Message>>, EndRequest>, Lost> {
        let Shared { store, health, cut_hard, .. } = &*self.shared;
        let written = persist_unless(store, health, cut_hard, self.ended(), journal).await?;
        Ok(written.map(|written| self.rows_of(written)))
    }

    fn rows_of(&self, written: Journalled) -> Vec<Arc<Message>> {
        if !written.rows.is_empty() {
            self.progressed.store(true, Ordering::Relaxed);
        }
        if !written.steered.is_empty() {
            // Whoever speaks anew may well be answered by the same calls.
            *self.brake() = Brake::default();
            // There may be more of them than join at once.
            self.running.note_arrival();
        }
        let mut steered = written.steered;
        steered.iter_mut().for_each(|row| context::clean(scrub::known(), &mut row.body));
        let rows: Vec<_> = written.rows.into_iter().chain(steered).map(Arc::new).collect();
        if let Some(session) = lock(&self.read).as_mut() {
            session.rows.extend(rows.iter().cloned());
        }
        rows
    }

    pub(crate) fn note_read(&self, session: CachedSession) {
        *lock(&self.read) = Some(session);
    }

    pub(crate) fn forget_read(&self) {
        *lock(&self.read) = None;
    }

    /// The session as it stands with these rows, for its next turn.
    pub(crate) fn cache_session(&self, rows: Vec<Message>) {
        if let Some(mut session) = lock(&self.read).take() {
            session.rows.extend(rows.into_iter().map(Arc::new));
            self.shared.session_cache.put(self.lease.session.clone(), session);
        }
    }
}
