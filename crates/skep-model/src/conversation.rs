//! Rows into the pieces a model sees, in the order every wire needs them. Pure, and the same for
//! the same rows, so that request n+1 of a session begins with all of request n.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message, Role};

/// No wire takes empty text, so a user message without any gets this instead.
const NO_TEXT: &str = "(empty message)";
/// No wire takes a call without a result. The journal closes every call; this is for rows that
/// were damaged.
const NO_RESULT: &str = "no result was recorded for this call";
/// The shortest limit of any vendor for the id of a call.
const CALL_ID_BYTES: usize = 40;

pub(crate) enum Piece<'a> {
    /// At least one text; each has a visible character.
    User(Vec<&'a str>),
    Assistant(&'a Body),
    /// Right after the message with the calls, in the order of the calls.
    Results(Vec<CallResult<'a>>),
}

pub(crate) struct CallResult<'a> {
    pub id: Cow<'a, str>,
    pub texts: Vec<&'a str>,
    pub is_error: bool,
}

pub(crate) fn pieces(rows: &[Arc<Message>]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        match row.body.role {
            Role::User => pieces.push(Piece::User(user(&row.body))),
            Role::Assistant => {
                pieces.push(Piece::Assistant(&row.body));
                let results = results(&row.body, &rows[index + 1..]);
                if !results.is_empty() {
                    pieces.push(Piece::Results(results));
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

/// A result as one text. For wires without a mark for errors: the word at the start is the mark.
pub(crate) fn marked(result: &CallResult<'_>) -> String {
    let text = joined(result.texts.iter().copied());
    if result.is_error { format!("Error: {text}") } else { text }
}

fn user(body: &Body) -> Vec<&str> {
    let shown = body.shown.as_deref().and_then(visible);
    let content: Vec<&str> = shown.into_iter().chain(texts(body)).collect();
    if content.is_empty() { vec![NO_TEXT] } else { content }
}

/// The results of one assistant message in the order of its calls, whatever order they came in.
/// They stand before the next assistant message; ids may repeat in later ones.
fn results<'a>(body: &'a Body, following: &'a [Arc<Message>]) -> Vec<CallResult<'a>> {
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
            texts: texts(body).collect(),
            is_error: body.is_error == Some(true),
        },
        None => CallResult { id: call_id(id), texts: vec![NO_RESULT], is_error: true },
    };
    body.tool_calls().map(|(id, _, _)| result(id)).collect()
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
