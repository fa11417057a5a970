//! The line, and what a log is worth beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

use super::{LINE, LineState, LogState, StoreHead, decide};
use crate::disk::file;
use crate::disk::log_reader::{self, LogEnd, LogScan, LogTail};
use crate::engine::conn::Conn;
use crate::engine::dialect;

const HEAD: StoreHead = StoreHead {
    end: LogEnd { salts: [0xffff_ffff, 7], frames: 12, sum: [0xdead_beef, 0x0000_0001] },
    done: false,
    seq: 1_234_567,
    ord: 89,
};

#[test]
fn store_a_head_is_one_line_of_fixed_length() {
    let text = "ffffffff 00000007 0000000012 deadbeef00000001 0 0000000000001234567 \
                0000000000000000089 ";
    let line = HEAD.line();
    let written = std::str::from_utf8(&line).unwrap();
    assert!(written.starts_with(text) && written.ends_with('\n'), "{written}");
    for head in
        [HEAD, StoreHead::default(), StoreHead { done: true, seq: i64::MAX, ord: i64::MAX, ..HEAD }]
    {
        let line = head.line();
        assert_eq!(line.len(), LINE);
        assert_eq!(StoreHead::parse(std::str::from_utf8(&line).unwrap()), Some(head));
    }
}

/// Torn at any place, cut, or with any digit changed, it is not taken for a head.
#[test]
fn store_a_damaged_head_is_unreadable() {
    let other =
        StoreHead { end: LogEnd { frames: 13, ..HEAD.end }, seq: 1_234_590, ord: 90, ..HEAD };
    let (line, next) = (HEAD.line(), other.line());
    let parse = |line: &[u8]| std::str::from_utf8(line).ok().and_then(StoreHead::parse);
    for at in 0..LINE {
        let torn = [&next[..at], &line[at..]].concat();
        assert!(torn == line || torn == next || parse(&torn).is_none(), "torn at {at}");
        assert_eq!(parse(&line[..at]), None, "cut at {at}");
        let mut changed = line;
        changed[at] = if changed[at] == b'3' { b'4' } else { b'3' };
        assert_eq!(parse(&changed), None, "changed at {at}");
    }
}

/// A log as the reader found it.
fn log(salts: [u32; 2], frames: u32, sum: Option<[u32; 2]>) -> LogScan {
    let end = LogEnd { salts, frames, sum: [0, 0] };
    LogScan { bytes: 1, salts: Some(salts), end, sum, broken: false }
}

#[test]
fn store_what_a_log_is_worth() {
    let (salts, sum) = (HEAD.end.salts, Some(HEAD.end.sum));
    let no_header = LogScan { salts: None, ..log(salts, 0, None) };
    let broken = |log: LogScan| LogScan { broken: true, ..log };
    let (open, done) = (LineState::At(HEAD), LineState::At(StoreHead { done: true, ..HEAD }));
    let lost = LogState::Lost(String::new());
    let cases = [
        ("as written", open, log(salts, 12, sum), LogState::Whole),
        ("more was written", open, log(salts, 14, sum), LogState::Whole),
        ("shorter", open, log(salts, 11, None), lost.clone()),
        ("another frame there", open, log(salts, 12, Some([1, 1])), lost.clone()),
        ("started over", open, log([0, 9], 1, None), LogState::Whole),
        ("started over, still empty", open, log([0, 9], 0, None), LogState::Whole),
        ("started over twice", open, log([1, 9], 1, None), lost.clone()),
        ("another log", open, log([0xffff_ffff, 8], 12, sum), lost.clone()),
        ("no header", open, no_header, lost.clone()),
        ("no log", open, LogScan::default(), lost.clone()),
        ("done, as written", done, log(salts, 12, sum), LogState::Whole),
        ("done, shorter", done, log(salts, 11, None), lost.clone()),
        ("done, empty", done, log(salts, 0, None), LogState::Whole),
        ("done, no log", done, LogScan::default(), LogState::Whole),
        ("done, another log", done, log([3, 3], 2, None), LogState::Whole),
        ("no head", LineState::Missing, log(salts, 3, None), LogState::Unknown),
        ("no head, broken", LineState::Missing, broken(log(salts, 3, None)), lost.clone()),
        ("bad head, broken", LineState::Unreadable, broken(log(salts, 3, None)), lost.clone()),
        ("bad head", LineState::Unreadable, log(salts, 3, None), LogState::Unknown),
    ];
    for (name, kept, log, expected) in cases {
        let found = match decide(&kept, &log) {
            LogState::Lost(why) => {
                assert!(!why.is_empty(), "{name}");
                lost.clone()
            }
            found => found,
        };
        assert_eq!(found, expected, "{name}");
    }
}

struct Bench {
    folder: TempDir,
}

impl Bench {
    async fn new() -> (Self, Conn) {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let Conn::Sqlite(new) = dialect::connect_new(&bench.database()).await.unwrap();
        new.execute_batch("CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT)").unwrap();
        new.execute_batch(dialect::KEEP_LOG).unwrap();
        drop(new);
        let conn = dialect::connect_writer(&bench.database()).await.unwrap();
        (bench, conn)
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("skep.db")
    }

    /// The newest commit, where there was one since this was asked.
    fn written(&self) -> Option<LogEnd> {
        let mut log = LogTail::new(file::log_of(&self.database()));
        dialect::take_frames().map(|frames| log.end(frames).unwrap())
    }

    fn read(&self, asked: Option<u32>) -> LogScan {
        log_reader::read(&file::log_of(&self.database()), asked).unwrap()
    }
}

fn sqlite(conn: &Conn) -> &Connection {
    let Conn::Sqlite(connection) = conn;
    connection
}

fn put(conn: &Conn, pages: usize) {
    let insert = "INSERT INTO notes (text) VALUES (?1)";
    for _ in 0..pages {
        sqlite(conn).execute(insert, ["x".repeat(3000)]).unwrap();
    }
}

/// What the writer knows of its commit and the reader of the whole file agree about its end: after
/// small and large commits, frames written twice, what was rolled back, and when it starts over.
#[tokio::test]
async fn store_the_reader_finds_the_end_the_writer_knows() {
    let (bench, conn) = Bench::new().await;
    assert_eq!(bench.written(), None);
    let last = Cell::new(None);
    let agree = |what: &str| {
        last.set(bench.written().or(last.get()));
        let written = last.get().unwrap();
        let log = bench.read(Some(written.frames));
        assert_eq!((log.end, log.sum), (written, Some(written.sum)), "{what}");
        assert!(!bench.read(None).broken, "{what}");
        written
    };
    let run = |sql: &str| sqlite(&conn).execute_batch(sql).unwrap();
    put(&conn, 1);
    let first = agree("one page");
    run("PRAGMA cache_size = 10");
    run(dialect::BEGIN);
    put(&conn, 60);
    run("UPDATE notes SET text = text || 'y'");
    run(dialect::COMMIT);
    let second = agree("pages that left the cache and were changed again");
    assert!(second.frames > first.frames + 60);
    run(dialect::BEGIN);
    put(&conn, 60);
    run(dialect::ROLLBACK);
    assert_eq!(agree("rolled back"), second);
    run("BEGIN IMMEDIATE; COMMIT");
    assert_eq!(agree("nothing written"), second);
    put(&conn, 1);
    let third = agree("over what was rolled back");
    assert_eq!(third.salts, first.salts);
    for _ in 0..2 {
        let before = last.get().unwrap();
        run(dialect::CHECKPOINT);
        put(&conn, 1);
        let after = agree("started over");
        assert_eq!(after.salts[0], before.salts[0].wrapping_add(1));
        assert!(after.frames < 10);
    }
}

/// Commits behind damage are seen; what a rolled back transaction leaves there is not taken for
/// them.
#[tokio::test]
async fn store_commits_behind_damage_are_seen() {
    let (bench, conn) = Bench::new().await;
    for _ in 0..5 {
        put(&conn, 1);
    }
    let path = file::log_of(&bench.database());
    let whole = fs::read(&path).unwrap();
    let frames = bench.written().unwrap().frames;
    let frame = |number: u32| 32 + (usize::try_from(number).unwrap() - 1) * (24 + 4096);
    let broken = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        bench.read(None).broken
    };
    assert!(broken(20), "the header");
    assert!(broken(frame(1) + 8), "the first frame");
    assert!(broken(frame(1) + 24 + 1000), "its page");
    assert!(!broken(frame(frames) + 24), "the last commit is damaged itself");
    assert!(!broken(frame(frames - 1) + 20), "so is the one behind it");
    fs::write(&path, &whole).unwrap();
    let run = |sql: &str| sqlite(&conn).execute_batch(sql).unwrap();
    run("PRAGMA cache_size = 10");
    run(dialect::BEGIN);
    put(&conn, 60);
    run(dialect::ROLLBACK);
    put(&conn, 1);
    assert!(!bench.read(None).broken, "a rolled back transaction");
}
