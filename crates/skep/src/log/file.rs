//! The files of the log. A separate thread writes them, so that a slow or full disk delays nothing;
//! lines that do not fit into the queue are dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde_json::json;
use skep_core::Millis;
use skep_guard::clock;
use skep_runtime::logs::{self, LogLine, time_text};

/// Capacity of the queue of lines.
const WAITING: usize = 8192;
/// A file is moved on when it has this many bytes, or is this old. With the ones behind it the log
/// stays below 64 MiB and reaches back a week, unless it is very talkative.
const FILE_BYTES: u64 = 8 << 20;
const FILE_AGE: Duration = Duration::from_secs(24 * 3600);
/// The end of the program waits no longer than this for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(super) struct LogFile {
    sender: LogSender,
}

/// Where lines are handed in. Never waits.
#[derive(Clone)]
pub(super) struct LogSender {
    orders: SyncSender<LogCommand>,
    dropped: Arc<AtomicU64>,
}

enum LogCommand {
    Line(String),
    /// Everything before this is written.
    Tell(SyncSender<()>),
}

impl LogFile {
    /// A folder that cannot be written does not prevent the start.
    pub fn open(folder: &Path) -> Self {
        let (orders, received) = mpsc::sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = LogWriter {
            folder: folder.to_owned(),
            limits: RotationLimits { bytes: FILE_BYTES, age: FILE_AGE },
            open: None,
            dropped: Arc::clone(&dropped),
        };
        let name = thread::Builder::new().name("skep-log".to_owned());
        // Owned by the channel: it ends when the last sender is gone, or with the process.
        if name.spawn(move || writer.run(received)).is_err() {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
        Self { sender: LogSender { orders, dropped } }
    }

    pub fn lines(&self) -> LogSender {
        self.sender.clone()
    }

    pub fn close(&self) {
        let (tell, told) = mpsc::sync_channel(1);
        if self.sender.orders.try_send(LogCommand::Tell(tell)).is_ok() {
            let _ = told.recv_timeout(LAST_LINES);
        }
    }
}

impl LogSender {
    pub fn send(&self, line: String) {
        if self.orders.try_send(LogCommand::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A sender without a file, and what came of it.
#[cfg(test)]
pub(super) fn sender_for_test() -> (LogSender, impl Fn() -> Vec<String>) {
    let (orders, received) = mpsc::sync_channel(WAITING);
    let lines = move || {
        let line = |order| match order {
            LogCommand::Line(line) => Some(line),
            LogCommand::Tell(_) => None,
        };
        received.try_iter().filter_map(line).collect()
    };
    (LogSender { orders, dropped: Arc::default() }, lines)
}

struct RotationLimits {
    bytes: u64,
    age: Duration,
}

struct LogWriter {
    folder: PathBuf,
    limits: RotationLimits,
    open: Option<OpenLog>,
    dropped: Arc<AtomicU64>,
}

struct OpenLog {
    file: File,
    bytes: u64,
    begun: Millis,
    /// The last write was incomplete: the next one starts with a line end.
    torn: bool,
}

impl LogWriter {
    fn run(mut self, orders: Receiver<LogCommand>) {
        for order in orders {
            match order {
                LogCommand::Line(line) => self.take(&line),
                LogCommand::Tell(tell) => {
                    let _ = tell.try_send(());
                }
            }
        }
    }

    fn take(&mut self, line: &str) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let lost = match dropped {
            0 => Ok(()),
            count => self.write(&lost_line(count)),
        };
        // The note about dropped lines is retried.
        let missing = match lost.and_then(|()| self.write(line)) {
            Ok(()) => 0,
            Err(_) => dropped + 1,
        };
        self.dropped.fetch_add(missing, Ordering::Relaxed);
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let now = clock::now_ms();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenLog::at(&logs::newest(&self.folder), now)?,
        };
        let age = u128::try_from(now - open.begun).unwrap_or(0);
        if open.bytes > 0 && (open.bytes >= self.limits.bytes || age > self.limits.age.as_millis())
        {
            logs::move_on(&self.folder)?;
            open = OpenLog::at(&logs::newest(&self.folder), now)?;
        }
        let written = open.write(line);
        self.open = Some(open);
        written
    }
}

impl OpenLog {
    fn at(path: &Path, now: Millis) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        let mut first = String::new();
        BufReader::new(&file).read_line(&mut first)?;
        let begun = serde_json::from_str::<LogLine>(&first).ok();
        let begun = begun.and_then(|line| skep_core::time::parse(&line.time));
        let mut end = [b'\n'];
        if let Some(at) = bytes.checked_sub(1) {
            file.read_at(&mut end, at)?;
        }
        Ok(Self { file, bytes, begun: begun.unwrap_or(now), torn: end != [b'\n'] })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let start = if self.torn { "\n" } else { "" };
        let text = format!("{start}{line}\n");
        self.torn = true;
        self.file.write_all(text.as_bytes())?;
        self.torn = false;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

fn lost_line(count: u64) -> String {
    let message = format!("{count} lines of the log were lost: the disk was full or too slow");
    let time = time_text(clock::now_ms());
    json!({"time": time, "level": "WARN", "target": "skep::log", "message": message}).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use skep_runtime::logs::LogQuery;

    fn writer(folder: &Path, bytes: u64) -> LogWriter {
        let limits = RotationLimits { bytes, age: Duration::from_secs(3600) };
        LogWriter { folder: folder.to_owned(), limits, open: None, dropped: Arc::default() }
    }

    fn line(time: Millis, message: &str) -> String {
        let time = time_text(time);
        json!({"time": time, "level": "INFO", "target": "t", "message": message}).to_string()
    }

    fn said(folder: &Path) -> Vec<String> {
        let page = logs::read(folder, &LogQuery { limit: 1000, ..LogQuery::default() }).unwrap();
        page.lines.into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn files_are_moved_on_by_size_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 200);
        for number in 0..100 {
            writer.take(&line(clock::now_ms(), &format!("m{number}")));
        }
        let said = said(folder.path());
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, logs::OLDER + 1);
        assert_eq!(said.last().map(String::as_str), Some("m99"));
        assert!(said.len() > 2 * logs::OLDER && said.len() < 50, "{said:?}");
    }

    #[test]
    fn files_are_moved_on_by_age_also_of_an_earlier_run() {
        let folder = tempfile::tempdir().unwrap();
        writer(folder.path(), 1 << 20).take(&line(0, "old"));
        writer(folder.path(), 1 << 20).take(&line(clock::now_ms(), "new"));
        assert!(std::fs::read_to_string(logs::older(folder.path(), 1)).unwrap().contains("old"));
        assert_eq!(said(folder.path()), ["old", "new"]);
    }

    #[test]
    fn lines_that_could_not_be_written_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("logs");
        let mut writer = writer(&place, 1 << 20);
        writer.take(&line(0, "lost 1"));
        writer.take(&line(0, "lost 2"));
        std::fs::create_dir(&place).unwrap();
        writer.take(&line(0, "kept"));
        let expected = "2 lines of the log were lost: the disk was full or too slow";
        assert_eq!(said(&place), [expected, "kept"]);
    }
}
