//! The handle everybody holds.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use skep_core::audit::AuditVerdict;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::disk::file;
use crate::disk::floor::Floor;
use crate::disk::log_reader::LogTail;
use crate::disk::open_error::OpenError;
use crate::engine::aside::Aside;
use crate::engine::checkpoint::{Gauge, Totals, checkpoint_on_demand};
use crate::engine::command::{CommandSet, Member};
use crate::engine::conn::Conn;
use crate::engine::dialect::{self, StoredText};
use crate::engine::error::{SqlError, StoreError};
use crate::engine::integrity::{self, Integrity};
use crate::engine::open::{self, OpenOptions, OpenReport};
use crate::engine::readers::Readers;
use crate::engine::tx::Committed;
use crate::engine::writer::{WAITING_WRITES, WriteJob, Writer};
use crate::engine::{thread, trail};

/// How long closing waits for the last writes; a hung sync must not keep the process.
const CLOSE: Duration = Duration::from_secs(4);

/// A cheap, cloneable handle to one open database and its set of commands.
pub struct StoreOf<S: CommandSet> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: CommandSet> {
    queue: mpsc::Sender<WriteJob<S>>,
    readers: Readers,
    pages: Arc<Aside>,
    long: Arc<Aside>,
    closing: watch::Sender<bool>,
    /// `close` takes it; the lock serves nothing else.
    writer: Mutex<Option<oneshot::Receiver<bool>>>,
    database: PathBuf,
    clean_marker: PathBuf,
    audit_head: PathBuf,
    report: OpenReport,
    floor: Arc<Floor>,
    totals: Arc<Totals>,
}

impl<S: CommandSet> StoreOf<S> {
    /// Checks, migrates and opens the database; the caller holds the instance lock. `notify` is
    /// called by the writer after each commit: it must neither block nor write.
    pub async fn open(
        options: OpenOptions,
        notify: impl Fn(Committed) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let opened = open::open(&options, &S::SCHEMA).await?;
        let no_thread = |source| OpenError::Io {
            attempt: "could not start a thread for",
            path: options.database.clone(),
            source,
        };
        let (queue, jobs) = mpsc::channel(WAITING_WRITES);
        let (closing, closed) = watch::channel(false);
        let wanted = Arc::new(Notify::new());
        let totals = Arc::new(Totals::default());
        let gauge = Gauge::new(Arc::clone(&wanted), Arc::clone(&totals));
        let checkpoints = checkpoint_on_demand(options.database.clone(), wanted, closed.clone());
        let writer = Writer {
            database: options.database.clone(),
            queue: jobs,
            closing: closed,
            conn: Some(opened.writer),
            counters: opened.counters,
            floor: Arc::clone(&opened.floor),
            log: LogTail::new(file::log_of(&options.database)),
            head: opened.head,
            trail: opened.trail,
            notify: Box::new(notify),
            gauge,
            checkpointer: thread::start("skep-checkpoint", || checkpoints).map_err(no_thread)?,
        };
        let writer = thread::start("skep-writer", || writer.run()).map_err(no_thread)?;
        let shared = Shared {
            database: options.database.clone(),
            queue,
            pages: Aside::new("skep-pages", options.database.clone()),
            long: Aside::new("skep-long-read", options.database.clone()),
            readers: Readers::new(options.database, options.readers, opened.reader),
            closing,
            writer: Mutex::new(Some(writer)),
            clean_marker: options.clean_marker,
            audit_head: options.audit_head,
            report: opened.report,
            floor: opened.floor,
            totals,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub fn report(&self) -> OpenReport {
        self.shared.report.clone()
    }

    /// Whether its files are where the next start looks for them: no write is answered otherwise.
    pub fn stands(&self) -> Result<(), StoreError> {
        self.shared.floor.check().map_err(|what| StoreError::Moved { what })
    }

    /// How many commits there were since it was opened, and how many commands in them.
    pub fn commits(&self) -> (u64, u64) {
        let Totals { commits, commands } = &*self.shared.totals;
        (commits.load(Ordering::Relaxed), commands.load(Ordering::Relaxed))
    }

    /// Runs the command; the answer comes when it is durable.
    pub async fn write<C: Member<S>>(&self, command: C) -> Result<C::Out, StoreError> {
        self.submit(command).await
    }

    /// Queues the command now, in the order of the calls, and answers later. Dropping the answer
    /// does not stop the command.
    pub fn submit<C: Member<S>>(&self, command: C) -> Pending<C::Out> {
        let (answer, pending) = oneshot::channel();
        let reply = move |outcome: Result<S::Outcome, StoreError>| {
            let own = outcome.and_then(|outcome| {
                let mixed_up = || StoreError::Broken { detail: "another command's answer".into() };
                C::outcome(outcome).ok_or_else(mixed_up)
            });
            let _ = answer.send(own);
        };
        let job = WriteJob { command: command.join(), reply: Box::new(reply) };
        match self.shared.queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => (job.reply)(Err(StoreError::Busy)),
            Err(TrySendError::Closed(job)) => (job.reply)(Err(StoreError::Closed)),
        }
        Pending(pending)
    }

    /// Runs `query` on a reading connection, inside one read transaction.
    pub async fn read<T>(
        &self,
        query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError>,
    ) -> Result<T, StoreError> {
        self.shared.readers.read(query).await
    }

    /// As `read`, for a page of what is told again to somebody: replays, exports. `who` shares
    /// with the others who ask; the pool of `read` feels none of them.
    pub async fn read_page<T: Send + 'static>(
        &self,
        who: &str,
        query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.shared.pages.read(who, query).await
    }

    /// As `read_page`, for what may take longer than a moment.
    pub async fn read_long<T: Send + 'static>(
        &self,
        who: &str,
        query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.shared.long.read(who, query).await
    }

    /// Looks at all of the database, on a connection of its own. `proceed` is asked again and
    /// again on the thread that does so; on `false` it ends.
    pub async fn check_integrity(
        &self,
        proceed: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Integrity, StoreError> {
        let database = self.shared.database.clone();
        Ok(aside("skep-check", || integrity::check(database, proceed)).await??)
    }

    /// Reads the whole audit trail and names what is wrong with it.
    pub async fn verify_audit(&self) -> Result<AuditVerdict, StoreError> {
        let kept = trail::read(&self.shared.audit_head);
        self.read_long("audit", async move |conn| trail::verify(conn, kept).await).await
    }

    /// The same without opening it for use, as [`Self::inspect`]; nothing where there is no
    /// database yet.
    pub async fn verify_closed_audit(
        options: &OpenOptions,
    ) -> Result<Option<AuditVerdict>, OpenError> {
        open::verify_audit(options, &S::SCHEMA).await
    }

    /// What `look` makes of every text that is kept.
    pub async fn each_text<T: Send + 'static>(
        &self,
        mut look: impl FnMut(&StoredText<'_>) -> Vec<T> + Send + 'static,
    ) -> Result<Vec<T>, StoreError> {
        self.read_long("scan", async move |conn| {
            let mut found = Vec::new();
            dialect::each_text(conn, |text| found.extend(look(text)))?;
            Ok(found)
        })
        .await
    }

    /// Hands over every text that is kept, as [`Self::inspect`] looks; `false` where there is no
    /// database yet.
    pub async fn each_closed_text(
        options: &OpenOptions,
        each: impl FnMut(&StoredText<'_>),
    ) -> Result<bool, OpenError> {
        open::each_text(options, &S::SCHEMA, each).await
    }

    /// Looks at the database without opening it for use: the schema version it has, or nothing
    /// where there is none yet. For a process that does not hold the store open itself, and knows
    /// that nobody opens it meanwhile.
    pub async fn inspect(options: &OpenOptions) -> Result<Option<i64>, OpenError> {
        open::inspect(options, &S::SCHEMA).await
    }

    /// Lets the queued writes finish, takes no new ones, and marks the stop as clean. With a
    /// disk that hangs it gives up after four seconds, and the next start calls it unclean.
    pub async fn close(self) {
        self.close_within(CLOSE).await;
    }

    /// As `close`, for a caller that has its own time left.
    pub async fn close_within(self, patience: Duration) {
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return };
        match tokio::time::timeout(patience, self.close_in_order(writer)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the store did not close in order"),
            Err(_) => tracing::error!("the last writes did not finish in time"),
        }
    }

    async fn close_in_order(&self, writer: oneshot::Receiver<bool>) -> io::Result<()> {
        self.shared.pages.close();
        self.shared.long.close();
        self.shared.readers.close().await;
        self.shared.closing.send_replace(true);
        // A writer that panicked says nothing.
        if !writer.await.unwrap_or(false) {
            return Err(io::Error::other("the writing connection was lost"));
        }
        let marker = self.shared.clean_marker.clone();
        tokio::task::spawn_blocking(move || open::mark_clean(&marker)).await?
    }
}

async fn aside<T: Send + 'static, F: Future<Output = T>>(
    name: &str,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, StoreError> {
    let broken = |detail: String| StoreError::Broken { detail };
    let ended = thread::start(name, work).map_err(|error| broken(error.to_string()))?;
    ended.await.map_err(|_| broken(format!("{name} ended early")))
}

impl<S: CommandSet> Clone for StoreOf<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// The answer to a submitted command. The command runs whether or not anybody waits for this.
#[must_use = "the command runs anyway, but only this says whether it was kept"]
pub struct Pending<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Future for Pending<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A writer that vanished without a word may or may not have committed.
        let answer = std::task::ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answer.unwrap_or(Err(StoreError::Unsynced)))
    }
}
