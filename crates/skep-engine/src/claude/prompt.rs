//! What Claude Code is told of people's messages.

use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::engine::TurnRequest;
use skep_core::file::File;
use skep_core::message::{Block, Message, Role};

use crate::rebuild::{self, SessionOpening};

/// The first message of a run: what is new to the session, or the course so far and what is to be
/// answered.
pub(super) fn first(request: &TurnRequest) -> Vec<Value> {
    let sees = request.profile.sees_images;
    let Some(resume) = &request.resume else {
        let SessionOpening { course, newest, go_on } =
            rebuild::opening(&request.messages, request.profile.context_window);
        let mut told: Vec<Value> = if course.is_empty() { Vec::new() } else { vec![text(&course)] };
        match newest.is_empty() {
            true => told.push(text(&go_on)),
            false => told.extend(newest.iter().flat_map(|row| message(row, sees))),
        }
        return told;
    };
    let seen = resume.session.seen_seq;
    let new = request.messages.iter().filter(|row| row.seq > seen && row.body.role == Role::User);
    let told: Vec<Value> = new.flat_map(|row| message(row, sees)).collect();
    if told.is_empty() { vec![text(&resume.text)] } else { told }
}

/// A message with its files, and what was put before it.
pub(super) fn message(row: &Arc<Message>, sees_images: bool) -> Vec<Value> {
    let shown = row.body.shown.iter().map(String::as_str);
    let shown = shown.filter(|shown| !shown.trim().is_empty()).map(text);
    let content = row.body.content.iter().filter_map(|block| match block {
        Block::Text { text: said } => (!said.trim().is_empty()).then(|| text(said)),
        Block::File(it) => Some(file(it, sees_images)),
        _ => None,
    });
    let told: Vec<Value> = shown.chain(content).collect();
    if told.is_empty() { vec![text("(a message without text)")] } else { told }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A picture where the model sees, else words.
fn file(file: &File, sees_images: bool) -> Value {
    let File { name, mime, size, .. } = file;
    if let Some(content) = file.text() {
        return text(&format!("[file {name}]\n{content}\n[end of file {name}]"));
    }
    match &file.data {
        Some(data) if file.is_image() && sees_images => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": mime, "data": data.to_base64()},
        }),
        _ => text(&format!("[file {name}, {mime}, {size} bytes: it cannot be shown]")),
    }
}
