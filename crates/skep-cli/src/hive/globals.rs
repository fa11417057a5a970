//! The options of every command: which hive, and the output format.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::hive::Home;
use crate::print::output;

/// Before a command for another machine than this one.
pub const ELSEWHERE: &str = "on the hive's machine: ";

/// Which hive to use, and the output format.
#[derive(Args, Clone)]
pub struct Globals {
    /// Home folder of the hive (default: $SKEP_HOME, else ~/.skep)
    #[arg(long, global = true, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Address of a hive elsewhere; needs a token in SKEP_TOKEN
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    pub json: bool,
}

impl Globals {
    /// The hive in this home, for people.
    pub fn at(home: PathBuf) -> Self {
        Self { home: Some(home), url: None, json: false }
    }

    pub fn home(&self) -> Result<Home, Failure> {
        Home::locate(self.home.as_deref()).map_err(|error| {
            Failure::new(Exit::Usage, "find the home folder", error.to_string())
                .next("skep --home FOLDER …")
        })
    }

    /// The commands in a text, with the hive that this command line names: copied as they are
    /// printed, they reach the same one. A command is `skep` and a word in lower case.
    pub fn commands(&self, text: &str) -> String {
        let hive = match (&self.url, &self.home) {
            (Some(url), _) => format!(" --url {}", quoted(url)),
            (None, Some(home)) => format!(" --home {}", quoted(&home.display().to_string())),
            (None, None) => return text.to_owned(),
        };
        let mut pieces = text.split("skep ");
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let begins =
                !out.ends_with(|last: char| last.is_alphanumeric() || "/.-".contains(last));
            let is_command = begins && piece.starts_with(|first: char| first.is_ascii_lowercase());
            let hive = if is_command { hive.as_str() } else { "" };
            out.push_str(&format!("skep{hive} {piece}"));
        }
        out
    }

    /// A failure that names its commands as [`Globals::commands`] does. What a hive says may hold
    /// anybody's words: there only text in backticks is a command.
    pub fn with_hive(&self, mut failure: Failure) -> Failure {
        if failure.next.as_ref().is_some_and(|next| next.starts_with(ELSEWHERE)) {
            return failure;
        }
        failure.next = failure.next.map(|next| self.commands(&next));
        let named = failure.why.split('`').enumerate().map(|(at, piece)| match at % 2 {
            1 => self.commands(piece),
            _ => piece.to_owned(),
        });
        failure.why = named.collect::<Vec<_>>().join("`");
        failure
    }

    /// Prints a result: JSON for programs, lines for people.
    pub fn print(&self, result: &Value, lines: impl IntoIterator<Item = String>) {
        match self.json {
            true => output::json(result),
            false => lines.into_iter().for_each(output::line),
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+=,".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_hive_that_was_given() {
        let globals = |home: Option<&str>, url: Option<&str>| Globals {
            home: home.map(PathBuf::from),
            url: url.map(str::to_owned),
            json: false,
        };
        let cases = [
            (globals(None, None), "skep up", "skep up"),
            (globals(Some("/h"), None), "skep up", "skep --home /h up"),
            (globals(Some("/a b"), None), "it's: skep up.", "it's: skep --home '/a b' up."),
            (
                globals(Some("/h"), None),
                "skep down, then skep up",
                "skep --home /h down, then skep --home /h up",
            ),
            (globals(None, Some("http://h:1")), "skep status", "skep --url http://h:1 status"),
            (
                globals(Some("/h"), None),
                "a skep is /bin/skep up",
                "a skep --home /h is /bin/skep up",
            ),
            (globals(Some("/h"), None), "skep --home X …", "skep --home X …"),
        ];
        for (globals, text, expected) in cases {
            assert_eq!(globals.commands(text), expected);
        }
        let failure = Failure::new(Exit::Failed, "x", "skep up said `skep up` failed");
        let told = globals(Some("/h"), None).with_hive(failure.clone());
        assert_eq!(told.why, "skep up said `skep --home /h up` failed");
        let elsewhere = failure.next("on the hive's machine: skep up");
        assert_eq!(globals(Some("/h"), None).with_hive(elsewhere.clone()), elsewhere);
    }
}
