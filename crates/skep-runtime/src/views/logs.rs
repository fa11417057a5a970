//! The log as it lies in `run/logs`: one JSON object a line, the newest file `skep.log`, older ones
//! behind it as `skep.log.1`, `skep.log.2` and so on.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use skep_core::Millis;

use crate::door::{DoorError, ErrorKind};
use crate::hive::Hive;

/// How many files are kept behind the newest.
pub const OLDER: usize = 7;
/// The most lines one question is answered with.
pub const MOST_LINES: usize = 1000;

/// Looks into the files at the same time.
static READING: Semaphore = Semaphore::const_new(2);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// UTC, with milliseconds: `2026-02-03T04:05:06.789Z`. As text it sorts as it happened.
    pub time: String,
    pub level: String,
    /// Which part of the program says it.
    pub target: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    pub message: String,
    /// What else belongs to it.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub more: Map<String, Value>,
}

/// Levels from the gravest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.to_ascii_lowercase().as_str() {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(format!("`{word}` is not a level; use error, warn, info, debug or trace")),
        }
    }
}

/// Which lines are asked for.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// This level and above.
    pub level: Option<LogLevel>,
    pub agent: Option<String>,
    pub turn: Option<String>,
    pub since: Option<Millis>,
    /// 1..=1000
    pub limit: usize,
    /// Lines after this place, the oldest first; without it the newest lines there are.
    pub after: Option<LogPlace>,
}

/// A place in the log that stays the same when files are moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    file: u64,
    offset: u64,
}

impl std::fmt::Display for LogPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.file, self.offset)
    }
}

impl FromStr for LogPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a place in the log; use the one an answer gave");
        let (file, offset) = text.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Ok(Self { file: number(file)?, offset: number(offset)? })
    }
}

/// Lines in the order in which they were written, and where the next ones will be.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    pub next: Option<LogPlace>,
}

impl Hive {
    /// What the log says.
    pub async fn logs(&self, query: LogQuery) -> Result<LogPage, DoorError> {
        // Many who ask wait for each other and not for their share of the processor.
        let _one = READING.acquire().await;
        let folder = self.shared.facts.run.join("logs");
        let read = tokio::task::spawn_blocking(move || read(&folder, &query));
        let failed = |why: String| {
            tracing::error!(why, "the log cannot be read");
            let text = "The log cannot be read; look into run/logs of the home.";
            DoorError::new(ErrorKind::Internal, "log_unreadable", text)
        };
        match read.await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// The newest file of a folder of logs.
pub fn newest(folder: &Path) -> PathBuf {
    folder.join("skep.log")
}

/// An older one: 1 is the one before the newest.
pub fn older(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("skep.log.{number}"))
}

/// Reads from the files of a folder. A file that is not there is empty.
pub fn read(folder: &Path, query: &LogQuery) -> io::Result<LogPage> {
    let mut files = Vec::new();
    let older = (1..=OLDER).rev().map(|number| older(folder, number));
    for path in older.chain([newest(folder)]) {
        match File::open(&path) {
            Ok(file) => files.push(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let wanted = Wanted::new(query);
    match query.after {
        Some(place) => following(files, place, &wanted),
        None => last(files, &wanted),
    }
}

/// The newest lines that fit.
fn last(files: Vec<File>, wanted: &Wanted<'_>) -> io::Result<LogPage> {
    let mut page = LogPage::default();
    let mut rest = wanted.limit;
    for file in files.into_iter().rev() {
        let id = file.metadata()?.ino();
        let mut found = std::collections::VecDeque::new();
        let end = each_line(file, 0, |line, _| {
            if let Some(line) = wanted.admit(line) {
                found.push_back(line);
                if found.len() > rest {
                    found.pop_front();
                }
            }
            true
        })?;
        page.next.get_or_insert(LogPlace { file: id, offset: end });
        rest -= found.len();
        page.lines.splice(0..0, found);
        if rest == 0 {
            break;
        }
    }
    Ok(page)
}

/// The lines from a place on. A file that is gone was the oldest: then everything is new.
fn following(files: Vec<File>, place: LogPlace, wanted: &Wanted<'_>) -> io::Result<LogPage> {
    let mut ids = Vec::new();
    let mut first = None;
    for (at, file) in files.iter().enumerate() {
        let found = file.metadata()?;
        // A new file may have the number of a removed one: then it is shorter than the place.
        if found.ino() == place.file && found.len() >= place.offset {
            first = Some(at);
        }
        ids.push(found.ino());
    }
    let mut page = LogPage { lines: Vec::new(), next: Some(place) };
    for (at, (file, id)) in files.into_iter().zip(ids).enumerate().skip(first.unwrap_or(0)) {
        let start = if first == Some(at) { place.offset } else { 0 };
        let mut room = true;
        let end = each_line(file, start, |line, _| {
            page.lines.extend(wanted.admit(line));
            room = page.lines.len() < wanted.limit;
            room
        })?;
        page.next = Some(LogPlace { file: id, offset: end });
        if !room {
            break;
        }
    }
    Ok(page)
}

/// Goes through the whole lines of a file; tells where it stopped. A line without its end is still
/// being written.
fn each_line(
    mut file: File,
    start: u64,
    mut visit: impl FnMut(&str, u64) -> bool,
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut at, mut line) = (start, Vec::new());
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(at);
        }
        at += bytes as u64;
        if !visit(&String::from_utf8_lossy(&line), at) {
            return Ok(at);
        }
    }
}

/// A question, ready to be asked of every line.
struct Wanted<'q> {
    query: &'q LogQuery,
    since: Option<String>,
    limit: usize,
}

impl<'q> Wanted<'q> {
    fn new(query: &'q LogQuery) -> Self {
        let since = query.since.map(time_text);
        Self { query, since, limit: query.limit.clamp(1, MOST_LINES) }
    }

    /// Nothing for a line that does not fit, or that is none: a full disk may have cut it.
    fn admit(&self, line: &str) -> Option<LogLine> {
        let named = |name: &Option<String>| name.as_ref().is_none_or(|name| line.contains(name));
        if !named(&self.query.agent) || !named(&self.query.turn) {
            return None;
        }
        let line: LogLine = serde_json::from_str(line).ok()?;
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let begins = |wanted: &Option<String>, found: &Option<String>| {
            let found = found.as_deref().unwrap_or_default();
            wanted.as_ref().is_none_or(|wanted| found.starts_with(wanted.as_str()))
        };
        let grave = |level| line.level.parse().is_ok_and(|found: LogLevel| found <= level);
        let fits = self.query.level.is_none_or(grave)
            && same(&self.query.agent, &line.agent)
            && begins(&self.query.turn, &line.turn)
            && self.since.as_ref().is_none_or(|since| line.time >= *since);
        fits.then_some(line)
    }
}

/// A time as the log writes it.
pub fn time_text(at: Millis) -> String {
    skep_core::time::utc(at)
}

/// Removes the oldest file and gives every other the next number, so that there is no newest.
pub fn move_on(folder: &Path) -> io::Result<()> {
    let ignore_absent = |done: io::Result<()>| match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    ignore_absent(fs::remove_file(older(folder, OLDER)))?;
    for number in (1..OLDER).rev() {
        ignore_absent(fs::rename(older(folder, number), older(folder, number + 1)))?;
    }
    ignore_absent(fs::rename(newest(folder), older(folder, 1)))
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
