//! Where the last answered commit ends, kept in `run/store.head`: a log that was damaged behind
//! the writer's back is refused at the next start instead of being taken as far as it goes.
//!
//! The writer writes the line after each commit and before any answer. It is synced only when
//! the log has started over, so after a power cut it may lag behind the log, but never leads it,
//! and never by more than one start of the log. SQLite starts a log over only when all of it is
//! in the database.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::disk::line_file::{self, LineFile, LineState};
use crate::disk::log_reader::{ByteOrder, LogEnd, LogScan};
use crate::engine::tx::Counters;

/// `salt1 salt2 frames sum done seq ord ` with their sum behind them. The first part is a
/// multiple of eight, as a sum wants it.
const SUMMED: usize = 88;
const LINE: usize = SUMMED + 17;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreHead {
    pub end: LogEnd,
    /// All of the log up to there is in the database.
    pub done: bool,
    /// The highest numbers given so far.
    pub seq: i64,
    pub ord: i64,
}

impl StoreHead {
    fn line(&self) -> [u8; LINE] {
        let LogEnd { salts: [salt1, salt2], frames, sum: [one, two] } = self.end;
        let (done, seq, ord) = (u8::from(self.done), self.seq, self.ord);
        let mut line = [b' '; LINE];
        let (mut summed, _) = line.split_at_mut(SUMMED);
        // Every number has its full width: it fits.
        let _ = write!(
            summed,
            "{salt1:08x} {salt2:08x} {frames:010} {one:08x}{two:08x} {done} {seq:019} {ord:019} "
        );
        let (summed, mut rest) = line.split_at_mut(SUMMED);
        let [one, two] = ByteOrder::Little.sum([0, 0], summed);
        let _ = writeln!(rest, "{one:08x}{two:08x}");
        line
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [salt1, salt2, frames, sum, done, seq, ord, _] = words.as_slice() else { return None };
        let hex = |word: &str| u32::from_str_radix(word, 16).ok();
        let sum = [hex(sum.get(..8)?)?, hex(sum.get(8..)?)?];
        let salts = [hex(salt1)?, hex(salt2)?];
        let end = LogEnd { salts, frames: frames.parse().ok()?, sum };
        let (seq, ord) = (seq.parse().ok()?, ord.parse().ok()?);
        let head = Self { end, done: *done == "1", seq, ord };
        // Formatting it again gives the same line, its checksum included.
        (head.line() == text.as_bytes()).then_some(head)
    }
}

pub(crate) fn read(path: &Path) -> LineState<StoreHead> {
    line_file::read(path, StoreHead::parse)
}

/// What a log is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// All that was answered is in the database or in the log.
    Whole,
    /// It cannot be told, and nothing speaks against it.
    Unknown,
    /// Answered commits are missing. Why.
    Lost(String),
}

pub(crate) fn decide(kept: &LineState<StoreHead>, log: &LogScan) -> LogState {
    let head = match kept {
        LineState::At(head) => head,
        LineState::Missing | LineState::Unreadable if log.broken => {
            let text = "there is damage in it, with commits behind that";
            return LogState::Lost(text.to_owned());
        }
        LineState::Missing | LineState::Unreadable => return LogState::Unknown,
    };
    let LogEnd { salts, frames, sum } = head.end;
    let same = log.salts == Some(salts);
    let reached = same && log.end.frames >= frames && log.sum == Some(sum);
    let started_over = log.salts.is_some_and(|found| found[0] == salts[0].wrapping_add(1));
    match () {
        () if reached || started_over => LogState::Whole,
        // A log that SQLite finds empty or that is another one takes nothing from the database.
        // The beginning of this one would put old pages over the newer ones there.
        () if head.done && !(same && log.end.frames > 0) => LogState::Whole,
        () => LogState::Lost(why(log, same, frames)),
    }
}

fn why(log: &LogScan, same: bool, frames: u32) -> String {
    let found = log.end.frames;
    match () {
        () if log.bytes == 0 => "it is gone or empty".to_owned(),
        () if log.salts.is_none() => "its first 32 bytes are damaged".to_owned(),
        () if !same => "it is not the log that was written last".to_owned(),
        () if found < frames => {
            format!("{frames} pages of commits were written to it, and only {found} are whole")
        }
        () => format!("its page {frames} is not the one that was written"),
    }
}

/// The writer's side.
pub(crate) struct Keeper {
    path: PathBuf,
    /// Absent after a failure; each commit tries again.
    file: Option<LineFile>,
    end: LogEnd,
    done: bool,
}

impl Keeper {
    /// For a database in which all of the log is: from here on the log may be emptied.
    pub fn open(path: &Path, end: LogEnd, counters: Counters) -> io::Result<Self> {
        let mut keeper = Self { path: path.to_owned(), file: None, end, done: false };
        keeper.done(counters)?;
        Ok(keeper)
    }

    /// After a commit that ends there, before anybody is told. Where that cannot be read or the
    /// line cannot be written, it is taken away: one that stays behind would speak against a good
    /// log later.
    pub fn commit(&mut self, end: io::Result<LogEnd>, counters: Counters) {
        if let Err(error) = end.and_then(|end| self.follow(end, counters)) {
            tracing::error!(%error, file = %self.path.display(), "the store's head is not kept");
            self.file = None;
            self.end = LogEnd::default();
            self.done = false;
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn follow(&mut self, end: LogEnd, counters: Counters) -> io::Result<()> {
        if end == self.end {
            return Ok(());
        }
        let synced = end.salts != self.end.salts;
        self.end = end;
        self.done = false;
        self.write(false, counters, synced)
    }

    /// All of the log is in the database and synced.
    pub fn done(&mut self, counters: Counters) -> io::Result<()> {
        self.write(true, counters, true)?;
        self.done = true;
        Ok(())
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    fn write(&mut self, done: bool, counters: Counters, synced: bool) -> io::Result<()> {
        let line = StoreHead { end: self.end, done, seq: counters.seq, ord: counters.ord }.line();
        match &self.file {
            Some(file) if synced => file.write_synced(&line),
            Some(file) => file.write(&line),
            None => {
                let file = LineFile::open(&self.path)?;
                file.write_first(&line, &self.path)?;
                self.file = Some(file);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
