//! The OpenAI Responses wire: `POST /v1/responses`.

mod check;
mod history;
mod render;

use super::openai::{self, text_of};
use super::request::{Entry, ModelRequest};

pub(crate) use check::request as check;
pub(crate) use render::Writer;

pub(crate) fn system_text(request: &ModelRequest) -> String {
    text_of(&request.body["instructions"])
}

/// Items of one answer stand one after the other; here they are one entry.
pub(crate) fn entries(request: &ModelRequest) -> Vec<Entry> {
    if let Some(text) = request.body["input"].as_str() {
        return vec![Entry { user_text: Some(text.to_owned()), ..Entry::default() }];
    }
    let mut entries: Vec<Entry> = Vec::new();
    for item in request.messages() {
        let role = item["role"].as_str();
        match item["type"].as_str().unwrap_or("message") {
            "function_call_output" => {
                let result = openai::tool_result(&item["call_id"], &item["output"]);
                openai::push_result(&mut entries, result);
            }
            "message" if role != Some("assistant") => {
                let text = text_of(&item["content"]);
                let said = role == Some("user") && !text.is_empty();
                entries.push(Entry { user_text: said.then_some(text), ..Entry::default() });
            }
            _ if entries.last().is_some_and(|entry| entry.assistant) => {}
            _ => entries.push(Entry { assistant: true, ..Entry::default() }),
        }
    }
    entries
}
