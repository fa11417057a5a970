//! What servers send that is not their wire, as rows of data: `deviations/README.md` has the
//! notation. A mistake in them fails the test that reads them.
#![allow(clippy::panic)]

use serde_json::{Value, json};

use crate::model::{Reply, Wire};

#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub outcome: String,
    body: Vec<u8>,
    content_type: String,
    cut: bool,
}

impl Row {
    /// The answer of a server that does this.
    pub fn reply(&self) -> Reply {
        let reply = Reply::bare(&self.content_type).raw(self.body.clone());
        if self.cut { reply.cut() } else { reply }
    }
}

/// All rows of a wire.
pub fn rows(wire: Wire) -> Vec<Row> {
    let table = match wire {
        Wire::Anthropic => include_str!("../deviations/anthropic.txt"),
        Wire::OpenAiChat => include_str!("../deviations/openai_chat.txt"),
        Wire::OpenAiResponses => include_str!("../deviations/openai_responses.txt"),
    };
    let rows = table.split("## ").map(str::trim_end).filter(|row| !row.is_empty());
    rows.map(|text| row(wire, text)).collect()
}

/// The row with this name; a wrong name fails the test that asks for it.
pub fn find(wire: Wire, name: &str) -> Row {
    let found = rows(wire).into_iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no deviation {name:?}"))
}

fn row(wire: Wire, text: &str) -> Row {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (lines, outcome) = rest.rsplit_once("=> ").unwrap_or((rest, ""));
    let mut name = head;
    let mut flags = Vec::new();
    // Flags stand at the end; a name may hold brackets of its own.
    while let Some((before, flag)) = name.strip_suffix(']').and_then(|it| it.rsplit_once(" [")) {
        if !["cut", "crlf", "bom"].contains(&flag) && !flag.starts_with("type=") {
            break;
        }
        flags.push(flag);
        name = before;
    }
    let mut body: String = lines.lines().map(|line| written(wire, line)).collect();
    if flags.contains(&"crlf") {
        body = body.replace('\n', "\r\n");
    }
    if flags.contains(&"bom") {
        body.insert(0, '\u{feff}');
    }
    let content_type = flags.iter().find_map(|flag| flag.strip_prefix("type="));
    Row {
        name: name.to_owned(),
        outcome: outcome.trim().to_owned(),
        body: body.into_bytes(),
        content_type: content_type.unwrap_or("text/event-stream").to_owned(),
        cut: flags.contains(&"cut"),
    }
}

fn written(wire: Wire, line: &str) -> String {
    match (line.strip_prefix('|'), line.starts_with("data: ")) {
        (Some(bytes), _) => match bytes.strip_suffix('\\') {
            Some(bytes) => bytes.to_owned(),
            None => format!("{bytes}\n"),
        },
        (None, true) => format!("{line}\n\n"),
        (None, false) => format!("data: {}\n\n", expand(wire, line)),
    }
}

/// An event from its short hand: a letter and what differs.
fn expand(wire: Wire, line: &str) -> String {
    let mut words = line.splitn(2, ' ');
    let (letter, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let index: u64 = number.parse().unwrap_or_default();
    let object = || -> Value { serde_json::from_str(text).unwrap_or_else(|_| panic!("{line}")) };
    let event = match (wire, letter) {
        (Wire::OpenAiChat, _) => return chunk(letter, rest, index, text),
        (Wire::Anthropic, "S") => json!({"type": "message_start",
            "message": {"model": "m", "content": [], "usage": {"input_tokens": 5}}}),
        (Wire::Anthropic, "b") => json!({"type": "content_block_start", "index": index,
            "content_block": object()}),
        (Wire::Anthropic, "t") => json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": text}}),
        (Wire::Anthropic, "j") => json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "input_json_delta", "partial_json": text}}),
        (Wire::Anthropic, "x") => json!({"type": "content_block_stop", "index": index}),
        (Wire::Anthropic, "r") => json!({"type": "message_delta", "delta": {"stop_reason": number},
            "usage": {"output_tokens": text.parse::<u64>().unwrap_or_default()}}),
        (Wire::Anthropic, "E") => json!({"type": "message_stop"}),
        (Wire::OpenAiResponses, "C") => {
            json!({"type": "response.created", "response": {"model": "m", "usage": null}})
        }
        (Wire::OpenAiResponses, "a") => json!({"type": "response.output_item.added",
            "output_index": index, "item": object()}),
        (Wire::OpenAiResponses, "o") => json!({"type": "response.output_item.done",
            "output_index": index, "item": object()}),
        (Wire::OpenAiResponses, "t") => json!({"type": "response.output_text.delta",
            "output_index": index, "delta": text}),
        (Wire::OpenAiResponses, "j") => json!({"type": "response.function_call_arguments.delta",
            "output_index": index, "delta": text}),
        (Wire::OpenAiResponses, "K") => json!({"type": "response.completed", "response":
            {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 2}}}),
        _ => panic!("no short hand: {line}"),
    };
    event.to_string()
}

fn chunk(letter: &str, rest: &str, index: u64, text: &str) -> String {
    let chunk = |delta: &Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": "c", "model": "m", "choices": [choice]}).to_string()
    };
    let call = |call: Value| chunk(&json!({"tool_calls": [call]}), None);
    match letter {
        "D" => "[DONE]".to_owned(),
        "d" => {
            let delta = serde_json::from_str(rest).unwrap_or_else(|_| panic!("{rest}"));
            chunk(&delta, None)
        }
        "f" => chunk(&json!({}), Some(rest)),
        "u" => {
            let output: u64 = text.parse().unwrap_or_default();
            let usage = json!({"prompt_tokens": index, "completion_tokens": output});
            json!({"choices": [], "usage": usage}).to_string()
        }
        "c" => {
            let mut words = text.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (id, name, arguments) = (word().trim_start_matches('-'), word(), word());
            let function = json!({"name": name, "arguments": arguments});
            call(json!({"index": index, "id": id, "type": "function", "function": function}))
        }
        "m" => call(json!({"index": index, "function": {"arguments": text}})),
        _ => panic!("no short hand: {letter} {rest}"),
    }
}
