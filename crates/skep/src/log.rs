//! The log: JSON lines in `run/logs/skep.log`, and lines for people on standard error. Secrets are
//! redacted in both.

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::path::Path;

use skep_cli::print::output;
use skep_guard::environment;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod file;
mod line;

use file::LogFile;
use line::JsonLogLayer;

/// Whether the log also goes to standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConsoleLog {
    On,
    /// In the background standard error is a file that would grow without bound.
    Off,
}

/// Keeps the log open. Dropping it flushes the last lines, with a time limit.
pub struct LogGuard {
    file: LogFile,
}

/// Starts the log in this folder; `SKEP_LOG` chooses what is in it.
pub fn start(folder: &Path, console: ConsoleLog) -> LogGuard {
    let wanted = environment::var("SKEP_LOG").unwrap_or_else(|| "info".to_owned());
    let (filter, refused) = match EnvFilter::try_new(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let colour = io::stderr().is_terminal() && output::colour_wanted();
    let console = (console == ConsoleLog::On)
        .then(|| tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(RedactedStderr));
    let file = LogFile::open(folder);
    let lines = JsonLogLayer::new(file.lines());
    let log = tracing_subscriber::registry().with(filter).with(lines).with(console);
    // A log that is already there (a test's) stays.
    let _ = log.try_init();
    panic::set_hook(Box::new(log_panic));
    if let Some(error) = refused {
        tracing::warn!(%error, "SKEP_LOG cannot be used; the log has info and above");
    }
    LogGuard { file }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.file.close();
    }
}

/// A panic message may contain secrets: it is logged and redacted like every line.
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
struct RedactedStderr;

impl<'w> MakeWriter<'w> for RedactedStderr {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        Self
    }
}

impl Write for RedactedStderr {
    /// Gets every line in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(skep_scrub::known().clean(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
