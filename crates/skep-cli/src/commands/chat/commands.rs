//! Slash commands: those of every door, and the few that concern this screen only.

use std::fs;
use std::path::{Component, Path};

use skep_core::slash::{self, COMMANDS, CommandInfo, command};

use super::connection::ChatCommand;
use super::paste::size;
use crate::commands::approve::own_patterns;

/// Handled here; the hive never sees them.
const LOCAL: &[CommandInfo] = &[
    command("/resume", "", "choose an earlier conversation"),
    command("/rename", "[name]", "rename this conversation"),
    command("/retry", "", "try the last message again"),
    command("/approve", "[session|always]", "approve the waiting tool call (y, s, a)"),
    command("/deny", "[note]", "deny the waiting tool call (n)"),
    command("/answer", "[text]", "answer what the agent asks the operator"),
    command("/thinking", "", "show or fold thinking (Ctrl-O)"),
    command("/quit", "", "leave (Ctrl-D); a running turn goes on"),
];

const KEYS: &str = "

Keys
  Enter send   Alt-Enter new line   Esc stop   Up earlier message   @ file
  Tab complete   Ctrl-R search   Ctrl-O thinking   Ctrl-L redraw   Ctrl-D leave";

/// What can be typed here, and the keys.
pub fn help() -> String {
    slash::help(LOCAL) + KEYS
}

#[derive(Debug, PartialEq)]
pub enum LocalCommand {
    Help,
    Resume,
    Thinking,
    /// Done by the connection.
    Send(ChatCommand),
    Decide(ApprovalReply),
    /// To what the agent asks.
    Answer(Option<String>),
    Quit,
}

/// A reply to a pending approval.
#[derive(Debug, PartialEq, Eq)]
pub enum ApprovalReply {
    Once,
    /// Calls like it, too: which ones is chosen from a list that begins with the patterns given.
    Lasting {
        scope: &'static str,
        patterns: Vec<String>,
    },
    Deny {
        note: Option<String>,
    },
}

pub fn local(text: &str) -> Option<LocalCommand> {
    match text.trim() {
        "/help" => Some(LocalCommand::Help),
        "/resume" => Some(LocalCommand::Resume),
        "/retry" => Some(LocalCommand::Send(ChatCommand::Retry)),
        "/thinking" => Some(LocalCommand::Thinking),
        "/quit" | "/exit" => Some(LocalCommand::Quit),
        text => match split(text) {
            ("/rename", name) => {
                Some(LocalCommand::Send(ChatCommand::Rename(name.unwrap_or_default())))
            }
            ("/answer", answer) => Some(LocalCommand::Answer(answer)),
            _ => decision(text).map(LocalCommand::Decide),
        },
    }
}

fn decision(text: &str) -> Option<ApprovalReply> {
    let (command, rest) = split(text);
    match command {
        "/deny" => Some(ApprovalReply::Deny { note: rest }),
        "/approve" => {
            let rest = rest.unwrap_or_default();
            let (scope, rest) = split(&rest);
            let patterns = own_patterns(&rest.unwrap_or_default());
            match scope {
                "" | "once" => Some(ApprovalReply::Once),
                "session" => Some(ApprovalReply::Lasting { scope: "session", patterns }),
                "always" => Some(ApprovalReply::Lasting { scope: "always", patterns }),
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

/// Files of the workspace whose path begins so, with their size; the message names them, nothing
/// of them is sent.
pub fn files(workspace: Option<&Path>, path: &str) -> Vec<(String, String)> {
    let (folder, start) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let inside = Path::new(folder).components().all(|part| matches!(part, Component::Normal(_)));
    let Some(root) = workspace.filter(|_| inside) else { return Vec::new() };
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let hidden = name.starts_with('.') && start.is_empty();
        let about = entry.metadata().ok().filter(|_| name.starts_with(start) && !hidden)?;
        let word = format!("@{}{name}", path.get(..path.len() - start.len())?);
        match about.is_dir() {
            true => Some((word + "/", String::new())),
            false => Some((word, size(about.len()))),
        }
    };
    let mut files: Vec<(String, String)> = entries.filter_map(entry).collect();
    files.sort();
    files
}

/// The common prefix of the words.
pub fn shared_start(words: &[(String, String)]) -> String {
    let Some((first, _)) = words.first() else { return String::new() };
    let shared = |end: &usize| words.iter().all(|(word, _)| word.get(..*end) == first.get(..*end));
    let end = (0..=first.len()).rev().find(shared).unwrap_or(0);
    first.get(..end).unwrap_or_default().to_owned()
}
