//! What a thread is told: the history it begins with and what it is to answer.

use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::engine::{Resume, TurnRequest};
use skep_core::message::{Message, Role};
use skep_core::provider::ModelRequest;
use skep_core::resume_text;
use skep_model::openai_responses;

/// Of the items of one request, as long as there is more than one.
const BATCH_BYTES: usize = 1 << 20;

/// A thread that is filled takes any item and fails when the model refuses it: these come from the
/// renderer of this wire, where every call has its result.
pub(super) struct Told {
    /// Goes into the thread before the turn, in these portions.
    pub batches: Vec<Vec<Value>>,
    pub input: Value,
}

/// A new thread: everything before the last messages of people is history.
pub(super) fn anew(request: &TurnRequest) -> Told {
    let mut items = items(request, request.messages.clone());
    let is_user = |item: &Value| item["role"] == "user";
    let spoken = items.iter().rev().take_while(|item| is_user(item)).count();
    let last = items.split_off(items.len() - spoken);
    let mut input: Vec<Value> = last.iter().flat_map(parts).collect();
    if input.is_empty() {
        input.push(text(&resume_text::of(&[], 0, &[])));
    }
    Told { batches: batches(items), input: input.into() }
}

/// A thread that goes on: messages it has not seen, with all that is attached; else the sentence
/// that it was interrupted.
pub(super) fn onward(request: &TurnRequest, resume: &Resume) -> Told {
    let unseen =
        |row: &&Arc<Message>| row.seq > resume.session.seen_seq && row.body.role == Role::User;
    let unseen: Vec<_> = request.messages.iter().filter(unseen).cloned().collect();
    let input: Vec<Value> = match unseen.is_empty() {
        true => vec![text(&resume.text)],
        false => items(request, unseen).iter().flat_map(parts).collect(),
    };
    Told { batches: Vec::new(), input: input.into() }
}

/// A message that joins a turn which runs.
pub(super) fn joining(request: &TurnRequest, message: Arc<Message>) -> Value {
    items(request, vec![message]).iter().flat_map(parts).collect()
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "text_elements": []})
}

fn items(request: &TurnRequest, messages: Vec<Arc<Message>>) -> Vec<Value> {
    openai_responses::input(&ModelRequest {
        model: request.profile.model.clone(),
        system: request.system.clone(),
        tools: Arc::clone(request.gate.specs()),
        messages,
        max_output_tokens: request.profile.max_output_tokens,
        thinking: None,
        temperature: None,
        sees_images: request.profile.sees_images,
        cache_key: String::new(),
    })
}

/// The parts of a message of a person as the input of a turn.
fn parts(item: &Value) -> impl Iterator<Item = Value> {
    let parts = item["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| match part["type"].as_str()? {
        "input_text" => part["text"].as_str().map(text),
        "input_image" => Some(json!({"type": "image", "url": part["image_url"]})),
        _ => None,
    })
}

fn batches(items: Vec<Value>) -> Vec<Vec<Value>> {
    let mut batches: Vec<Vec<Value>> = Vec::new();
    let mut bytes = usize::MAX;
    for item in items {
        let more = item.to_string().len();
        match batches.last_mut() {
            Some(batch) if bytes + more <= BATCH_BYTES => {
                bytes += more;
                batch.push(item);
            }
            _ => {
                bytes = more;
                batches.push(vec![item]);
            }
        }
    }
    batches
}
