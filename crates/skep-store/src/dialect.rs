//! Every word that only one database understands: connection settings, transaction words,
//! error codes. The rest of the crate speaks SQL both understand.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::conn::Conn;
use crate::error::{SqlError, SqlKind};

/// The write lock is taken at once, so no statement inside can meet a busy database.
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";
/// A reader's transaction: every statement inside sees the same moment.
pub(crate) const BEGIN_READ: &str = "BEGIN DEFERRED";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
pub(crate) const SAVEPOINT: &str = "SAVEPOINT command";
pub(crate) const RELEASE: &str = "RELEASE command";
pub(crate) const ROLLBACK_TO: &str = "ROLLBACK TO command";

/// Copies the log into the database file as far as nobody is in the way; blocks nobody.
pub(crate) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Copies all of it, syncs, and empties the log: what is read afterwards is on the disk.
pub(crate) const CHECKPOINT_ALL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// The last statement on a new file: from here on it keeps a log.
pub(crate) const KEEP_LOG: &str = "PRAGMA journal_mode = WAL";

/// One row per finding, or the single row `ok`.
pub(crate) const QUICK_CHECK: &str = "PRAGMA quick_check(3)";
/// The same, every index compared with its table as well.
pub(crate) const INTEGRITY_CHECK: &str = "PRAGMA integrity_check(20)";
/// The newest migration on record, once there is a record.
pub(crate) const HAS_MIGRATIONS: &str =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'";
pub(crate) const NEWEST_MIGRATION: &str = "SELECT max(version) FROM _sqlx_migrations";

/// Takes what was said between two places into the full-text index.
pub(crate) const INDEX_SPOKEN: &str = "INSERT INTO search (rowid, scope, text) \
                                       SELECT id, scope, text FROM spoken_text \
                                       WHERE id > $1 AND id <= $2";
/// The index gives its rows in the order asked for, so that only a page is ever read. The marks
/// are those of `search::MARK`.
pub(crate) const SEARCH: &str = "SELECT p.id, a.name, p.session, s.key, p.seq, h.at, \
                                 json_extract(h.body, '$.role'), f.text, \
                                 highlight(search, 1, char(64976), char(64977)) \
                                 FROM search f JOIN spoken p ON p.id = f.rowid \
                                 JOIN agents a ON a.id = p.agent \
                                 JOIN sessions s ON s.id = p.session \
                                 JOIN history h ON h.session = p.session AND h.seq = p.seq \
                                 WHERE search MATCH $1 AND f.rowid < $2 \
                                 AND substr(s.key, 1, length($4)) = $4 \
                                 ORDER BY f.rowid DESC LIMIT $3";

/// Statements a connection keeps prepared. Commands, queries and the event inserts together
/// are far below it.
const PREPARED_STATEMENTS: usize = 512;
/// Nobody else writes to the file; this only covers a curious `sqlite3` on the side.
const BUSY: Duration = Duration::from_secs(5);
/// Pages of log after which a commit checkpoints by itself. The checkpointer normally keeps the
/// log far below this; it is the bound for a load that never lets it finish (64 MiB).
const LOG_PAGES: &str = "16384";
/// A log file that has once grown is cut back to this when it is reused.
const LOG_BYTES: &str = "67108864";

fn file(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY)
        .statement_cache_capacity(PREPARED_STATEMENTS)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

/// A connection that may write. The file must exist.
pub(crate) async fn connect_writer(path: &Path) -> Result<Conn, SqlError> {
    let options = file(path)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("wal_autocheckpoint", LOG_PAGES)
        .pragma("journal_size_limit", LOG_BYTES)
        .thread_name(|_| "skep-writer".to_owned());
    Ok(Conn::Sqlite(options.connect().await.map_err(sql_error)?))
}

/// A database file that does not exist yet and that nobody uses before it is synced and moved
/// into place: until then it needs neither syncs nor a log beside it.
pub(crate) async fn connect_new(path: &Path) -> Result<Conn, SqlError> {
    let options = file(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off);
    Ok(Conn::Sqlite(options.connect().await.map_err(sql_error)?))
}

/// A connection that can only read.
pub(crate) async fn connect_reader(path: &Path) -> Result<Conn, SqlError> {
    let options = file(path).read_only(true).thread_name(|_| "skep-reader".to_owned());
    Ok(Conn::Sqlite(options.connect().await.map_err(sql_error)?))
}

/// Has `proceed` asked every hundred steps of a statement; on `false` it is interrupted.
pub(crate) async fn watch(
    conn: &mut Conn,
    proceed: impl FnMut() -> bool + Send + 'static,
) -> Result<(), SqlError> {
    let Conn::Sqlite(connection) = conn;
    connection.lock_handle().await.map_err(sql_error)?.set_progress_handler(100, proceed);
    Ok(())
}

pub(crate) async fn unwatch(conn: &mut Conn) -> Result<(), SqlError> {
    let Conn::Sqlite(connection) = conn;
    connection.lock_handle().await.map_err(sql_error)?.remove_progress_handler();
    Ok(())
}

pub(crate) const EVENT_COLUMNS: usize = 7;
/// Each length up to this is its own prepared statement.
pub(crate) const EVENTS_PER_INSERT: usize = 32;

static INSERT_EVENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let row = |first: usize| {
        let binds: Vec<String> = (first..first + EVENT_COLUMNS).map(|n| format!("${n}")).collect();
        format!("({})", binds.join(", "))
    };
    let statement = |rows: usize| {
        let rows: Vec<String> = (0..rows).map(|n| row(n * EVENT_COLUMNS + 1)).collect();
        let columns = "seq, at, agent, session, turn, kind, body";
        format!("INSERT INTO events ({columns}) VALUES {}", rows.join(", "))
    };
    (1..=EVENTS_PER_INSERT).map(statement).collect()
});

/// The statement that inserts this many events (1 ..= `EVENTS_PER_INSERT`).
pub(crate) fn insert_events(rows: usize) -> &'static str {
    INSERT_EVENTS.get(rows.saturating_sub(1)).map_or("", String::as_str)
}

pub(crate) fn sql_error(error: sqlx::Error) -> SqlError {
    let kind = match &error {
        sqlx::Error::Database(database) => database
            .code()
            .and_then(|code| code.parse::<i32>().ok())
            .map_or(SqlKind::Other, kind_of_code),
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => {
            SqlKind::Broken
        }
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_) => SqlKind::Decode,
        _ => SqlKind::Other,
    };
    let message = match &error {
        sqlx::Error::Database(database) => database.to_string(),
        other => other.to_string(),
    };
    SqlError::new(kind, message)
}

/// SQLite's extended result codes; the low byte is the primary one.
fn kind_of_code(code: i32) -> SqlKind {
    const CONSTRAINT_PRIMARY_KEY: i32 = 1555;
    const CONSTRAINT_UNIQUE: i32 = 2067;
    const CONSTRAINT_ROWID: i32 = 2579;
    match (code, code & 0xff) {
        (CONSTRAINT_PRIMARY_KEY | CONSTRAINT_UNIQUE | CONSTRAINT_ROWID, _) => SqlKind::Unique,
        (_, 19) => SqlKind::Constraint,
        (_, 13) => SqlKind::DiskFull,
        // NOMEM, IOERR, CANTOPEN, PROTOCOL, MISUSE
        (_, 7 | 10 | 14 | 15 | 21) => SqlKind::Broken,
        // CORRUPT, NOTADB
        (_, 11 | 26) => SqlKind::Corrupt,
        (_, 8) => SqlKind::ReadOnly,
        // BUSY, LOCKED
        (_, 5 | 6) => SqlKind::Busy,
        // ABORT, INTERRUPT
        (_, 4 | 9) => SqlKind::Interrupted,
        _ => SqlKind::Other,
    }
}
