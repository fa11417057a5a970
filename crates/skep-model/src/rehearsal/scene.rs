//! Which part of which script a call plays, read from the request alone.

use std::sync::Arc;

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
            let part = if script::is_script(text) {
                Some(Script::parse(text)?.own)
            } else if kind.is_some() || index == start {
                section(request, index, kind, text)?
            } else {
                None
            };
            if let Some(part) = part {
                return Ok(Self::at(rows, index, part));
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
        Self { part, block, calls_before: assistants(rows) }
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
    if let Some(part) = scripts.find_map(|script| script.section(kind, text)) {
        return Ok(Some(part));
    }
    for rules in [&request.system.agent, &request.system.shared] {
        for script in script::in_rules(rules).into_iter().rev() {
            if let Some(part) = Script::parse(script)?.section(kind, text) {
                return Ok(Some(part));
            }
        }
    }
    Ok(None)
}

/// Why the row is there; nothing where a person wrote it.
fn kind(row: &Message) -> Option<ItemKind> {
    row.body.origin.as_ref()?.kind
}

/// What the user typed; a user row has one text block.
fn typed(row: &Message) -> &str {
    let text = row.body.content.iter().find_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    text.unwrap_or("")
}
