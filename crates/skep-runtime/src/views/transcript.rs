//! Messages as JSON lines: one message a line, as it is stored. What is read is what was written:
//! a line that would come back different is refused, with its number.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use skep_core::file::FileData;
use skep_core::ids::{AgentName, CallId, is_session_id};
use skep_core::message::{Block, Message, Role, StopReason, Usage, history_tag};
use skep_core::{seed, time};

use crate::door::{DoorError, ErrorKind, HistoryForm};

/// More than a hive ever writes into one row. Rows lie beside each other and are looked up through
/// each other: one of the size of a session would make all of them slow.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// `sender`: what Markdown calls whoever sent it.
pub(crate) fn write(
    message: &Message,
    form: HistoryForm,
    sender: &str,
) -> Result<String, DoorError> {
    let line = match form {
        HistoryForm::Skep => serde_json::to_string(message),
        HistoryForm::Seed => match seed::write(message) {
            Some(line) => serde_json::to_string(&line),
            None => return Ok(String::new()),
        },
        HistoryForm::Markdown => {
            return Ok(
                skep_scrub::known().clean_owned(markdown(message, sender).unwrap_or_default())
            );
        }
    };
    let line = line.map_err(|error| {
        tracing::error!(%error, "a message could not be written as JSON");
        let text = "A message could not be written; see the log of the hive.";
        DoorError::new(ErrorKind::Internal, "internal", text)
    })?;
    // A row may be older than what is known as a secret today.
    Ok(skep_scrub::known().clean_json_text(line) + "\n")
}

/// What a person or the agent said or gave; nothing for other rows.
fn markdown(message: &Message, sender: &str) -> Option<String> {
    let who = match message.body.role {
        Role::User => sender,
        Role::Assistant => message.agent_id.as_str(),
        Role::ToolResult | Role::System => return None,
    };
    let mut text = message.body.plain_text();
    for file in message.body.files() {
        text.push_str(&format!("\n\n*{}, {} bytes*", file.name, file.size));
    }
    let said = !text.trim().is_empty();
    let cut = match message.body.meta.as_ref().map(|meta| meta.stop_reason) {
        Some(StopReason::MaxTokens) => Some("Incomplete: output limit reached"),
        Some(StopReason::Refusal) => Some("The model refused to continue"),
        Some(StopReason::Cancelled) => Some("Incomplete: stopped"),
        Some(StopReason::Interrupted) => Some("Incomplete: interrupted by a newer message"),
        Some(StopReason::Error) => Some("Incomplete: the turn failed"),
        _ => None,
    };
    text.extend(cut.map(|why| format!("\n\n*{why}*")));
    said.then(|| format!("## {who}, {}\n\n{}\n\n", time::utc(message.timestamp), text.trim()))
}

/// The messages of one session, complete and in order. Secrets in them stay outside.
pub(crate) fn read(agent: &AgentName, text: &str) -> Result<Vec<Message>, String> {
    let clean = |line: &str| skep_scrub::known().clean_json_text(line.to_owned());
    let text = match skep_scrub::known().clean(text) {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        // Key by key: a line is JSON, and stays it.
        Cow::Owned(_) => Cow::Owned(text.lines().map(clean).collect::<Vec<_>>().join("\n")),
    };
    let mut messages = match seed::is_seed(&text) {
        true => read_all(agent, &seed::canonical(agent, &text)?)?,
        false => read_all(agent, &text)?,
    };
    for block in messages.iter_mut().flat_map(|message| &mut message.body.content) {
        // A signature proves nothing about words that were replaced.
        if let Block::Thinking { thinking, signature } = block
            && skep_scrub::known().is_marked(thinking)
        {
            *signature = None;
        }
    }
    Ok(messages)
}

fn read_all(agent: &AgentName, text: &str) -> Result<Vec<Message>, String> {
    let mut messages: Vec<Message> = Vec::new();
    let mut open: BTreeMap<CallId, usize> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: String| format!("line {number}: {why}");
        let message = message(line).map_err(wrong)?;
        let files = message.body.files().filter_map(|file| file.data.as_ref()).map(base64_bytes);
        let text = line.len().saturating_sub(files.sum());
        if text > MESSAGE_BYTES {
            return Err(wrong(format!(
                "the message has {text} bytes; one has at most {MESSAGE_BYTES}, its files apart"
            )));
        }
        check_place(agent, messages.last(), &message).map_err(wrong)?;
        if let Some(file) = message.body.files().find(|it| it.data.is_none() || !it.is_whole()) {
            return Err(wrong(format!("the `data` of the file {:?} is not whole", file.name)));
        }
        match (&message.body.role, &message.body.tool_call_id) {
            (Role::ToolResult, Some(call)) if open.remove(call).is_none() => {
                return Err(wrong(format!("no call before it is named `{call}`")));
            }
            (Role::ToolResult, None) => return Err(wrong("`toolCallId` is missing".to_owned())),
            _ => {}
        }
        open.extend(message.body.tool_calls().map(|(id, ..)| (id.clone(), number)));
        messages.push(message);
    }
    match open.into_iter().min_by_key(|(_, line)| *line) {
        None => Ok(messages),
        Some((call, line)) => Err(format!(
            "line {line}: the call `{call}` has no result; a turn was under way when this was \
             exported. Export the session again"
        )),
    }
}

/// As long as the file is in the line.
fn base64_bytes(data: &FileData) -> usize {
    data.0.len().div_ceil(3) * 4
}

fn message(line: &str) -> Result<Message, String> {
    let given: Value = serde_json::from_str(line)
        .map_err(|error| format!("this is not JSON ({error}); each line is one message"))?;
    if given["type"] != history_tag() {
        return Err("`type` is not \"history\"; is this an export of `skep history`?".to_owned());
    }
    let message: Message = serde_json::from_value(given.clone())
        .map_err(|error| format!("this is not a message: {error}"))?;
    let kept = serde_json::to_value(&message).map_err(|error| error.to_string())?;
    match lost(&given, &kept) {
        None => Ok(message),
        Some(path) => Err(match kept.pointer(&format!("/{}", path.join("/"))) {
            Some(other) => format!("`{}` would be kept as {other}", path.join(".")),
            None => format!("`{}` is not known here and would be lost", path.join(".")),
        }),
    }
}

/// The first place where what was given is not what is kept.
fn lost(given: &Value, kept: &Value) -> Option<Vec<String>> {
    let below = |name: String, path: Vec<String>| [vec![name], path].concat();
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(key, value)| {
            let path = match kept.get(key) {
                Some(kept) => lost(value, kept)?,
                None if value.is_null() || *value == json!(Usage::uncounted()) => return None,
                None => Vec::new(),
            };
            Some(below(key.clone(), path))
        }),
        (Value::Array(given), Value::Array(kept)) if given.len() == kept.len() => {
            let pairs = given.iter().zip(kept).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (given, kept))| Some(below(at.to_string(), lost(given, kept)?)))
        }
        // 0 and 0.0 are one number of JSON.
        (Value::Number(given), Value::Number(kept)) if given.is_f64() || kept.is_f64() => {
            (given.as_f64() != kept.as_f64()).then(Vec::new)
        }
        (given, kept) => (given != kept).then(Vec::new),
    }
}

fn check_place(agent: &AgentName, before: Option<&Message>, now: &Message) -> Result<(), String> {
    if now.agent_id != *agent {
        return Err(format!("it belongs to the agent {}, not to {agent}", now.agent_id));
    }
    for (name, id) in [("id", &now.id), ("turn", &now.turn.0), ("sessionId", &now.session_id.0)] {
        if !is_session_id(id) {
            return Err(format!("`{name}` has 1 to 100 letters, digits or any of . _ -"));
        }
    }
    let next = before.map_or(1, |before| before.seq + 1);
    if now.seq != next {
        return Err(format!("`seq` is {}, but {next} comes next", now.seq));
    }
    match before {
        Some(before) if before.session_id != now.session_id => {
            Err("it is of another session; a file holds one session".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
