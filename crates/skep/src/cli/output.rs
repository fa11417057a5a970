//! What is printed. Colour only on a terminal; nothing an agent says can drive the terminal.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde_json::{Value, json};
use skep_guard::environment;

use super::failure::Failure;
use super::text::harmless;

static LOST: OnceLock<String> = OnceLock::new();

/// A line on standard output. A reader that went away is no failure of ours.
pub fn line(text: impl AsRef<str>) {
    // One write with its line end: the buffer would send all lines but the last, and that later.
    piece(&format!("{}\n", text.as_ref()));
}

/// A piece of a line, shown at once.
pub fn piece(text: &str) {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => {
            // The first is the reason for all the others.
            let _ = LOST.set(error.to_string());
        }
    }
}

/// Why some of the result was not written, for instance to a file on a full disk.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// A line for people beside the result.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", text.as_ref());
}

/// One JSON document on one line.
pub fn json(value: &Value) {
    line(value.to_string());
}

pub fn failure(failure: &Failure, as_json: bool) -> ExitCode {
    if as_json {
        note(
            json!({ "error": {
                "attempted": failure.attempted, "why": failure.why, "next": failure.next,
                "exit": failure.exit.code(),
            }})
            .to_string(),
        );
    } else {
        let coloured = std::io::stderr().is_terminal() && colour_wanted();
        let name = if coloured { "\x1b[31mskep:\x1b[0m" } else { "skep:" };
        note(format!("{name} {failure}"));
    }
    ExitCode::from(failure.exit.code())
}

/// How a word stands out, on a terminal that wants it.
#[derive(Clone, Copy)]
pub enum Tone {
    Good,
    Bad,
    Faint,
    Strong,
}

pub fn toned(text: &str, tone: Tone) -> String {
    if !(std::io::stdout().is_terminal() && colour_wanted()) {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Good => 32,
        Tone::Bad => 31,
        Tone::Faint => 2,
        Tone::Strong => 1,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

pub fn colour_wanted() -> bool {
    environment::var("NO_COLOR").is_none()
        && environment::var("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Text from elsewhere: on a terminal without the characters that would drive it.
pub fn foreign(text: &str) -> String {
    if std::io::stdout().is_terminal() { harmless(text) } else { text.to_owned() }
}
