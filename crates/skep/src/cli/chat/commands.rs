//! Slash commands: those of every door, and the few that concern this screen only.

use skep_core::slash;

/// Handled here; the hive never sees them.
const LOCAL: &[(&str, &str)] = &[
    ("/thinking", "show or fold what the model thinks (also Ctrl-O)"),
    ("/quit", "leave (also Ctrl-D); a turn that runs goes on"),
];

#[derive(Debug, PartialEq, Eq)]
pub enum Local {
    Thinking,
    Quit,
}

pub fn local(text: &str) -> Option<Local> {
    match text.trim() {
        "/thinking" => Some(Local::Thinking),
        "/quit" | "/exit" => Some(Local::Quit),
        _ => None,
    }
}

/// Commands that begin like the line, with what they do. None once an argument was begun.
pub fn completions(line: &str) -> Vec<(String, String)> {
    if !line.starts_with('/') || line.contains(char::is_whitespace) {
        return Vec::new();
    }
    let all = slash::COMMANDS.iter().chain(LOCAL);
    let fitting = all.filter(|(word, _)| word.starts_with(line));
    fitting.map(|(word, what)| ((*word).to_owned(), (*what).to_owned())).collect()
}

/// What all of them begin with.
pub fn shared_start(words: &[(String, String)]) -> String {
    let Some((first, _)) = words.first() else {
        return String::new();
    };
    let shared = |end: &usize| words.iter().all(|(word, _)| word.get(..*end) == first.get(..*end));
    let end = (0..=first.len()).rev().find(shared).unwrap_or(0);
    first.get(..end).unwrap_or_default().to_owned()
}
