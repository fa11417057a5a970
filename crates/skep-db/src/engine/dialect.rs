//! Every word that only one database understands: connection settings, transaction words,
//! error codes. The rest of the crate speaks SQL both understand.

use std::cell::Cell;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::engine::conn::Conn;
use crate::engine::error::{SqlError, SqlKind};

/// The write lock is taken at once, so no statement inside can meet a busy database.
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";
/// A reader's transaction: every statement inside sees the same moment.
pub(crate) const BEGIN_READ: &str = "BEGIN DEFERRED";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
pub(crate) const SAVEPOINT: &str = "SAVEPOINT command";
pub(crate) const RELEASE: &str = "RELEASE command";
pub(crate) const ROLLBACK_TO: &str = "ROLLBACK TO command";

/// Copies the log into the database file as far as no reader needs it; blocks nobody.
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
/// The record keeps the form it had when a driver's own migrator wrote it.
pub(crate) const MAKE_RECORD: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (\
                                      version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
                                      installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, \
                                      success BOOLEAN NOT NULL, checksum BLOB NOT NULL, \
                                      execution_time BIGINT NOT NULL)";
pub(crate) const RECORDED: &str =
    "SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version";
pub(crate) const RECORD: &str = "INSERT INTO _sqlx_migrations (version, description, success, \
                                 checksum, execution_time) VALUES ($1, $2, TRUE, $3, -1)";

/// Statements a connection keeps prepared. Commands, queries and the event inserts together
/// are far below it.
const PREPARED_STATEMENTS: usize = 512;
/// Nobody else writes to the file; this only covers a curious `sqlite3` on the side.
const BUSY: Duration = Duration::from_secs(5);
/// The writer copies the log by itself after this many frames. The checkpointer normally keeps it
/// far below; it is the bound for a load that never lets it finish (64 MiB).
pub(crate) const LOG_FRAMES: u32 = 16384;
/// A log file that has once grown is cut back to its size when it is reused.
/// The writer keeps 8 MiB of pages: it touches some twenty trees in every turn.
const WRITER: &str = "PRAGMA journal_mode = WAL; PRAGMA cache_size = -8192; \
                      PRAGMA journal_size_limit = 67108864;";
/// A commit must be synced before others may see it.
const EVERY: &str = "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; \
                     PRAGMA synchronous = FULL;";
/// For a file that nobody uses before it is synced and moved into place: until then it needs
/// neither syncs nor a log beside it.
const NEW: &str = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;";

fn connect(path: &Path, flags: OpenFlags, settings: &[&str]) -> Result<Conn, SqlError> {
    // Each connection has one user at a time: it needs no lock of its own.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sql_error)?;
    connection.busy_timeout(BUSY).map_err(sql_error)?;
    // A plan never depends on the values given: without this, statements near a partial index
    // are prepared anew with each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sql_error)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
    for settings in settings {
        connection.execute_batch(settings).map_err(sql_error)?;
    }
    Ok(Conn::Sqlite(connection))
}

/// A connection that may write. The file must exist. Closed, it leaves the log as it is.
pub(crate) async fn connect_writer(path: &Path) -> Result<Conn, SqlError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, &[EVERY, WRITER])?;
    keep_log_at_close(&conn, true)?;
    let Conn::Sqlite(connection) = &conn;
    // It takes the place of SQLite's own hook, which would copy the log after so many frames.
    connection.wal_hook(Some(|_, frames| {
        FRAMES.set(u32::try_from(frames).ok());
        Ok(())
    }));
    Ok(conn)
}

thread_local! {
    static FRAMES: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Frames in the log after a commit of this thread; none where there was none since this was asked.
/// The writer has a thread of its own.
pub(crate) fn take_frames() -> Option<u32> {
    FRAMES.take()
}

/// The last connection to close copies the log into the database and removes it, unless it is told
/// to keep it. The head must say first that the log is no longer needed.
pub(crate) fn keep_log_at_close(conn: &Conn, keep: bool) -> Result<(), SqlError> {
    let Conn::Sqlite(connection) = conn;
    let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    set.map(drop).map_err(sql_error)
}

/// Copies the log into the database and syncs that. True where all of it is there now.
pub(crate) async fn copy_log(conn: &mut Conn) -> Result<bool, SqlError> {
    let Some(state) = conn.row(CHECKPOINT, &[]).await? else { return Ok(false) };
    Ok(state.int(0)? == 0 && state.int(1)? == state.int(2)?)
}

/// A database file that does not exist yet.
pub(crate) async fn connect_new(path: &Path) -> Result<Conn, SqlError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    connect(path, flags, &[EVERY, NEW])
}

/// A connection that can only read.
pub(crate) async fn connect_reader(path: &Path) -> Result<Conn, SqlError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, &[EVERY])
}

/// Every text of every table, with its table, the first column of its row, and its column. What
/// the search index holds stands in the rows as well.
pub(crate) fn each_text(
    conn: &Conn,
    mut each: impl FnMut(&StoredText<'_>),
) -> Result<(), SqlError> {
    const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' \
                          AND name NOT LIKE 'search%' AND name NOT LIKE 'sqlite%' ORDER BY name";
    let Conn::Sqlite(connection) = conn;
    let mut tables = connection.prepare(TABLES).map_err(sql_error)?;
    let names = tables.query_map([], |row| row.get::<_, String>(0)).map_err(sql_error)?;
    for table in names {
        let table = table.map_err(sql_error)?;
        let select = format!("SELECT * FROM \"{table}\"");
        let mut statement = connection.prepare(&select).map_err(sql_error)?;
        let columns: Vec<String> = statement.column_names().into_iter().map(Into::into).collect();
        let mut rows = statement.query([]).map_err(sql_error)?;
        while let Some(row) = rows.next().map_err(sql_error)? {
            let first = match row.get_ref(0).map_err(sql_error)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => String::new(),
            };
            for (at, column) in columns.iter().enumerate() {
                let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) =
                    row.get_ref(at).map_err(sql_error)?
                else {
                    continue;
                };
                let Ok(text) = std::str::from_utf8(bytes) else { continue };
                each(&StoredText { table: &table, row: &first, column, text });
            }
        }
    }
    Ok(())
}

/// A text that is kept, and where.
pub struct StoredText<'t> {
    pub table: &'t str,
    /// The first column of its row.
    pub row: &'t str,
    pub column: &'t str,
    pub text: &'t str,
}

/// Has `proceed` asked every hundred steps of a statement; on `false` it is interrupted.
pub async fn watch(
    conn: &mut Conn,
    mut proceed: impl FnMut() -> bool + Send + 'static,
) -> Result<(), SqlError> {
    let Conn::Sqlite(connection) = conn;
    connection.progress_handler(100, Some(move || !proceed())).map_err(sql_error)
}

pub async fn unwatch(conn: &mut Conn) -> Result<(), SqlError> {
    let Conn::Sqlite(connection) = conn;
    connection.progress_handler(0, None::<fn() -> bool>).map_err(sql_error)
}

pub(crate) const EVENT_COLUMNS: usize = 4;
/// Each length up to this is its own prepared statement.
pub(crate) const EVENTS_PER_INSERT: usize = 32;

static INSERT_EVENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let row = |first: usize| {
        let binds: Vec<String> = (first..first + EVENT_COLUMNS).map(|n| format!("${n}")).collect();
        format!("({})", binds.join(", "))
    };
    let statement = |rows: usize| {
        let rows: Vec<String> = (0..rows).map(|n| row(n * EVENT_COLUMNS + 1)).collect();
        let columns = "seq, at, agent, body";
        format!("INSERT INTO events ({columns}) VALUES {}", rows.join(", "))
    };
    (1..=EVENTS_PER_INSERT).map(statement).collect()
});

/// The statement that inserts this many events (1 ..= `EVENTS_PER_INSERT`).
pub(crate) fn insert_events(rows: usize) -> &'static str {
    INSERT_EVENTS.get(rows.saturating_sub(1)).map_or("", String::as_str)
}

pub(crate) fn sql_error(error: rusqlite::Error) -> SqlError {
    let kind = match (error.sqlite_error(), &error) {
        (Some(failure), _) => kind_of_code(failure.extended_code),
        (None, rusqlite::Error::InvalidColumnIndex(_)) => SqlKind::Decode,
        (None, _) => SqlKind::Other,
    };
    SqlError::new(kind, error.to_string())
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

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
