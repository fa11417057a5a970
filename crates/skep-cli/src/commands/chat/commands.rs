//! Slash commands: those of every door, and the few that concern this screen only.

use skep_core::slash::{COMMANDS, CommandInfo};

use crate::commands::approve::own_patterns;

/// Handled here; the hive never sees them.
const LOCAL: &[CommandInfo] = &[
    CommandInfo {
        name: "/thinking",
        arguments: "",
        help: "show or fold what the model thinks (also Ctrl-O)",
    },
    CommandInfo {
        name: "/approve",
        arguments: "[session [PATTERN] | always PATTERN[; PATTERN]]",
        help: "approve the waiting tool call (also y, s, a)",
    },
    CommandInfo { name: "/deny", arguments: "[WHY]", help: "deny the waiting tool call (also n)" },
    CommandInfo {
        name: "/quit",
        arguments: "",
        help: "leave (also Ctrl-D); a turn that runs goes on",
    },
];

#[derive(Debug, PartialEq, Eq)]
pub enum LocalCommand {
    Thinking,
    Answer(ApprovalReply),
    Quit,
}

/// A reply to a pending approval.
#[derive(Debug, PartialEq, Eq)]
pub enum ApprovalReply {
    Once,
    Session { patterns: Vec<String> },
    Always { patterns: Vec<String> },
    Deny { note: Option<String> },
}

pub fn local(text: &str) -> Option<LocalCommand> {
    match text.trim() {
        "/thinking" => Some(LocalCommand::Thinking),
        "/quit" | "/exit" => Some(LocalCommand::Quit),
        text => answer(text).map(LocalCommand::Answer),
    }
}

fn answer(text: &str) -> Option<ApprovalReply> {
    let (command, rest) = split(text);
    match command {
        "/deny" => Some(ApprovalReply::Deny { note: rest }),
        "/approve" => {
            let rest = rest.unwrap_or_default();
            let (scope, rest) = split(&rest);
            let patterns = own_patterns(&rest.unwrap_or_default());
            match scope {
                "" | "once" => Some(ApprovalReply::Once),
                "session" => Some(ApprovalReply::Session { patterns }),
                "always" => Some(ApprovalReply::Always { patterns }),
                // Unknown scope: the hive answers with the list of commands.
                _ => None,
            }
        }
        _ => None,
    }
}

/// The first word, and the rest where there is one.
fn split(text: &str) -> (&str, Option<String>) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty()))
}

/// Commands that start with the line, with their help. Empty once the line has an argument.
pub fn completions(line: &str) -> Vec<(String, String)> {
    if !line.starts_with('/') || line.contains(char::is_whitespace) {
        return Vec::new();
    }
    let fitting = COMMANDS.iter().chain(LOCAL).filter(|command| command.name.starts_with(line));
    let shown = |command: &CommandInfo| match command.arguments {
        "" => command.help.to_owned(),
        arguments => format!("{arguments}  {}", command.help),
    };
    fitting.map(|command| (command.name.to_owned(), shown(command))).collect()
}

/// The common prefix of the words.
pub fn shared_start(words: &[(String, String)]) -> String {
    let Some((first, _)) = words.first() else { return String::new() };
    let shared = |end: &usize| words.iter().all(|(word, _)| word.get(..*end) == first.get(..*end));
    let end = (0..=first.len()).rev().find(shared).unwrap_or(0);
    first.get(..end).unwrap_or_default().to_owned()
}
