//! Histories of the programs this one grew from: JSON lines of `timestamp`, `role`, `content` and
//! `meta`, without ids, turns or numbers. What such a line says and a message has no place for
//! stays in the message under `details.imported`, and is written again from there.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::ids::AgentName;
use crate::message::{Message, Meta, StopReason, Usage, history_tag};

/// Earlier than this a number of milliseconds would be in 1973: it is seconds.
const FIRST_MILLIS: f64 = 100_000_000_000.0;
/// What a message is read from, apart from its content, time and meta.
const KEPT: [&str; 4] = ["toolCallId", "toolName", "isError", "details"];
/// In the place of fields: no line of the history stands behind the message.
const ADDED: &str = "added";

type Line = Map<String, Value>;

/// Whether its first line is one of these: a message without a place.
pub fn is_seed(text: &str) -> bool {
    let first: Option<Line> = text.lines().next().and_then(|line| serde_json::from_str(line).ok());
    let has = |line: &Line, key: &str| line.contains_key(key);
    first.is_some_and(|line| {
        ["role", "content"].iter().all(|key| has(&line, key))
            && !["seq", "turn"].iter().any(|key| has(&line, key))
    })
}

/// The same messages as lines of an export: with ids that the same history always gets, a turn for
/// each time the user speaks, and a result for each call that has none.
pub fn canonical(agent: &AgentName, text: &str) -> Result<String, String> {
    let digest = Sha256::digest(format!("{agent}\n{text}"));
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut history = History::new(agent, format!("seed-{name}"));
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let line = serde_json::from_str(line)
            .map_err(|error| format!("line {number}: this is not JSON ({error})"))?;
        history.take(line).map_err(|why| format!("line {number}: {why}"))?;
    }
    history.answer_calls();
    Ok(history.lines)
}

/// What was read so far.
struct History<'a> {
    agent: &'a AgentName,
    session: String,
    seq: i64,
    turn: i64,
    time: i64,
    after_user: bool,
    /// Calls without a result, with the names of their tools.
    open: Vec<(Value, Value)>,
    lines: String,
}

impl<'a> History<'a> {
    fn new(agent: &'a AgentName, session: String) -> Self {
        let (open, lines) = (Vec::new(), String::new());
        Self { agent, session, seq: 0, turn: 0, time: 0, after_user: false, open, lines }
    }

    fn take(&mut self, given: Line) -> Result<(), String> {
        let role = given.get("role").and_then(Value::as_str).ok_or("`role` is missing")?.to_owned();
        let content = match given.get("content") {
            Some(Value::String(text)) => json!([{"type": "text", "text": text}]),
            Some(blocks @ Value::Array(_)) => blocks.clone(),
            _ => return Err("`content` is neither a text nor a list".to_owned()),
        };
        self.time = match given.get("timestamp").and_then(Value::as_f64) {
            Some(time) if time < FIRST_MILLIS => (time * 1000.0).round() as i64,
            Some(time) => time as i64,
            None => self.time,
        };
        match role.as_str() {
            "toolResult" => self.open.retain(|(id, _)| Some(id) != given.get("toolCallId")),
            _ => self.answer_calls(),
        }
        if role == "user" && !self.after_user || self.turn == 0 {
            self.turn += 1;
        }
        self.after_user = role == "user";
        let mut message = self.place(&role, content.clone());
        if let Some(meta) = given.get("meta").and_then(meta_of) {
            message.insert("meta".to_owned(), meta);
        }
        for key in KEPT {
            message.extend(given.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        let imported = differences(&given, &seed_line(&message));
        if !imported.is_empty() {
            let details = message.entry("details").or_insert_with(|| json!({}));
            if !details.is_object() {
                *details = json!({});
            }
            details["imported"] = Value::Object(imported);
        }
        let calls = content.as_array().into_iter().flatten();
        let calls = calls.filter(|block| block["type"] == "toolCall");
        self.open.extend(calls.map(|call| (call["id"].clone(), call["name"].clone())));
        self.push(message);
        Ok(())
    }

    /// A model is never shown a call without a result.
    fn answer_calls(&mut self) {
        for (id, name) in std::mem::take(&mut self.open) {
            let text = "The imported history has no result of this call.";
            let mut message = self.place("toolResult", json!([{"type": "text", "text": text}]));
            message.insert("toolCallId".to_owned(), id);
            message.insert("toolName".to_owned(), name);
            message.insert("isError".to_owned(), true.into());
            message.insert("details".to_owned(), json!({ "imported": ADDED }));
            self.push(message);
        }
    }

    fn place(&mut self, role: &str, content: Value) -> Line {
        self.seq += 1;
        let Self { agent, session, seq, turn, time, .. } = self;
        let message = json!({
            "type": tag(), "id": format!("{session}-{seq}"), "agentId": agent,
            "sessionId": session, "turn": format!("{session}-t{turn}"), "seq": seq,
            "timestamp": time, "role": role, "content": content,
        });
        match message {
            Value::Object(message) => message,
            _ => Line::new(),
        }
    }

    fn push(&mut self, message: Line) {
        self.lines.push_str(&Value::Object(message).to_string());
        self.lines.push('\n');
    }
}

/// The line of a message; none where the reader added it.
pub fn write(message: &Message) -> Option<Value> {
    let Ok(Value::Object(message)) = serde_json::to_value(message) else { return None };
    let imported = message.get("details").map(|details| details["imported"].clone());
    let mut line = seed_line(&message);
    match imported {
        Some(Value::Object(imported)) => {
            for (key, value) in imported {
                match value {
                    Value::Null => drop(line.remove(&key)),
                    value => drop(line.insert(key, value)),
                }
            }
        }
        Some(word) if word == ADDED => return None,
        _ => {}
    }
    Some(Value::Object(line))
}

/// What of a message has its own place in such a line.
fn seed_line(message: &Line) -> Line {
    let mut line = Line::new();
    let time = message.get("timestamp").and_then(Value::as_i64).unwrap_or_default();
    let time = if time % 1000 == 0 { json!(time / 1000) } else { json!(time as f64 / 1000.0) };
    line.insert("timestamp".to_owned(), time);
    for key in ["role", "content", "meta"].into_iter().chain(KEPT) {
        line.extend(message.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(Value::Object(details)) = line.get_mut("details") {
        details.remove("imported");
        if details.is_empty() {
            line.remove("details");
        }
    }
    line
}

/// What was given and would not be written again as it was; null for what would be added.
fn differences(given: &Line, written: &Line) -> Line {
    let changed = given.iter().filter(|(key, value)| written.get(*key) != Some(*value));
    let changed = changed.map(|(key, value)| (key.clone(), value.clone()));
    let added = written.keys().filter(|key| !given.contains_key(*key));
    changed.chain(added.map(|key| (key.clone(), Value::Null))).collect()
}

/// A model's call, as far as it is one: what it does not say is nothing.
fn meta_of(given: &Value) -> Option<Value> {
    let given = given.as_object().filter(|given| given.contains_key("model"))?;
    let (provider, model, api) = (String::new(), String::new(), String::new());
    let (usage, stop_reason) = (Usage::default(), StopReason::EndTurn);
    let nothing = Meta { profile: None, provider, model, api, usage, stop_reason };
    let mut meta = serde_json::to_value(nothing).ok()?;
    let known = meta.as_object_mut()?;
    known.extend(given.get("profile").map(|profile| ("profile".to_owned(), profile.clone())));
    for (key, value) in known.iter_mut() {
        match (given.get(key), value) {
            (Some(Value::Object(given)), Value::Object(inner)) => {
                for (key, value) in inner.iter_mut() {
                    *value = given.get(key).cloned().unwrap_or_else(|| value.take());
                }
            }
            (Some(given), value) => *value = given.clone(),
            (None, _) => {}
        }
    }
    serde_json::from_value::<Meta>(meta.clone()).is_ok().then_some(meta)
}

fn tag() -> Value {
    history_tag().into()
}
