//! When a session is compacted: from which row on the model sees rows instead of notes.
//! The rows themselves stay as they are: only what the model is shown changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::vocab::file::File;
use crate::vocab::message::{Block, Body, Message, Role};

pub use crate::vocab::compaction_reason::Reason;

/// A session is compacted once its last call filled this share of the context window.
pub const FULL_PERCENT: u64 = 75;
/// Of what was shown at the most this part stays whole, and at least this part has to go: less
/// would not be worth a call.
const PART: usize = 4;
/// Notes that no model wrote have at most this many characters for each text they take over.
const TEXT_CHARACTERS: usize = 1500;
/// And take over so many of the newest messages.
const NEWEST: usize = 6;

/// What the row of history that tells of a compaction says to programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seam {
    /// Rows up to this one are shown as notes.
    pub upto: i64,
    pub messages: usize,
    pub reason: Reason,
}

pub fn is_full(used: u64, window: u32) -> bool {
    used.saturating_mul(100) >= u64::from(window).saturating_mul(FULL_PERCENT)
}

/// The row that tells of a compaction: people read it, models are shown the notes instead of the
/// rows before it.
pub fn seam(seam: &Seam, notes: &str) -> Body {
    let Seam { messages, upto, .. } = seam;
    let line = format!(
        "Compacted: the {messages} messages up to {upto} are shown to the model as these notes."
    );
    let mut body = Body::assistant(vec![Block::text(line), Block::text(notes)], None);
    body.role = Role::System;
    body.details = Some(json!({ "compaction": seam }));
    body
}

/// The seam and the notes, when the row tells of a compaction.
pub fn seam_of(body: &Body) -> Option<(Seam, &str)> {
    if body.role != Role::System {
        return None;
    }
    let seam = body.details.as_ref()?.get("compaction")?;
    let seam = Seam::deserialize(seam).ok()?;
    match body.content.last() {
        Some(Block::Text { text }) => Some((seam, text)),
        _ => None,
    }
}

/// The index of the first row that stays whole; rows before it become notes. Between turns where
/// that frees enough, else between the steps of the last one: never between a call and its
/// result. Nothing where no cut is worth it.
pub fn cut(rows: &[Arc<Message>]) -> Option<usize> {
    let turns = turns(rows);
    let last = turns.last().copied().unwrap_or(0);
    let mut steps = (last..rows.len()).filter(|at| rows[*at].body.role == Role::Assistant);
    // What was asked and the first answer to it belong together.
    steps.next();
    let steps: Vec<usize> = steps.collect();
    let tails = tails(rows);
    [turns, steps].into_iter().find_map(|places| {
        let at = best(&tails, &places)?;
        (tails[0] - tails[at] >= tails[0] / PART).then_some(at)
    })
}

/// As `cut`, when a person asks for it: the last turn stays, and where it is the only one, nothing.
pub fn cut_asked(rows: &[Arc<Message>]) -> Option<usize> {
    let spoken = rows.iter().any(|row| row.body.role != Role::System);
    spoken.then(|| best(&tails(rows), &turns(rows)).unwrap_or(rows.len()))
}

/// Where turns begin, the first one left out.
fn turns(rows: &[Arc<Message>]) -> Vec<usize> {
    (1..rows.len()).filter(|at| rows[*at].turn != rows[*at - 1].turn).collect()
}

/// The first place after which no more stays than may; else the last one.
fn best(tails: &[usize], places: &[usize]) -> Option<usize> {
    let small = |at: &usize| tails[*at] <= tails[0] / PART;
    places.iter().copied().find(small).or(places.last().copied())
}

/// What the rows from each one on weigh together, and nothing after the last.
fn tails(rows: &[Arc<Message>]) -> Vec<usize> {
    let mut tails = vec![0; rows.len() + 1];
    for at in (0..rows.len()).rev() {
        tails[at] = tails[at + 1] + weight(&rows[at]);
    }
    tails
}

/// About how much of the window a row takes, in bytes. Rows for people alone take none.
fn weight(row: &Message) -> usize {
    if row.body.role == Role::System {
        return 0;
    }
    let blocks = row.body.content.iter().map(|block| match block {
        Block::Text { text } => text.len(),
        Block::Thinking { thinking, .. } => thinking.len(),
        Block::RedactedThinking { data } => data.len(),
        Block::ToolCall { name, arguments, .. } => name.len() + arguments.to_string().len(),
        Block::File(file) => file_weight(file),
    });
    // Something for its frame.
    16 + blocks.sum::<usize>()
}

/// A picture takes about as many tokens whatever its bytes.
fn file_weight(file: &File) -> usize {
    let bytes = usize::try_from(file.size).unwrap_or(usize::MAX);
    if file.is_image() { bytes.min(6000) } else { bytes }
}

/// Notes made without a model: what was asked first, what was said last, which tools were used.
pub fn plain_notes(rows: &[Arc<Message>]) -> String {
    let said = |row: &&Arc<Message>| row.body.is_spoken();
    let mut lines = vec!["(These notes were put together without a model.)".to_owned()];
    if let Some(first) = rows.iter().find(|row| row.body.role == Role::User) {
        lines.push(format!("The conversation began with: {}", shortened(&first.body)));
    }
    let spoken: Vec<&Arc<Message>> = rows.iter().filter(said).collect();
    for row in &spoken[spoken.len().saturating_sub(NEWEST)..] {
        let who = if row.body.role == Role::User { "user" } else { "you" };
        lines.push(format!("{who}: {}", shortened(&row.body)));
    }
    let tools: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.body.tool_calls()).map(|(_, name, _)| name).collect();
    if !tools.is_empty() {
        let tools: Vec<&str> = tools.into_iter().take(50).collect();
        lines.push(format!("Tools used so far: {}", tools.join(", ")));
    }
    lines.join("\n\n")
}

/// The words of a message, cut to what notes have room for.
pub fn shortened(body: &Body) -> String {
    let text = body.plain_text();
    let mut short: String = text.chars().take(TEXT_CHARACTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
