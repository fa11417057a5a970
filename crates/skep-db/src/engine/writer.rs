//! The one writer: a thread that owns the writing connection and commits in groups. A batch is
//! what queued up during the previous commit; no answer goes out before it is durable.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};

use crate::disk::floor::Floor;
use crate::disk::line_file::LineFile;
use crate::disk::log_reader::LogTail;
use crate::engine::checkpoint::Gauge;
use crate::engine::command::{CommandSet, Schema};
use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::{Refusal, SqlError, SqlKind, StoreError};
use crate::engine::head::Keeper;
use crate::engine::trail;
use crate::engine::tx::{Apart, Committed, Counters, Gathered, Tx};

/// Commands that may wait; one more is refused as busy.
pub const WAITING_WRITES: usize = 4096;
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// A batch of so many says that more are on their way: the next one waits for them, because what a
/// commit costs is nearly the same for one command and for fifty.
const CROWD: usize = 8;
const CROWD_WAIT: Duration = Duration::from_micros(500);

pub(crate) struct WriteJob<S: CommandSet> {
    pub command: S,
    /// Does nothing if the caller has gone; the command ran anyway.
    pub reply: Reply<S>,
}

pub(crate) type Reply<S> =
    Box<dyn FnOnce(Result<<S as CommandSet>::Outcome, StoreError>) + Send + 'static>;

pub(crate) type Notify = Box<dyn Fn(Committed) + Send + Sync + 'static>;

pub(crate) struct Writer<S: CommandSet> {
    pub database: PathBuf,
    pub queue: mpsc::Receiver<WriteJob<S>>,
    /// Turns true when the store closes: what is queued still runs, nothing is added.
    pub closing: watch::Receiver<bool>,
    /// Absent after a failure that a new connection could not mend; each batch tries again.
    pub conn: Option<Conn>,
    pub counters: Counters,
    pub floor: Arc<Floor>,
    /// Where the last commit lies.
    pub log: LogTail,
    /// Where the end of the last commit is named.
    pub head: Keeper,
    /// Where the newest audit row is named.
    pub trail: Option<LineFile>,
    pub notify: Notify,
    pub gauge: Gauge,
    pub checkpointer: oneshot::Receiver<()>,
}

/// What a batch that reached the disk leaves behind.
struct Done<S: CommandSet> {
    outcomes: Vec<Result<S::Outcome, Refusal>>,
    gathered: Gathered,
}

impl<S: CommandSet> Writer<S> {
    /// Returns when the store closes and the queue is empty, or when every handle is gone: true
    /// where nothing is left to mend.
    pub(crate) async fn run(mut self) -> bool {
        let mut held = None;
        let mut crowded = false;
        loop {
            let first = match held.take() {
                Some(job) => job,
                None => match self.next().await {
                    Some(job) => job,
                    None => break,
                },
            };
            if crowded {
                // The thread is the writer's own.
                std::thread::sleep(CROWD_WAIT);
            }
            let batch = self.gather(first, &mut held);
            crowded = batch.len() >= CROWD && held.is_none();
            self.write(batch).await;
        }
        self.finish().await
    }

    async fn next(&mut self) -> Option<WriteJob<S>> {
        if !*self.closing.borrow() {
            tokio::select! {
                biased;
                _ = self.closing.wait_for(|closing| *closing) => {}
                job = self.queue.recv() => return job,
            }
        }
        self.queue.close();
        self.queue.recv().await
    }

    /// Takes what is already there, up to the bounds; `held` keeps the one that did not fit.
    fn gather(&mut self, first: WriteJob<S>, held: &mut Option<WriteJob<S>>) -> Vec<WriteJob<S>> {
        let mut bytes = first.command.cost();
        let mut batch = vec![first];
        while batch.len() < BATCH_COMMANDS {
            let Ok(job) = self.queue.try_recv() else {
                break;
            };
            bytes = bytes.saturating_add(job.command.cost());
            if bytes > BATCH_BYTES {
                *held = Some(job);
                break;
            }
            batch.push(job);
        }
        batch
    }

    async fn write(&mut self, batch: Vec<WriteJob<S>>) {
        let (commands, replies): (Vec<S>, Vec<Reply<S>>) =
            batch.into_iter().map(|job| (job.command, job.reply)).unzip();
        match self.commit(&commands).await {
            Ok(done) => {
                let before = std::mem::replace(&mut self.counters, done.gathered.counters);
                let frames = dialect::take_frames();
                self.keep_heads(before, frames);
                let bytes = commands.iter().map(CommandSet::cost).sum();
                self.gauge.committed(commands.len(), bytes);
                self.tell(done.gathered.into_told());
                for (reply, outcome) in replies.into_iter().zip(done.outcomes) {
                    reply(outcome.map_err(StoreError::Refused));
                }
                self.bound_log(frames).await;
            }
            Err(error @ StoreError::Moved { .. }) => {
                tracing::error!(%error, commands = commands.len(), "no write is answered");
                for reply in replies {
                    reply(Err(error.clone()));
                }
                // What was in the log may still be had from the database.
                if self.floor.has_database() && !self.head.is_done() {
                    self.copy_log().await;
                }
            }
            Err(error) => {
                tracing::error!(%error, commands = commands.len(), "a batch of writes failed");
                for reply in replies {
                    reply(Err(error.clone()));
                }
                self.recover().await;
            }
        }
    }

    /// All or nothing for the batch, except that a command refused by its own rule goes alone.
    async fn commit(&mut self, commands: &[S]) -> Result<Done<S>, StoreError> {
        let moved = |what| StoreError::Moved { what };
        self.floor.known().map_err(moved)?;
        let counters = self.connect().await?;
        let Some(conn) = self.conn.as_mut() else {
            return Err(StoreError::Closed);
        };
        let mut done = match run_all(conn, counters, commands, Apart::No).await? {
            Some(done) => done,
            // Rare enough that its work may be done twice.
            None => {
                conn.run(dialect::ROLLBACK, &[]).await?;
                let again = run_all(conn, counters, commands, Apart::Yes).await?;
                again.ok_or(StoreError::Closed)?
            }
        };
        if done.outcomes.iter().all(Result::is_err) {
            conn.run(dialect::ROLLBACK, &[]).await?;
        } else {
            done.gathered.write_additions(conn).await?;
            done.gathered.write_events(conn).await?;
            conn.run(dialect::COMMIT, &[]).await.map_err(failed_commit)?;
            self.floor.check().map_err(moved)?;
        }
        Ok(done)
    }

    /// Before anybody is told: who was answered finds the heads at or behind what the answer says.
    fn keep_heads(&mut self, before: Counters, frames: Option<u32>) {
        if let Some(frames) = frames {
            self.head.commit(self.log.end(frames), self.counters);
        }
        let trail = self.counters.trail;
        if before.trail != trail
            && let Some(file) = &self.trail
            && let Err(error) = file.write(trail::line(trail).as_bytes())
        {
            tracing::warn!(%error, row = trail.id, "the audit trail's head was not kept");
        }
    }

    /// The checkpointer did not get to it.
    async fn bound_log(&mut self, frames: Option<u32>) {
        let long = frames.is_some_and(|frames| frames >= dialect::LOG_FRAMES);
        let Some(conn) = self.conn.as_mut().filter(|_| long) else { return };
        if let Err(error) = conn.run(dialect::CHECKPOINT, &[]).await {
            tracing::warn!(%error, "a long log was not copied into the database; it is kept");
        }
    }

    /// A panicking listener must not take the writer with it.
    fn tell(&self, told: Committed) {
        if told == Committed::default() {
            return;
        }
        let told = AssertUnwindSafe(|| (self.notify)(told));
        if let Err(panic) = std::panic::catch_unwind(told) {
            tracing::error!(panic = panic_text(&*panic), "the listener of commits panicked");
        }
    }

    /// After a failure the transaction may be open or gone and the counters are a guess: ends it,
    /// proves that the connection can still take the write lock, and reads the counters again.
    async fn recover(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            // Refused when the failure itself has rolled back.
            let _ = conn.run(dialect::ROLLBACK, &[]).await;
            match probe(&mut conn, &S::SCHEMA, self.counters).await {
                Ok(counters) => {
                    self.counters = counters;
                    self.conn = Some(conn);
                    return;
                }
                Err(error) => tracing::warn!(%error, "the writing connection is given up"),
            }
        }
        if let Err(error) = self.connect().await {
            tracing::error!(%error, "the writing connection could not be opened again");
        }
    }

    /// The counters of a working connection, opened again where there is none.
    async fn connect(&mut self) -> Result<Counters, SqlError> {
        if self.conn.is_none() {
            let mut conn = dialect::connect_writer(&self.database).await?;
            self.counters = probe(&mut conn, &S::SCHEMA, self.counters).await?;
            self.conn = Some(conn);
        }
        Ok(self.counters)
    }

    /// The last connection to close removes the log where all of it is in the database, so the
    /// checkpointer goes first. A read that is still running keeps the log, which hurts nobody.
    async fn finish(mut self) -> bool {
        let _ = (&mut self.checkpointer).await;
        let stands = self.floor.check().is_ok();
        let copied = self.floor.has_database() && self.copy_log().await;
        let Some(conn) = self.conn else { return false };
        let closed = match dialect::keep_log_at_close(&conn, !(stands && copied)) {
            Ok(()) => conn.close().await,
            Err(error) => Err(error),
        };
        if let Err(error) = &closed {
            tracing::warn!(%error, "the writing connection did not close cleanly");
        }
        closed.is_ok() && stands
    }

    /// Whether all of the log is in the database, and the head says so.
    async fn copy_log(&mut self) -> bool {
        let Some(conn) = self.conn.as_mut() else { return false };
        match dialect::copy_log(conn).await {
            Ok(true) => {
                let told = self.head.done(self.counters);
                told.inspect_err(|error| tracing::warn!(%error, "the log is kept")).is_ok()
            }
            Ok(false) => false,
            Err(error) => {
                tracing::warn!(%error, "the log was not copied into the database; it is kept");
                false
            }
        }
    }
}

/// Begins a transaction and runs the batch in it. Nothing where a command was refused after it had
/// written, and cannot be undone alone; the error fails the batch.
async fn run_all<S: CommandSet>(
    conn: &mut Conn,
    counters: Counters,
    commands: &[S],
    apart: Apart,
) -> Result<Option<Done<S>>, SqlError> {
    let mut gathered = Gathered::new(counters, apart);
    conn.run(dialect::BEGIN, &[]).await?;
    let mut outcomes = Vec::with_capacity(commands.len());
    for command in commands {
        let (mark, changes) = (gathered.mark(), conn.changes());
        if apart == Apart::Yes {
            conn.run(dialect::SAVEPOINT, &[]).await?;
        }
        let outcome = run_caught(conn, &mut gathered, command).await?;
        if outcome.is_err() {
            gathered.back_to(&mark);
            match apart {
                Apart::Yes => drop(conn.run(dialect::ROLLBACK_TO, &[]).await?),
                // Alone in its batch it goes with the whole of it.
                Apart::No if conn.changes() != changes && commands.len() > 1 => return Ok(None),
                Apart::No => {}
            }
        }
        if apart == Apart::Yes {
            conn.run(dialect::RELEASE, &[]).await?;
        }
        outcomes.push(outcome);
    }
    Ok(Some(Done { outcomes, gathered }))
}

async fn run_caught<S: CommandSet>(
    conn: &mut Conn,
    gathered: &mut Gathered,
    command: &S,
) -> Result<Result<S::Outcome, Refusal>, SqlError> {
    let mut tx = Tx::new(conn, gathered);
    match AssertUnwindSafe(command.run(&mut tx)).catch_unwind().await {
        Ok(Err(Refusal::Sql(error))) if error.fails_batch() => Err(error),
        Ok(outcome) => Ok(outcome),
        Err(panic) => {
            let text = panic_text(&*panic);
            tracing::error!(command = command.name(), panic = text, "a command panicked");
            Ok(Err(Refusal::Panicked(text.to_owned())))
        }
    }
}

async fn probe(conn: &mut Conn, schema: &Schema, known: Counters) -> Result<Counters, SqlError> {
    conn.run(dialect::BEGIN, &[]).await?;
    let loaded = Counters::load(conn, schema, known.trail).await;
    conn.run(dialect::ROLLBACK, &[]).await?;
    loaded
}

/// A full disk is found while the log is being written, before the frame that would commit, so
/// nothing of the batch can ever show up. After any other failure it may: the frame can have
/// reached the file although its sync failed.
fn failed_commit(error: SqlError) -> StoreError {
    match error.kind {
        SqlKind::DiskFull => StoreError::DiskFull,
        _ => {
            tracing::error!(%error, "a commit failed, its outcome is unknown");
            StoreError::Unsynced
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
