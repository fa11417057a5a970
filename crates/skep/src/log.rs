//! The log: JSON lines in `run/logs/skep.log` for programs and later, lines on standard error for
//! people and now. Secrets are taken out of both, whatever the level.

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::path::Path;

use skep_cli::print::output;
use skep_guard::{environment, scrub};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod file;
mod line;

use file::LogFile;
use line::Lines;

/// Whether standard error has the log too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum People {
    See,
    /// In the background nobody reads it, and it would grow without bound.
    DoNot,
}

/// Holds the log open. Dropped, it waits a moment for the last lines to be written.
pub struct Log {
    file: LogFile,
}

/// Starts the log in this folder; `SKEP_LOG` chooses what is in it.
pub fn start(folder: &Path, people: People) -> Log {
    let wanted = environment::var("SKEP_LOG").unwrap_or_else(|| "info".to_owned());
    let (filter, refused) = match EnvFilter::try_new(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let colour = io::stderr().is_terminal() && output::colour_wanted();
    let people = (people == People::See)
        .then(|| tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(Stderr));
    let file = LogFile::open(folder);
    let lines = Lines::new(file.lines());
    let log = tracing_subscriber::registry().with(filter).with(lines).with(people);
    // A log that is already there (a test's) stays.
    let _ = log.try_init();
    panic::set_hook(Box::new(log_panic));
    if let Some(error) = refused {
        tracing::warn!(%error, "SKEP_LOG cannot be used; the log has info and graver");
    }
    Log { file }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.file.close();
    }
}

/// A panic's words may hold what it was about: they go the way of every other line.
fn log_panic(info: &panic::PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let trace = std::backtrace::Backtrace::capture();
    let trace = match trace.status() {
        std::backtrace::BacktraceStatus::Captured => Some(trace.to_string()),
        _ => None,
    };
    tracing::error!(place, thread = thread.name(), trace, "panic: {text}");
}

/// Standard error without secrets.
struct Stderr;

impl<'w> MakeWriter<'w> for Stderr {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        Self
    }
}

impl Write for Stderr {
    /// Gets every line in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(scrub::known().clean(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
