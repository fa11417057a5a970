//! Which part of which script a call plays, read from the request alone.

use std::sync::Arc;

use serde_json::Value;
use skep_core::cause::ItemKind;
use skep_core::message::{Block, Message, Role};
use skep_core::provider::ModelRequest;

use super::script::{self, Script, ScriptPart};

pub(crate) struct Scene {
    pub part: ScriptPart,
    /// Which block of it is due.
    pub block: usize,
    /// Assistant messages in the whole request; makes the ids of calls unique in a session.
    pub calls_before: usize,
    /// A call of the block before has failed.
    pub failed: bool,
}

impl Scene {
    /// The turn is played by the newest of its rows that is a script or that a section answers,
    /// else by its first. A message that arrives in the middle of a turn does not begin the scene
    /// again unless it is a script itself.
    pub fn of(request: &ModelRequest) -> Result<Self, String> {
        let rows = &request.messages;
        let turn = rows.last().map(|row| &row.turn);
        let in_turn = |row: &Message| row.body.role == Role::User && Some(&row.turn) == turn;
        let start = rows.iter().position(|row| in_turn(row)).unwrap_or(rows.len());
        for index in (start..rows.len()).rev().filter(|index| in_turn(&rows[*index])) {
            let (kind, text) = (kind(&rows[index]), typed(&rows[index]));
            let (part, item) = if script::is_script(text) {
                (Some(Script::parse(text)?.own), None)
            } else if kind.is_some() || index == start {
                (section(request, index, kind, text)?, Some(text))
            } else {
                (None, None)
            };
            if let Some(part) = part {
                let (answers, failed) = answers(&rows[index..]);
                let part = part.filled(item, answers.as_deref());
                return Ok(Self { failed, ..Self::at(rows, index, part) });
            }
        }
        let text = rows.get(start).map_or("", |row| typed(row));
        Ok(Self::at(rows, start, ScriptPart::built_in(request, text)))
    }

    fn at(rows: &[Arc<Message>], start: usize, part: ScriptPart) -> Self {
        let assistants = |rows: &[Arc<Message>]| {
            rows.iter().filter(|row| row.body.role == Role::Assistant).count()
        };
        // The first call of such a turn is the one that was approved.
        let approved = rows.get(start).is_some_and(|row| kind(row) == Some(ItemKind::Approved));
        let block = assistants(&rows[start..]).saturating_sub(usize::from(approved));
        Self { part, block, calls_before: assistants(rows), failed: false }
    }
}

/// What answers the row: a section of the newest script of the session that has one for it, else
/// of the rules, the most specific first.
fn section(
    request: &ModelRequest,
    index: usize,
    kind: Option<ItemKind>,
    text: &str,
) -> Result<Option<ScriptPart>, String> {
    let earlier = request.messages[..index].iter().rev();
    let scripts = earlier.filter(|row| row.body.role == Role::User).map(|row| typed(row));
    // The author of a script with a mistake was told when it was played.
    let mut scripts = scripts.filter(|it| script::is_script(it)).flat_map(Script::parse);
    if let Some(part) = scripts.find_map(|script| script.section(kind, text).cloned()) {
        return Ok(Some(part));
    }
    for rules in [&request.system.agent, &request.system.shared] {
        for script in script::in_rules(rules).into_iter().rev() {
            if let Some(part) = Script::parse(script)?.section(kind, text) {
                return Ok(Some(part.clone()));
            }
        }
    }
    Ok(None)
}

/// What the newest calls answered, or those of them that failed, and whether one did.
fn answers(rows: &[Arc<Message>]) -> (Option<String>, bool) {
    let newest = rows.iter().rposition(|row| row.body.role == Role::Assistant);
    let rows = &rows[newest.unwrap_or(rows.len())..];
    let results =
        rows.iter().filter(|row| row.body.role == Role::ToolResult).map(|row| answer(row));
    let results: Vec<(String, bool)> = results.collect();
    let failed = results.iter().any(|(_, failed)| *failed);
    let told = results.into_iter().filter(|(_, it)| *it == failed).map(|(text, _)| text);
    let told: Vec<String> = told.collect();
    ((!told.is_empty()).then(|| told.join("\n")), failed)
}

/// What a call answered, and whether it failed. Of an answer in JSON its words alone.
fn answer(row: &Message) -> (String, bool) {
    let (text, failed) = (typed(row).trim_end(), row.body.is_error == Some(true));
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let word = |key: &str| answer[key].as_str();
    match (answer["success"].as_bool(), word("answer"), word("error"), word("reason")) {
        (Some(true), Some(words), ..) => (words.to_owned(), failed),
        (Some(false), _, Some(code), Some(why)) => (format!("{why} ({code})"), true),
        (succeeded, ..) => (text.to_owned(), failed || succeeded == Some(false)),
    }
}

/// Why the row is there; nothing where a person wrote it.
fn kind(row: &Message) -> Option<ItemKind> {
    row.body.origin.as_ref()?.kind
}

/// What the user typed or a call answered: such a row has one text block.
fn typed(row: &Message) -> &str {
    let text = row.body.content.iter().find_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    text.unwrap_or("")
}
