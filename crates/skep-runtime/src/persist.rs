//! Writes of a running turn. A store that cannot write now holds the turn, not the hive: the
//! write is tried again each second until it goes through or the process ends.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use skep_store::{Command, Member, Refusal, Store, StoreError};

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
            _ => "store_broken",
        }
    }

    pub fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let code = match outcome {
            Ok(_) | Err(StoreError::Refused(_) | StoreError::Closed | StoreError::Busy) => 0,
            Err(StoreError::DiskFull) => 1,
            Err(StoreError::Unsynced) => 2,
            Err(StoreError::Broken { .. }) => 3,
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
