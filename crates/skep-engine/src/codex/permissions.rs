//! The program's own tools as our rules know them: its shell is `bash`, a patch is a `write` or an
//! `edit` for each file. What cannot be told to the rules exactly is refused without a question.

use std::path::{Component, Path};

use serde_json::{Map, Value, json};
use skep_core::engine::{OwnTool, ToolCall};
use skep_core::ids::CallId;
use skep_core::policy::Class;
use skep_shell::plain;

use super::wire::{ChangeKind, FileChange};

/// Names of its own tools in calls. Of ours none may have them.
pub(super) const SHELL: &str = "shell";
pub(super) const PATCH: &str = "apply_patch";
/// The shells that the rules' grammar was compared with.
const BASH: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];
/// Files that one patch may change: each is asked for.
const PATCH_FILES: usize = 32;

pub(super) const NO_INPUT: &str =
    "A running command takes no input. Start it again with all it needs: in a file, or with `<<<`.";
pub(super) const NOTHING_MORE: &str =
    "A command may not ask for more than the command itself. Call it without further permissions.";
pub(super) const UNKNOWN_PATCH: &str = "The patch is not known, so it was not applied.";

/// A call that the program is about to make, as the gate is asked for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnCall {
    pub call: ToolCall,
    pub own: OwnTool,
}

impl OwnCall {
    fn new(id: String, name: &str, arguments: Value, (key, class): (&str, Class)) -> Self {
        let call = ToolCall { id: CallId::new(id), name: name.to_owned(), arguments };
        Self { call, own: OwnTool { key: key.to_owned(), class } }
    }
}

/// A command, as one line for bash in the workspace.
pub(super) fn of_command(
    id: &str,
    command: &str,
    folder: &str,
    workspace: &Path,
) -> Result<OwnCall, String> {
    let words = words(command).ok_or("Its command line could not be read.")?;
    let [shell, flag, line] = words.as_slice() else {
        return Err("It is no line for bash. Call it with `cmd` alone.".to_owned());
    };
    if !BASH.contains(&shell.as_str()) || flag != "-c" {
        return Err("Only bash runs here. Call it without `shell` and `login`.".to_owned());
    }
    let line = match place(folder, workspace)?.as_str() {
        "" => line.clone(),
        folder => format!("cd {} && {line}", plain::quoted(folder)),
    };
    Ok(OwnCall::new(id.to_owned(), SHELL, json!({"command": line}), ("bash", Class::Run)))
}

/// A patch: a call for each file that it writes. Where it is one call, it has the item's id.
pub(super) fn of_patch(
    id: &str,
    changes: &[FileChange],
    workspace: &Path,
) -> Result<Vec<OwnCall>, String> {
    if changes.is_empty() || changes.len() > PATCH_FILES {
        let count = changes.len();
        return Err(format!("It changes {count} files; a patch may change 1 to {PATCH_FILES}."));
    }
    let mut calls = Vec::new();
    for change in changes {
        let path = place(&change.path, workspace)?;
        let (key, what) = match &change.kind {
            ChangeKind::Add => ("write", json!({"content": change.diff})),
            ChangeKind::Delete => ("write", json!({"delete": true})),
            ChangeKind::Update { .. } => ("edit", json!({"diff": change.diff})),
        };
        calls.push(file_call(id, calls.len(), (key, &path), what));
        if let ChangeKind::Update { move_path: Some(to) } = &change.kind {
            let to = place(to, workspace)?;
            let what = json!({"moved_from": path, "diff": change.diff});
            calls.push(file_call(id, calls.len(), ("write", &to), what));
        }
    }
    Ok(calls)
}

fn file_call(id: &str, number: usize, (key, path): (&str, &str), what: Value) -> OwnCall {
    let id = match number {
        0 => id.to_owned(),
        _ => format!("{id}.{}", number + 1),
    };
    let mut arguments = Map::new();
    arguments.insert("file_path".to_owned(), json!(path));
    if let Value::Object(what) = what {
        arguments.extend(what);
    }
    OwnCall::new(id, PATCH, Value::Object(arguments), (key, Class::Write))
}

/// A path as rules know it: relative to the workspace where it lies in it, which itself is nothing.
fn place(path: &str, workspace: &Path) -> Result<String, String> {
    let real = Path::new(path);
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !real.is_absolute() || !real.components().all(plain) {
        return Err(format!("`{path}` is no plain absolute path."));
    }
    let place = real.strip_prefix(workspace).unwrap_or(real);
    Ok(place.to_string_lossy().into_owned())
}

/// The words of a command line as the program joins them: quoted and escaped as a POSIX shell
/// reads them, without expansions.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            special @ ('$' | '`' | '"' | '\\') => word.push(special),
                            '\n' => {}
                            other => word.extend(['\\', other]),
                        },
                        // A shell would expand them: the program does not join so.
                        '$' | '`' => return None,
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            '$' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' => return None,
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
#[path = "permissions_tests.rs"]
mod tests;
