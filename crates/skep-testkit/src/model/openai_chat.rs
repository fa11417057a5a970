//! The OpenAI Chat Completions wire: `POST /v1/chat/completions`.

mod check;
mod history;
mod render;

use super::openai::{self, text_of};
use super::request::{Entry, ModelRequest};

pub(crate) use check::request as check;
pub(crate) use render::Writer;

pub(crate) fn system_text(request: &ModelRequest) -> String {
    let system = |message: &&serde_json::Value| {
        matches!(message["role"].as_str(), Some("system" | "developer"))
    };
    let texts = request.messages().iter().filter(system);
    texts.map(|message| text_of(&message["content"])).collect::<Vec<_>>().join("\n")
}

pub(crate) fn entries(request: &ModelRequest) -> Vec<Entry> {
    let mut entries = Vec::new();
    for message in request.messages() {
        let text = text_of(&message["content"]);
        match message["role"].as_str() {
            Some("assistant") => entries.push(Entry { assistant: true, ..Entry::default() }),
            Some("user") => entries
                .push(Entry { user_text: (!text.is_empty()).then_some(text), ..Entry::default() }),
            Some("tool") => {
                let result = openai::tool_result(&message["tool_call_id"], &message["content"]);
                openai::push_result(&mut entries, result);
            }
            _ => {}
        }
    }
    entries
}
