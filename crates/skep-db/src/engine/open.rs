//! Opening: look before touching, refuse what cannot be trusted, then make it ready.
//!
//! Everything up to [`empty_log`] only reads, so that a database which is newer, damaged or
//! read-only is left exactly as it was found.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skep_core::audit::{AuditFinding, AuditVerdict, Head};

use crate::disk::file::{self, FileState, SideFiles};
use crate::disk::floor::Floor;
use crate::disk::line_file::{LineFile, LineState};
use crate::disk::log_reader::{self, LogScan};
use crate::disk::open_error::OpenError;
use crate::engine::command::Schema;
use crate::engine::conn::Conn;
use crate::engine::dialect::StoredText;
use crate::engine::error::{SqlError, SqlKind};
use crate::engine::head::{self, Keeper, LogState};
use crate::engine::loss::{self, Loss};
use crate::engine::trail::{self, Trail};
use crate::engine::tx::Counters;
use crate::engine::{dialect, migrate};

/// The start check stops here; what it has not seen by then counts as passed.
const CHECK: Duration = Duration::from_millis(100);
const READERS: usize = 4;

#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub database: PathBuf,
    /// There after a clean stop, and only then.
    pub clean_marker: PathBuf,
    /// Names the newest row of the audit trail.
    pub audit_head: PathBuf,
    /// Names the end of the last answered commit.
    pub store_head: PathBuf,
    /// Open it although answered commits are missing in its log. The files are copied to this
    /// folder first.
    pub accept_loss: Option<PathBuf>,
    /// How many reads run at the same time.
    pub readers: usize,
}

impl OpenOptions {
    /// The usual names in the home's `run/` folder, which must exist.
    pub fn in_run_folder(run: &Path) -> Self {
        Self {
            database: run.join("skep.db"),
            clean_marker: run.join("clean"),
            audit_head: run.join("audit.head"),
            store_head: run.join("store.head"),
            accept_loss: None,
            readers: READERS,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// The last run did not end with `close`.
    pub unclean: bool,
    /// There was no database before.
    pub fresh: bool,
    /// What is not as it was left in the audit trail. The caller adds a row that says so, before
    /// any other.
    pub trail: Option<AuditFinding>,
    /// What was missing, where that was accepted.
    pub loss: Option<Loss>,
}

pub(crate) struct OpenedStore {
    pub writer: Conn,
    pub reader: Conn,
    pub counters: Counters,
    pub floor: Arc<Floor>,
    pub head: Keeper,
    pub trail: Option<LineFile>,
    pub report: OpenReport,
}

pub(crate) async fn open(options: &OpenOptions, schema: &Schema) -> Result<OpenedStore, OpenError> {
    let database = options.database.as_path();
    let (before, fresh) = match file::examine(database)? {
        FileState::Missing => {
            create(options, schema).await?;
            (Before::default(), true)
        }
        FileState::Database => (look_at_log(options)?, false),
    };
    let reason = match (&before.lost, &options.accept_loss) {
        (Some(reason), Some(folder)) => {
            loss::prepare(options, folder, schema).await?;
            Some((reason.clone(), folder.clone()))
        }
        _ => before.refused(database).map(|()| None)?,
    };
    let side_files = SideFiles::of(database);
    let reader = match check(database, schema, CHECK).await {
        Ok(reader) => reader,
        Err(error) => {
            side_files.remove_new();
            return Err(error);
        }
    };
    let clean = remove_marker(&options.clean_marker)?;
    let failed = |error: SqlError| open_error(database, error);
    let mut writer = dialect::connect_writer(database).await.map_err(failed)?;
    let head = empty_log(options, &mut writer, &before).await?;
    let (found, trail) = make_ready(options, &mut writer, schema).await?;
    keep_private(database);
    let floor = Floor::of(database).map_err(|error| io_error("could not find", database, error))?;
    let known = before.head.unwrap_or_default();
    // What was given once is not given again, also where it was lost.
    let counters =
        Counters { seq: found.seq.max(known.seq), ord: found.ord.max(known.ord), ..found };
    let loss = reason.map(|(reason, folder)| Loss::new(reason, folder, before.head, found));
    let (file, finding) = trail.map_or((None, None), |trail| (trail.file, trail.finding));
    let report = OpenReport { unclean: !clean && !fresh, fresh, trail: finding, loss };
    let floor = Arc::new(floor);
    Ok(OpenedStore { floor, writer, reader, counters, head, trail: file, report })
}

/// The state of the log before SQLite opens it.
#[derive(Default)]
struct Before {
    log: LogScan,
    head: Option<head::StoreHead>,
    /// Answered commits are missing. Why.
    lost: Option<String>,
}

impl Before {
    fn refused(&self, database: &Path) -> Result<(), OpenError> {
        let lost = |reason: &String| OpenError::Lost {
            log: file::log_of(database),
            reason: reason.clone(),
        };
        self.lost.as_ref().map_or(Ok(()), |reason| Err(lost(reason)))
    }
}

fn look_at_log(options: &OpenOptions) -> Result<Before, OpenError> {
    let kept = head::read(&options.store_head);
    let head = match kept {
        LineState::At(head) => Some(head),
        LineState::Missing | LineState::Unreadable => None,
    };
    let path = file::log_of(&options.database);
    let log = log_reader::read(&path, head.map(|head| head.end.frames));
    let log = log.map_err(|source| io_error("could not read", &path, source))?;
    let lost = match head::decide(&kept, &log) {
        LogState::Whole => None,
        LogState::Lost(reason) => Some(reason),
        LogState::Unknown => {
            // A home of an earlier version has no head; stopped in order, it needs none.
            if kept == LineState::Unreadable || log.bytes > 0 || !options.clean_marker.exists() {
                let file = options.store_head.display();
                tracing::warn!(%file, "it does not say how far the log went: it is taken as it is");
            }
            None
        }
    };
    Ok(Before { log, head, lost })
}

/// Builds the database under another name and moves it into place when it is complete and
/// synced: a file of the right name is never half made, so a short one is always damage.
async fn create(options: &OpenOptions, schema: &Schema) -> Result<(), OpenError> {
    let database = options.database.as_path();
    let failed = |error: SqlError| open_error(database, error);
    let new = file::beside(database, ".new");
    for leftover in ["", "-journal", "-wal", "-shm"] {
        let path = file::beside(&new, leftover);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("could not remove", &path, source));
            }
            _ => {}
        }
    }
    // Only the owner may read it; the files beside it get the same mode.
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    made.map_err(|source| io_error("could not make", &new, source))?;
    let mut conn = dialect::connect_new(&new).await.map_err(failed)?;
    migrate::run(&mut conn, schema.migrations).await.map_err(failed)?;
    conn.run_once(dialect::KEEP_LOG).await.map_err(failed)?;
    conn.close().await.map_err(failed)?;
    let moved =
        File::open(&new).and_then(|file| file.sync_all()).and_then(|()| fs::rename(&new, database));
    moved.map_err(|source| io_error("could not put in place", database, source))?;
    // The entries of the file, of its folder and of the home, so that a power cut right after
    // the first acknowledged write finds the way to it.
    let folders = database.ancestors().skip(1).take(3).filter(|path| path.is_absolute());
    for folder in folders.chain(options.clean_marker.parent()) {
        file::sync_folder(folder).map_err(|e| io_error("could not sync", folder, e))?;
    }
    Ok(())
}

/// Reads only. Returns the connection it used; it becomes the first reader.
pub(crate) async fn check(
    database: &Path,
    schema: &Schema,
    bound: Duration,
) -> Result<Conn, OpenError> {
    let failed = |error: SqlError| open_error(database, error);
    let mut conn = dialect::connect_reader(database).await.map_err(failed)?;
    let checked = async {
        refuse_newer(database, &mut conn, schema).await?;
        refuse_damaged(database, &mut conn, bound).await
    };
    if let Err(error) = checked.await {
        // Closed before anybody tidies up after it.
        let _ = conn.close().await;
        return Err(error);
    }
    Ok(conn)
}

pub(crate) async fn inspect(
    options: &OpenOptions,
    schema: &Schema,
) -> Result<Option<i64>, OpenError> {
    let database = options.database.as_path();
    if file::examine(database)? == FileState::Missing {
        return Ok(None);
    }
    look_at_log(options)?.refused(database)?;
    let side_files = SideFiles::of(database);
    let version = read_version(database, schema).await;
    side_files.remove_new();
    version
}

pub(crate) async fn verify_audit(
    options: &OpenOptions,
    schema: &Schema,
) -> Result<Option<AuditVerdict>, OpenError> {
    let database = options.database.as_path();
    let Some(version) = inspect(options, schema).await? else { return Ok(None) };
    if schema.migrations.last().is_some_and(|newest| newest.version > version) {
        let reason = "it is of an older Skep; start this one once, then verify".to_owned();
        return Err(OpenError::Sql { path: database.to_owned(), reason });
    }
    let failed = |error: SqlError| open_error(database, error);
    let side_files = SideFiles::of(database);
    let kept = trail::read(&options.audit_head);
    let verdict = async {
        let mut conn = dialect::connect_reader(database).await?;
        let verdict = trail::verify(&mut conn, kept).await?;
        conn.close().await?;
        Ok(verdict)
    };
    let verdict = verdict.await.map_err(failed);
    side_files.remove_new();
    verdict.map(Some)
}

/// Hands over every text that is kept; `false` where there is no database yet.
pub(crate) async fn each_text(
    options: &OpenOptions,
    schema: &Schema,
    each: impl FnMut(&StoredText<'_>),
) -> Result<bool, OpenError> {
    let database = options.database.as_path();
    if inspect(options, schema).await?.is_none() {
        return Ok(false);
    }
    let side_files = SideFiles::of(database);
    let read = async {
        let conn = dialect::connect_reader(database).await?;
        let read = dialect::each_text(&conn, each);
        conn.close().await?;
        read
    };
    let read = read.await.map_err(|error: SqlError| open_error(database, error));
    side_files.remove_new();
    read.map(|()| true)
}

async fn read_version(database: &Path, schema: &Schema) -> Result<Option<i64>, OpenError> {
    let failed = |error: SqlError| open_error(database, error);
    let mut conn = check(database, schema, CHECK).await?;
    let version: Option<_> = conn.find(dialect::NEWEST_MIGRATION, &[]).await.map_err(failed)?;
    conn.close().await.map_err(failed)?;
    Ok(version.flatten())
}

async fn refuse_newer(database: &Path, conn: &mut Conn, schema: &Schema) -> Result<(), OpenError> {
    let failed = |error: SqlError| open_error(database, error);
    let recorded: Option<i64> = conn.find(dialect::HAS_MIGRATIONS, &[]).await.map_err(failed)?;
    if recorded.is_none_or(|recorded| recorded == 0) {
        let reason = "it is a database, but not one of Skep".to_owned();
        return Err(OpenError::Corrupt { path: database.to_owned(), reason });
    }
    let newest: Option<_> = conn.find(dialect::NEWEST_MIGRATION, &[]).await.map_err(failed)?;
    let found: i64 = newest.flatten().unwrap_or(0);
    let known = schema.migrations.iter().map(|file| file.version).max().unwrap_or(0);
    if found > known {
        return Err(OpenError::Newer { path: database.to_owned(), found, known });
    }
    Ok(())
}

async fn refuse_damaged(
    database: &Path,
    conn: &mut Conn,
    bound: Duration,
) -> Result<(), OpenError> {
    let failed = |error: SqlError| open_error(database, error);
    let started = Instant::now();
    dialect::watch(conn, move || started.elapsed() < bound).await.map_err(failed)?;
    let checked = conn.rows(dialect::QUICK_CHECK, &[]).await;
    dialect::unwatch(conn).await.map_err(failed)?;
    let findings = match checked {
        Ok(rows) => rows,
        Err(error) if error.kind == SqlKind::Interrupted => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let findings: Result<Vec<String>, SqlError> = findings.iter().map(|row| row.text(0)).collect();
    let findings = findings.map_err(failed)?;
    if findings.iter().all(|finding| finding == "ok") {
        return Ok(());
    }
    Err(OpenError::Corrupt { path: database.to_owned(), reason: findings.join("; ") })
}

/// The first writes. What a crash left in the log is brought to the disk before anybody can read
/// it: after that, nothing seen is unsynced. The head says so before the log is emptied.
async fn empty_log(
    options: &OpenOptions,
    writer: &mut Conn,
    before: &Before,
) -> Result<Keeper, OpenError> {
    let database = options.database.as_path();
    let failed = |error: SqlError| open_error(database, error);
    let in_use = || {
        let reason = "another program is using it; stop that program".to_owned();
        OpenError::Sql { path: database.to_owned(), reason }
    };
    if !dialect::copy_log(writer).await.map_err(failed)? {
        return Err(in_use());
    }
    let known = before.head.unwrap_or_default();
    let known = Counters { seq: known.seq, ord: known.ord, ..Counters::default() };
    let path = options.store_head.as_path();
    let head = Keeper::open(path, before.log.end, known);
    let head = head.map_err(|source| io_error("could not write", path, source))?;
    let state = writer.row(dialect::CHECKPOINT_ALL, &[]).await.map_err(failed)?;
    match state.map_or(Ok(0), |row| row.int(0)).map_err(failed)? {
        0 => Ok(head),
        _ => Err(in_use()),
    }
}

async fn make_ready(
    options: &OpenOptions,
    writer: &mut Conn,
    schema: &Schema,
) -> Result<(Counters, Option<Trail>), OpenError> {
    let database = options.database.as_path();
    let failed = |error: SqlError| open_error(database, error);
    migrate::run(writer, schema.migrations).await.map_err(failed)?;
    let trail = match schema.audited {
        true => Some(trail::open(writer, &options.audit_head).await.map_err(failed)?),
        false => None,
    };
    let known = trail.as_ref().map_or_else(Head::default, |trail| trail.head);
    Ok((Counters::load(writer, schema, known).await.map_err(failed)?, trail))
}

/// Earlier versions made the files as readable as the folder they lie in let them be.
fn keep_private(database: &Path) {
    for end in ["", "-wal", "-shm"] {
        let path = file::beside(database, end);
        let open = fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if open && let Err(error) = fs::set_permissions(&path, fs::Permissions::from_mode(0o600)) {
            tracing::warn!(%error, file = %path.display(), "others may read this file");
        }
    }
}

fn open_error(database: &Path, error: SqlError) -> OpenError {
    let path = database.to_owned();
    match error.kind {
        SqlKind::Corrupt => OpenError::Corrupt { path, reason: error.message },
        SqlKind::DiskFull => OpenError::DiskFull { path },
        SqlKind::ReadOnly => OpenError::ReadOnly { path, reason: error.message },
        _ => OpenError::Sql { path, reason: error.message },
    }
}

pub(crate) fn io_error(attempt: &'static str, path: &Path, source: io::Error) -> OpenError {
    match source.kind() {
        io::ErrorKind::StorageFull => OpenError::DiskFull { path: path.to_owned() },
        _ => OpenError::Io { attempt, path: path.to_owned(), source },
    }
}

/// Answers whether it was there.
fn remove_marker(marker: &Path) -> Result<bool, OpenError> {
    let removed = match fs::remove_file(marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        removed => removed,
    };
    // Not synced here: the first sync of the log, which lies in the same folder, syncs that too,
    // so no acknowledged write can meet the old marker again.
    removed.map_err(|source| io_error("could not remove", marker, source))?;
    Ok(true)
}

pub(crate) fn mark_clean(marker: &Path) -> io::Result<()> {
    File::create(marker)?.sync_all()?;
    marker.parent().map_or(Ok(()), file::sync_folder)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
