//! The log holds what was committed and nothing else: for its own connection, for others, on a full
//! disk and after a crash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};
use tempfile::TempDir;

use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::SqlKind;

/// The number of each note, and which hand wrote it.
type Notes = Vec<(i64, String)>;

struct Bench {
    folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let Conn::Sqlite(new) = dialect::connect_new(&bench.database()).await.unwrap();
        let table = "CREATE TABLE notes (n INTEGER PRIMARY KEY, hand TEXT, text TEXT)";
        new.execute_batch(table).unwrap();
        new.execute_batch(dialect::KEEP_LOG).unwrap();
        bench
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("skep.db")
    }

    /// The store's own, with a note in the log.
    async fn writer(&self) -> Connection {
        let Conn::Sqlite(writer) = dialect::connect_writer(&self.database()).await.unwrap();
        put(&writer, "first", 0..1);
        writer
    }

    /// As another program opens it.
    fn stranger(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }

    fn log_length(&self) -> u64 {
        fs::metadata(self.folder.path().join("skep.db-wal")).unwrap().len()
    }

    /// What a start after a crash at this moment would find.
    fn recovered(&self) -> Notes {
        let after = tempfile::tempdir().unwrap();
        for name in ["skep.db", "skep.db-wal"] {
            fs::copy(self.folder.path().join(name), after.path().join(name)).unwrap();
        }
        let found = Connection::open(after.path().join("skep.db")).unwrap();
        let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        assert_eq!(found.query_row(dialect::INTEGRITY_CHECK, [], check).unwrap(), "ok");
        notes(&found)
    }
}

/// One page each.
fn put(connection: &Connection, hand: &str, numbers: std::ops::Range<i64>) {
    try_put(connection, hand, numbers).unwrap();
}

fn try_put(
    connection: &Connection,
    hand: &str,
    numbers: std::ops::Range<i64>,
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO notes VALUES (?1, ?2, ?3)";
    let mut insert = connection.prepare_cached(insert)?;
    numbers.into_iter().try_for_each(|n| insert.execute((n, hand, "x".repeat(3000))).map(|_| ()))
}

fn notes(connection: &Connection) -> Notes {
    let mut select = connection.prepare("SELECT n, hand FROM notes ORDER BY n").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn by(hand: &str, numbers: std::ops::Range<i64>) -> Notes {
    numbers.map(|n| (n, hand.to_owned())).collect()
}

#[tokio::test]
async fn store_a_commit_is_seen_by_all() {
    let bench = Bench::new().await;
    let writer = bench.writer().await;
    let Conn::Sqlite(reader) = dialect::connect_reader(&bench.database()).await.unwrap();
    let stranger = bench.stranger();
    for (first, end) in [(1, 21), (21, 22), (22, 222)] {
        let length = bench.log_length();
        writer.execute_batch(dialect::BEGIN).unwrap();
        put(&writer, "ours", first..end);
        writer.execute_batch(dialect::COMMIT).unwrap();
        let grown = bench.log_length() - length;
        let rows = u64::try_from(end - first).unwrap();
        assert!(grown > rows * 4096, "{rows} rows, {grown} bytes");
        for connection in [&writer, &reader, &stranger] {
            assert_eq!(notes(connection)[1..], by("ours", 1..end));
        }
        assert_eq!(bench.recovered()[1..], by("ours", 1..end));
    }
}

/// With a cache of ten pages most of a transaction is in the log before it ends, in part written
/// over, in part undone.
#[tokio::test]
async fn store_a_transaction_larger_than_the_cache_reads_its_own_pages() {
    let bench = Bench::new().await;
    let writer = bench.writer().await;
    writer.execute_batch("PRAGMA cache_size = 10").unwrap();
    for (first, end) in [(1, 31), (31, 301)] {
        let committed = notes(&writer);
        let mut expected = committed.clone();
        writer.execute_batch(dialect::BEGIN).unwrap();
        put(&writer, "ours", first..end);
        writer.execute_batch(dialect::SAVEPOINT).unwrap();
        put(&writer, "undone", end..end + 30);
        writer.execute_batch("UPDATE notes SET hand = 'undone'").unwrap();
        assert_eq!(notes(&writer), by("undone", 0..end + 30));
        writer.execute_batch(dialect::ROLLBACK_TO).unwrap();
        writer.execute_batch(dialect::RELEASE).unwrap();
        expected.extend(by("ours", first..end));
        assert_eq!(notes(&writer), expected);
        writer.execute_batch("UPDATE notes SET hand = 'again' WHERE n % 7 = 3").unwrap();
        expected.iter_mut().filter(|note| note.0 % 7 == 3).for_each(|n| n.1 = "again".into());
        assert_eq!(notes(&writer), expected);
        assert_eq!(notes(&bench.stranger()), committed, "nothing before the commit");
        assert_eq!(bench.recovered(), committed);
        writer.execute_batch(dialect::COMMIT).unwrap();
        for seen in [notes(&writer), notes(&bench.stranger()), bench.recovered()] {
            assert_eq!(seen, expected);
        }
    }
}

/// What a rolled back transaction wrote must not be written later, over another's commit.
#[tokio::test]
async fn store_frames_of_a_rolled_back_transaction_never_come_later() {
    for others in [1, 12, 30] {
        let bench = Bench::new().await;
        let writer = bench.writer().await;
        writer.execute_batch("PRAGMA cache_size = 10").unwrap();
        writer.execute_batch(dialect::BEGIN).unwrap();
        put(&writer, "undone", 1..25);
        writer.execute_batch(dialect::ROLLBACK).unwrap();
        let mut stranger = bench.stranger();
        let theirs = stranger.transaction().unwrap();
        put(&theirs, "theirs", 1..1 + others);
        theirs.commit().unwrap();
        let mut expected = by("first", 0..1);
        expected.extend(by("theirs", 1..1 + others));
        assert_eq!(notes(&writer), expected);
        put(&writer, "ours", 100..101);
        expected.extend(by("ours", 100..101));
        for seen in [notes(&writer), notes(&stranger), bench.recovered()] {
            assert_eq!(seen, expected, "{others} notes of the other");
        }
    }
}

/// Whether the disk ends between two pages, within one or before the first byte: nothing of
/// the commit is there afterwards, and the next one finds its place.
#[tokio::test]
async fn store_a_disk_full_in_the_middle_of_a_commit_leaves_nothing_of_it() {
    let bench = Bench::new().await;
    let writer = bench.writer().await;
    let mut expected = notes(&writer);
    for (rows, spaces) in [(20, [0, 30, 4120, 60_000]), (100, [0, 100_000, 0x1ffff, 300_000])] {
        for space in spaces {
            let first = expected.last().unwrap().0 + 1;
            writer.execute_batch(dialect::BEGIN).unwrap();
            put(&writer, "lost", first..first + rows);
            let failed = with_space(space, || writer.execute_batch(dialect::COMMIT)).unwrap_err();
            assert_eq!(dialect::sql_error(failed).kind, SqlKind::DiskFull);
            assert!(writer.is_autocommit(), "rolled back");
            // As the store makes sure of its connection, with room on the disk again.
            writer.execute_batch(dialect::BEGIN).unwrap();
            writer.execute_batch(dialect::ROLLBACK).unwrap();
            for seen in [notes(&writer), notes(&bench.stranger()), bench.recovered()] {
                assert_eq!(seen, expected, "{rows} rows, room for {space} bytes");
            }
            put(&writer, "kept", first..first + 1);
            expected.extend(by("kept", first..first + 1));
            for seen in [notes(&writer), notes(&bench.stranger()), bench.recovered()] {
                assert_eq!(seen, expected, "{rows} rows, room for {space} bytes");
            }
        }
    }
}

/// The disk is full before the commit, when a page has to leave the cache: the frames that are
/// lost are those of earlier statements, so the transaction must not go on.
#[tokio::test]
async fn store_a_disk_full_before_the_commit_undoes_the_whole_transaction() {
    for space in [0, 30, 70_000] {
        let bench = Bench::new().await;
        let writer = bench.writer().await;
        writer.execute_batch("PRAGMA cache_size = 10").unwrap();
        writer.execute_batch(dialect::BEGIN).unwrap();
        put(&writer, "lost", 1..25);
        assert_eq!(notes(&writer)[1..], by("lost", 1..25));
        let failed = with_space(space, || try_put(&writer, "lost", 25..100));
        assert_eq!(dialect::sql_error(failed.unwrap_err()).kind, SqlKind::DiskFull);
        assert!(writer.is_autocommit(), "rolled back");
        put(&writer, "kept", 1..3);
        let mut expected = by("first", 0..1);
        expected.extend(by("kept", 1..3));
        for seen in [notes(&writer), notes(&bench.stranger()), bench.recovered()] {
            assert_eq!(seen, expected, "room for {space} bytes");
        }
    }
}

/// A read makes room in the cache, so that it meets the full disk too.
#[tokio::test]
async fn store_a_disk_full_in_a_read_undoes_the_whole_transaction() {
    let bench = Bench::new().await;
    let writer = bench.writer().await;
    writer.execute_batch("PRAGMA cache_size = 10").unwrap();
    writer.execute_batch(dialect::BEGIN).unwrap();
    put(&writer, "lost", 1..25);
    let sum = "SELECT sum(length(text)) FROM notes";
    let read = with_space(0, || writer.query_row(sum, [], |row| row.get::<_, i64>(0)));
    assert_eq!(dialect::sql_error(read.unwrap_err()).kind, SqlKind::DiskFull);
    assert!(writer.is_autocommit(), "rolled back");
    put(&writer, "kept", 1..2);
    let expected = [by("first", 0..1), by("kept", 1..2)].concat();
    for seen in [notes(&writer), notes(&bench.stranger()), bench.recovered()] {
        assert_eq!(seen, expected);
    }
}

thread_local! {
    /// Bytes this thread may write still.
    static SPACE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `work` on a disk that has room for so many bytes.
fn with_space<T>(space: usize, work: impl FnOnce() -> T) -> T {
    write_below();
    SPACE.set(space);
    let done = work();
    SPACE.set(usize::MAX);
    done
}

type Write = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;

/// The write SQLite had before `write_within` took its place.
fn write_below() -> Write {
    static BELOW: OnceLock<Write> = OnceLock::new();
    *BELOW.get_or_init(|| {
        // SAFETY: SQLite keeps its system calls as pointers of no type; this is what it says of
        // the call of this name.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(ptr::null());
            let below = (*vfs).xGetSystemCall.unwrap()(vfs, c"pwrite".as_ptr()).unwrap();
            let ours: unsafe extern "C" fn() = std::mem::transmute(write_within as Write);
            let set = (*vfs).xSetSystemCall.unwrap()(vfs, c"pwrite".as_ptr(), Some(ours));
            assert_eq!(set, ffi::SQLITE_OK);
            std::mem::transmute::<unsafe extern "C" fn(), Write>(below)
        }
    })
}

unsafe extern "C" fn write_within(
    file: c_int,
    bytes: *const c_void,
    amount: usize,
    offset: i64,
) -> isize {
    static FULL: OnceLock<File> = OnceLock::new();
    let full = || File::options().write(true).open(Path::new("/dev/full")).unwrap();
    let write = write_below();
    let space = SPACE.get();
    // SAFETY: called as `pwrite` is.
    unsafe {
        if space == 0 {
            return write(FULL.get_or_init(full).as_raw_fd(), bytes, amount, offset);
        }
        let written = write(file, bytes, amount.min(space), offset);
        SPACE.set(space - usize::try_from(written).unwrap_or_default());
        written
    }
}
