//! Rows into the pieces a model sees, in the order every wire needs them. Pure, and the same for
//! the same rows, so that request n+1 of a session begins with all of request n.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::file::{File, FileData};
use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message, Role};
use skep_core::provider::ModelRequest;

/// No wire takes empty text, so a user message without any gets this instead.
const NO_TEXT: &str = "(empty message)";
/// No wire takes a call without a result. The journal closes every call; this is for rows that
/// were damaged.
const NO_RESULT: &str = "no result was recorded for this call";
/// A call that answered with nothing but pictures, where they cannot stand in its result.
const ONLY_PICTURES: &str = "(pictures)";
/// The shortest limit of any vendor for the id of a call.
const CALL_ID_BYTES: usize = 40;

pub(crate) enum WireMessage<'a> {
    /// At least one part.
    User(Vec<ContentPart<'a>>),
    Assistant(&'a Body),
    /// Right after the message with the calls, in the order of the calls.
    Results(Vec<CallResult<'a>>),
}

/// What a message is made of, for wires that take more than text.
pub(crate) enum ContentPart<'a> {
    /// Has a visible character.
    Text(Cow<'a, str>),
    Image {
        mime: &'a str,
        data: &'a FileData,
    },
}

pub(crate) struct CallResult<'a> {
    pub id: Cow<'a, str>,
    pub parts: Vec<ContentPart<'a>>,
    pub is_error: bool,
}

pub(crate) fn pieces(request: &ModelRequest) -> Vec<WireMessage<'_>> {
    let rows = &request.messages;
    let sees = Sees(request.sees_images);
    let mut pieces = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        match row.body.role {
            Role::User => pieces.push(WireMessage::User(user(&row.body, sees))),
            Role::Assistant => {
                pieces.push(WireMessage::Assistant(&row.body));
                let results = results(&row.body, &rows[index + 1..], sees);
                if !results.is_empty() {
                    pieces.push(WireMessage::Results(results));
                }
            }
            // Results were placed with their calls; notes for people are not for the model.
            Role::ToolResult | Role::System => {}
        }
    }
    pieces
}

/// Whether the message came over this vendor's wire. Signatures and encrypted thinking mean
/// something only to whoever made them; another vendor refuses the whole request for them.
pub(crate) fn is_from(body: &Body, vendor: &str) -> bool {
    body.meta.as_ref().is_some_and(|meta| meta.provider == vendor)
}

/// The id of a call as every vendor takes it. One vendor gives ids that another refuses, and a
/// session may change its vendor.
pub(crate) fn call_id(id: &CallId) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let id = id.as_str();
    if (1..=CALL_ID_BYTES).contains(&id.len()) && id.bytes().all(plain) {
        return Cow::Borrowed(id);
    }
    // FNV-1a: the same for ever, and only has to tell the calls of one session apart.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Cow::Owned(format!("call_{hash:016x}"))
}

/// The arguments of a call as every vendor takes them: an object, also where the model wrote none
/// and was told so.
pub(crate) fn input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(json!({"unreadable": other})),
    }
}

/// The texts of a message that have a visible character: wires refuse the others.
pub(crate) fn texts(body: &Body) -> impl Iterator<Item = &str> {
    body.content.iter().filter_map(|block| match block {
        Block::Text { text } => visible(text),
        _ => None,
    })
}

pub(crate) fn visible(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}

/// For wires that take one text where there are several.
pub(crate) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().collect::<Vec<_>>().join("\n\n")
}

/// The whole system text as one.
pub(crate) fn system_text(request: &ModelRequest) -> String {
    let parts = [&request.system.shared, &request.system.agent];
    joined(parts.into_iter().filter_map(|text| visible(text)))
}

/// All texts of a message as one, for wires that take no list.
pub(crate) fn joined_text(parts: &[ContentPart<'_>]) -> String {
    joined(parts.iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text.as_ref()),
        ContentPart::Image { .. } => None,
    }))
}

pub(crate) fn images<'a>(
    parts: &'a [ContentPart<'a>],
) -> impl Iterator<Item = &'a ContentPart<'a>> {
    parts.iter().filter(|part| matches!(part, ContentPart::Image { .. }))
}

pub(crate) fn has_images(parts: &[ContentPart<'_>]) -> bool {
    images(parts).next().is_some()
}

/// A result as one text. For wires without a mark for errors: the word at the start is the mark.
pub(crate) fn marked(result: &CallResult<'_>) -> String {
    let mut text = joined_text(&result.parts);
    if text.is_empty() && has_images(&result.parts) {
        text = ONLY_PICTURES.to_owned();
    }
    if result.is_error { format!("Error: {text}") } else { text }
}

/// The address under which the OpenAI wires take the bytes of a picture.
pub(crate) fn data_url(mime: &str, data: &FileData) -> String {
    format!("data:{mime};base64,{}", data.to_base64())
}

/// Whether the model takes pictures.
#[derive(Clone, Copy)]
struct Sees(bool);

fn user(body: &Body, sees: Sees) -> Vec<ContentPart<'_>> {
    let shown = body.shown.as_deref().and_then(visible);
    let shown = shown.map(|text| ContentPart::Text(Cow::Borrowed(text)));
    let content: Vec<ContentPart<'_>> = shown.into_iter().chain(parts(body, sees)).collect();
    if content.is_empty() { vec![ContentPart::Text(Cow::Borrowed(NO_TEXT))] } else { content }
}

fn parts(body: &Body, sees: Sees) -> impl Iterator<Item = ContentPart<'_>> {
    body.content.iter().filter_map(move |block| match block {
        Block::Text { text } => visible(text).map(|text| ContentPart::Text(Cow::Borrowed(text))),
        Block::File(file) => Some(file_part(file, sees)),
        _ => None,
    })
}

/// A picture where the model sees, else words: what is in the file, or that it is there.
fn file_part(file: &File, sees: Sees) -> ContentPart<'_> {
    let File { name, mime, size, .. } = file;
    if let Some(text) = file.text() {
        return ContentPart::Text(Cow::Owned(format!(
            "[file {name}]\n{text}\n[end of file {name}]"
        )));
    }
    match &file.data {
        Some(data) if file.is_image() && sees.0 => ContentPart::Image { mime, data },
        _ => {
            let why = match file.is_image() && !sees.0 {
                true => "this model takes no pictures",
                false => "its content is not there any more",
            };
            ContentPart::Text(Cow::Owned(format!("[file {name}, {mime}, {size} bytes: {why}]")))
        }
    }
}

/// The results of one assistant message in the order of its calls, whatever order they came in.
/// They stand before the next assistant message; ids may repeat in later ones.
fn results<'a>(body: &'a Body, following: &'a [Arc<Message>], sees: Sees) -> Vec<CallResult<'a>> {
    let mut recorded: HashMap<&CallId, &Body> = HashMap::new();
    let step = following.iter().take_while(|row| row.body.role != Role::Assistant);
    for row in step.filter(|row| row.body.role == Role::ToolResult) {
        if let Some(id) = &row.body.tool_call_id {
            recorded.entry(id).or_insert(&row.body);
        }
    }
    let result = |id: &'a CallId| match recorded.get(id) {
        Some(body) => CallResult {
            id: call_id(id),
            parts: parts(body, sees).collect(),
            is_error: body.is_error == Some(true),
        },
        None => {
            let parts = vec![ContentPart::Text(Cow::Borrowed(NO_RESULT))];
            CallResult { id: call_id(id), parts, is_error: true }
        }
    };
    body.tool_calls().map(|(id, _, _)| result(id)).collect()
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
