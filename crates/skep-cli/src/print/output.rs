//! What is printed. Colour only on a terminal; nothing an agent says can drive a terminal, also
//! one that is reached through a pipe or a file.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use skep_guard::environment;

use crate::failure::Failure;
use crate::print::text::{is_hostile, named};

static LOST: OnceLock<String> = OnceLock::new();
static READER_LEFT: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output. A closed pipe is not an error.
pub fn line(text: impl AsRef<str>) {
    // One write with the line end: a line buffer would delay the last line.
    piece(&format!("{}\n", text.as_ref()));
}

/// Prints a part of a line and flushes.
pub fn piece(text: &str) {
    write(&guarded(text, std::io::stdout().is_terminal()));
}

fn write(text: &str) {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            READER_LEFT.store(true, Ordering::Relaxed);
        }
        Err(error) => {
            // The first error is the cause of the later ones.
            let _ = LOST.set(error.to_string());
        }
    }
}

/// Asks the person at the terminal; `None` if the input ended.
pub fn ask(prompt: &str) -> Option<String> {
    piece(prompt);
    let mut line = String::new();
    let read = tokio::task::block_in_place(|| std::io::stdin().lock().read_line(&mut line));
    read.ok().filter(|bytes| *bytes > 0).map(|_| line.trim().to_owned())
}

/// Whether nobody reads standard output any more: what has no other end than that is over.
pub fn reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

/// Why some of the result was not written, for instance to a file on a full disk.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Asks for a line; `None` if it was empty or the input ended.
pub fn typed(prompt: &str) -> Option<String> {
    ask(prompt).filter(|line| !line.is_empty())
}

/// Prints a line for people to standard error.
pub fn note(text: impl AsRef<str>) {
    let text = guarded(text.as_ref(), std::io::stderr().is_terminal());
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// One JSON document on one line.
pub fn json(value: &Value) {
    write(&format!("{}\n", escaped(value.to_string())));
}

/// JSON of the same meaning that has no hostile characters: JSON itself escapes only a few.
pub fn escaped(json: String) -> String {
    if !json.contains(is_hostile) {
        return json;
    }
    json.chars().fold(String::with_capacity(json.len()), |mut out, letter| {
        match is_hostile(letter) && letter != '\n' {
            true => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail, here and below.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            false => out.push(letter),
        }
        out
    })
}

/// The text as it is printed: on a terminal our own colour codes pass, every other control
/// character is replaced.
fn guarded(text: &str, terminal: bool) -> Cow<'_, str> {
    if !terminal || !text.contains('\x1b') {
        return shown(text);
    }
    let mut pieces = text.split('\x1b');
    let mut out = shown(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let colour = piece.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        match colour.filter(|(code, _)| code.bytes().all(|byte| byte.is_ascii_digit())) {
            Some((code, after)) => drop(write!(out, "\x1b[{code}m{}", shown(after))),
            None => drop(write!(out, "{}{}", named('\x1b'), shown(piece))),
        }
    }
    out.into()
}

/// Replaces hostile characters by their number. Line ends and tabs stay; CR LF becomes LF.
fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| is_hostile(letter) && letter != '\n' && letter != '\t') {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n");
    let shown = text.chars().map(|letter| match letter {
        letter if is_hostile(letter) && letter != '\n' && letter != '\t' => named(letter),
        letter => letter.to_string(),
    });
    Cow::Owned(shown.collect())
}

pub fn failure(failure: &Failure, as_json: bool) -> ExitCode {
    if as_json {
        let error = json!({ "error": {
            "attempted": failure.attempted, "why": failure.why, "next": failure.next,
            "code": failure.code, "exit": failure.exit.code(),
        }});
        note(escaped(error.to_string()));
    } else {
        let coloured = std::io::stderr().is_terminal() && colour_wanted();
        let name = if coloured { "\x1b[31mskep:\x1b[0m" } else { "skep:" };
        note(format!("{name} {failure}"));
    }
    ExitCode::from(failure.exit.code())
}

/// How a word is highlighted on a terminal with colours.
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

/// Untrusted text, with control characters replaced by their number.
pub fn foreign(text: &str) -> String {
    shown(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_elsewhere_drives_a_terminal() {
        let cases = [
            ("plain\n\ttext é 🐝\r\n", "plain\n\ttext é 🐝\n"),
            ("a\x1b[2Jb\x07", "a‹U+001B›[2Jb‹U+0007›"),
            ("a\rb\u{9b}31m\u{7f}", "a‹U+000D›b‹U+009B›31m‹U+007F›"),
            ("a\u{202e}b\u{2066}c\u{200b}", "a‹U+202E›b‹U+2066›c‹U+200B›"),
        ];
        for (text, expected) in cases {
            assert_eq!(foreign(text), expected);
            assert_eq!(guarded(text, false), expected);
        }
        assert_eq!(guarded("\x1b[31mred\x1b[0m\x1b]0;t\x07", false).matches('\x1b').count(), 0);
        let own = guarded("\x1b[31mred\x1b[0m \x1b]0;t\x07\x1b[2J", true);
        assert_eq!(own, "\x1b[31mred\x1b[0m ‹U+001B›]0;t‹U+0007›‹U+001B›[2J");
    }

    #[test]
    fn json_means_the_same_and_is_harmless() {
        let value = json!({"a\u{9b}": "\x1b[2J\u{7f}\u{202e}é\u{e0041}\n"});
        let text = escaped(value.to_string());
        assert!(!text.contains(is_hostile), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }
}
