//! Copies the log back into the database file from a connection of its own, so that no commit
//! has to wait for it. What a slow or failing disk does to a checkpoint is nobody's loss: the
//! log still has everything, and the next one tries again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::SqlError;

/// Commits, or bytes of commands, after which the writer asks for a checkpoint: a few MiB of log.
const COMMITS: u32 = 256;
const BYTES: usize = 4 << 20;

/// What the writer did since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub commits: AtomicU64,
    /// Commands in them.
    pub commands: AtomicU64,
}

/// The writer's side: counts what was committed.
pub(crate) struct Gauge {
    wanted: Arc<Notify>,
    totals: Arc<Totals>,
    commits: u32,
    bytes: usize,
}

impl Gauge {
    pub(crate) fn new(wanted: Arc<Notify>, totals: Arc<Totals>) -> Self {
        Self { wanted, totals, commits: 0, bytes: 0 }
    }

    pub(crate) fn committed(&mut self, commands: usize, bytes: usize) {
        let commands = u64::try_from(commands).unwrap_or(u64::MAX);
        self.totals.commits.fetch_add(1, Ordering::Relaxed);
        self.totals.commands.fetch_add(commands, Ordering::Relaxed);
        self.commits += 1;
        self.bytes += bytes;
        if self.commits >= COMMITS || self.bytes >= BYTES {
            self.commits = 0;
            self.bytes = 0;
            self.wanted.notify_one();
        }
    }
}

/// Runs until the store closes; opens its connection when it is first needed.
pub(crate) async fn checkpoint_on_demand(
    database: PathBuf,
    wanted: Arc<Notify>,
    mut closing: watch::Receiver<bool>,
) {
    let mut open: Option<Conn> = None;
    loop {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => break,
            () = wanted.notified() => {}
        }
        let conn = match open.take() {
            Some(conn) => Ok(conn),
            None => dialect::connect_writer(&database).await,
        };
        match checkpoint(conn).await {
            Ok(conn) => open = Some(conn),
            Err(error) => tracing::warn!(%error, "checkpoint failed; the log is kept"),
        }
    }
    if let Some(conn) = open {
        let _ = conn.close().await;
    }
}

async fn checkpoint(conn: Result<Conn, SqlError>) -> Result<Conn, SqlError> {
    let mut conn = conn?;
    conn.run(dialect::CHECKPOINT, &[]).await?;
    Ok(conn)
}
