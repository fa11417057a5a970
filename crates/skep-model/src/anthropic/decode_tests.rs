#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use skep_core::ids::CallId;
use skep_core::message::Meta;

use super::*;

/// Feeds events; the result is what was decoded, and the error that ended it.
fn decode(events: &[Value]) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = Decoder::default();
    let mut decoded = Vec::new();
    for event in events {
        let event = SseEvent { name: String::new(), data: event.to_string() };
        if let Err(error) = decoder.read(&event, &mut decoded) {
            return (decoded, Some(error.told("", String::new)));
        }
    }
    if matches!(decoded.last(), Some(ModelEvent::End(_))) {
        return (decoded, None);
    }
    let failure = decoder.close(Last::Byte, &mut decoded).err();
    (decoded, failure)
}

fn start() -> Value {
    let usage = json!({
        "input_tokens": 10, "output_tokens": 1,
        "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30,
    });
    json!({"type": "message_start", "message": {"model": "m-1", "usage": usage}})
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn tool(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![open(index, json!({"type": "tool_use", "id": id, "name": "read"}))];
    for piece in pieces {
        events.push(delta(index, json!({"type": "input_json_delta", "partial_json": piece})));
    }
    events.push(close(index));
    events
}

fn end(reason: &str) -> [Value; 2] {
    let usage = json!({"output_tokens": 7});
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

fn meta(stop_reason: StopReason) -> ModelEvent {
    ModelEvent::End(Meta {
        profile: None,
        provider: "anthropic".to_owned(),
        model: "m-1".to_owned(),
        api: "anthropic-messages".to_owned(),
        usage: Usage::new(10, 7, 30, 20),
        stop_reason,
    })
}

fn call(id: &str, arguments: Value) -> ModelEvent {
    ModelEvent::ToolCall { id: CallId::new(id), name: "read".to_owned(), arguments }
}

#[test]
fn a_whole_answer_in_its_order_with_exact_usage() {
    let mut events = vec![
        start(),
        json!({"type": "ping"}),
        open(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "si"})),
        delta(0, json!({"type": "signature_delta", "signature": "gn"})),
        close(0),
        open(1, json!({"type": "redacted_thinking", "data": "xyz"})),
        close(1),
        open(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "I "})),
        json!({"type": "something_new", "x": 1}),
        delta(2, json!({"type": "citations_delta", "citation": {}})),
        delta(2, json!({"type": "text_delta", "text": "look"})),
        close(2),
    ];
    events.extend(tool(3, "a", &["{\"file", "_path\": \"ä\"}"]));
    events.extend(tool(4, "b", &[]));
    events.extend(tool(5, "c", &["", "{}"]));
    events.extend(end("tool_use"));
    let expected = vec![
        ModelEvent::Thinking("hm".to_owned()),
        ModelEvent::Signature("sign".to_owned()),
        ModelEvent::RedactedThinking("xyz".to_owned()),
        ModelEvent::Text("I ".to_owned()),
        ModelEvent::Text("look".to_owned()),
        call("a", json!({"file_path": "ä"})),
        call("b", json!({})),
        call("c", json!({})),
        meta(StopReason::ToolUse),
    ];
    assert_eq!(decode(&events), (expected, None));
}

#[test]
fn a_call_cut_by_the_output_limit_is_left_out() {
    let mut events = vec![start()];
    events.extend(tool(0, "a", &["{\"file_path\": \"x"]));
    events.extend(end("max_tokens"));
    assert_eq!(decode(&events), (vec![meta(StopReason::MaxTokens)], None));
}

#[test]
fn what_makes_no_sense_is_passing_and_gives_no_call() {
    let half = tool(0, "a", &["{\"file_path\": \"x"]);
    let table: Vec<(&str, Vec<Value>)> = vec![
        ("no start", vec![close(0)]),
        ("second start", vec![start(), start()]),
        ("stray end", vec![start(), close(0)]),
        ("wrong index", [vec![start()], half[..1].to_vec(), vec![close(1)]].concat()),
        (
            "wrong kind",
            vec![
                start(),
                open(0, json!({"type": "text", "text": ""})),
                delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
            ],
        ),
        ("nested", vec![start(), half[0].clone(), half[0].clone()]),
        ("nameless", vec![start(), open(0, json!({"type": "tool_use", "id": "x", "name": ""}))]),
        ("end in a block", [vec![start(), half[0].clone()], end("tool_use").to_vec()].concat()),
        ("no reason", vec![start(), json!({"type": "message_stop"})]),
        ("no type", vec![json!({"x": 1})]),
        ("no object", vec![json!("x")]),
    ];
    for (name, events) in table {
        let (decoded, error) = decode(&events);
        assert!(matches!(error, Some(ModelError::Passing { .. })), "{name}: {error:?}");
        assert_eq!(decoded, [], "{name}");
    }
}

#[test]
fn an_error_event_ends_the_answer() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}});
    let (decoded, error) = decode(&[start(), error]);
    assert_eq!(decoded, []);
    assert_eq!(error.unwrap().to_string(), "the model vendor is overloaded: x");
}
