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
    json!({"type": "response.created", "response": {"model": "m-1", "usage": null}})
}

fn added(index: u64, kind: &str) -> Value {
    let item = json!({"type": kind});
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": text})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn message(index: u64, text: &str) -> [Value; 3] {
    let part = json!({"type": "output_text", "text": text});
    [
        added(index, "message"),
        delta("output_text", index, text),
        done(index, json!({"type": "message", "content": [part]})),
    ]
}

fn function(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "read",
        "arguments": arguments, "status": "completed"})
}

fn call(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![added(index, "function_call")];
    events.extend(pieces.iter().map(|piece| delta("function_call_arguments", index, piece)));
    events.push(done(index, function(id, &pieces.concat())));
    events
}

fn reasoning(index: u64, parts: &[&str], sealed: Option<&str>) -> (Vec<Value>, String) {
    let mut events = vec![added(index, "reasoning")];
    for (at, part) in parts.iter().enumerate() {
        let mut piece = delta("reasoning_summary_text", index, part);
        piece["summary_index"] = json!(at);
        events.push(piece);
    }
    let part = |text: &&str| json!({"type": "summary_text", "text": text});
    let summary: Vec<Value> = parts.iter().map(part).collect();
    let item = json!({"type": "reasoning", "id": format!("rs_{index}"), "summary": summary,
        "encrypted_content": sealed, "status": null});
    events.push(done(index, item.clone()));
    (events, item.to_string())
}

fn completed() -> Value {
    let usage = json!({"input_tokens": 60, "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}});
    json!({"type": "response.completed", "response": {"model": "m-1", "usage": usage}})
}

fn incomplete(reason: &str) -> Value {
    let details = json!({"reason": reason});
    let response = json!({"model": "m-1", "incomplete_details": details, "usage": null});
    json!({"type": "response.incomplete", "response": response})
}

fn end(stop_reason: StopReason, usage: Usage) -> ModelEvent {
    ModelEvent::End(Meta {
        profile: None,
        provider: "openai-responses".to_owned(),
        model: "m-1".to_owned(),
        api: "openai-responses".to_owned(),
        usage,
        stop_reason,
    })
}

fn told(id: &str, arguments: Value) -> ModelEvent {
    ModelEvent::ToolCall { id: CallId::new(id), name: "read".to_owned(), arguments }
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn thinking(text: &str) -> ModelEvent {
    ModelEvent::Thinking(text.to_owned())
}

#[test]
fn a_whole_answer_in_its_order_with_exact_usage() {
    let (shown, shown_item) = reasoning(0, &["one", "two"], Some("sealed"));
    let (hidden, hidden_item) = reasoning(1, &[], Some("secret"));
    let (unsealed, _) = reasoning(2, &["lost"], None);
    let mut events = vec![start(), json!({"type": "response.in_progress", "response": {}})];
    events.extend([shown, hidden, unsealed].concat());
    events.extend(message(3, "I look"));
    events.push(json!({"type": "keepalive", "sequence_number": 9}));
    events.push(json!({"type": "response.something.new", "delta": {"x": 1}}));
    events.extend(call(4, "a", &["{\"file", "_path\": \"ä\"}"]));
    events.extend(call(5, "b", &[]));
    events.push(completed());
    let expected = vec![
        thinking("one"),
        thinking("\n\n"),
        thinking("two"),
        ModelEvent::Signature(shown_item),
        ModelEvent::RedactedThinking(hidden_item),
        thinking("lost"),
        text("I look"),
        told("a", json!({"file_path": "ä"})),
        told("b", json!({})),
        end(StopReason::ToolUse, Usage::new(10, 7, 30, 20)),
    ];
    assert_eq!(decode(&events), (expected, None));
}

/// Some compatible servers send no pieces, only what is done.
#[test]
fn items_without_pieces_are_told_whole() {
    let part = json!({"type": "output_text", "text": "hello"});
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    let thought = json!({"type": "reasoning", "id": "rs_0", "summary": summary,
        "encrypted_content": "sealed"});
    let events = [
        start(),
        added(0, "reasoning"),
        done(0, thought.clone()),
        added(1, "message"),
        done(1, json!({"type": "message", "content": [part]})),
        added(2, "function_call"),
        done(2, function("a", "{}")),
        completed(),
    ];
    let expected = vec![
        thinking("hm"),
        ModelEvent::Signature(thought.to_string()),
        text("hello"),
        told("a", json!({})),
        end(StopReason::ToolUse, Usage::new(10, 7, 30, 20)),
    ];
    assert_eq!(decode(&events), (expected, None));
}

#[test]
fn every_end_has_its_reason() {
    let refusal = vec![
        added(0, "message"),
        delta("refusal", 0, "no"),
        done(0, json!({"type": "message", "content": []})),
    ];
    let table = [
        (message(0, "a").to_vec(), completed(), StopReason::EndTurn),
        (call(0, "a", &["{}"]), completed(), StopReason::ToolUse),
        (refusal, completed(), StopReason::Refusal),
        (message(0, "a").to_vec(), incomplete("max_output_tokens"), StopReason::MaxTokens),
        (message(0, "a").to_vec(), incomplete("content_filter"), StopReason::Refusal),
        (message(0, "a").to_vec(), incomplete("something_new"), StopReason::Other),
        // The limit fell inside an item.
        (message(0, "a")[..2].to_vec(), incomplete("max_output_tokens"), StopReason::MaxTokens),
    ];
    for (items, last, expected) in table {
        let (events, failure) = decode(&[vec![start()], items, vec![last]].concat());
        assert_eq!(failure, None);
        let Some(ModelEvent::End(meta)) = events.last() else { panic!("{events:?}") };
        assert_eq!(meta.stop_reason, expected);
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_left_out_even_when_it_parses() {
    for arguments in ["{\"file", "{}"] {
        let mut item = function("a", arguments);
        item["status"] = json!("incomplete");
        let events = [
            start(),
            added(0, "function_call"),
            delta("function_call_arguments", 0, arguments),
            done(0, item),
            incomplete("max_output_tokens"),
        ];
        let expected = vec![end(StopReason::MaxTokens, Usage::new(0, 0, 0, 0))];
        assert_eq!(decode(&events), (expected, None));
    }
}

#[test]
fn what_makes_no_sense_is_passing_and_gives_no_call() {
    let open = |kind| vec![start(), added(0, kind)];
    let with = |mut events: Vec<Value>, more: Vec<Value>| {
        events.extend(more);
        events
    };
    let other =
        vec![delta("function_call_arguments", 0, "{}"), done(0, function("a", "{\"x\":1}"))];
    let nameless = json!({"type": "function_call", "call_id": "a", "name": "", "arguments": "{}"});
    let table = [
        ("no start", vec![completed()]),
        ("item before the start", vec![added(0, "message")]),
        ("second start", vec![start(), start()]),
        ("item in an item", with(open("message"), vec![added(0, "message")])),
        ("end in an item", with(open("message"), vec![completed()])),
        ("no item", with(open("message"), vec![done(0, Value::Null)])),
        ("nameless", with(open("function_call"), vec![done(0, nameless)])),
        ("other arguments", with(open("function_call"), other)),
        ("no answer", vec![start(), json!({"type": "response.completed"})]),
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
fn errors_end_the_answer_in_all_their_shapes() {
    let failed = |code: &str, message: &str| {
        let error = json!({"code": code, "message": message});
        json!({"type": "response.failed", "response": {"model": "m", "error": error}})
    };
    let table = [
        (failed("server_error", "x"), "the model vendor failed in the middle of its answer: x"),
        (failed("rate_limit_exceeded", "x"), "the model vendor limits the rate of requests: x"),
        (failed("context_length_exceeded", "x"), "the conversation is too long for the model"),
        (failed("invalid_prompt", "bad"), "the model vendor rejected the request: bad"),
        (
            json!({"type": "error", "code": "invalid_api_key", "message": "x", "param": null}),
            "the model vendor refused the key (401); check the profile's key",
        ),
        (
            json!({"type": "error", "error": {"code": "server_is_overloaded"}}),
            "the model vendor is overloaded",
        ),
        (json!({"type": "error"}), "the model vendor failed in the middle of its answer"),
    ];
    for (event, expected) in table {
        let (decoded, error) = decode(&[start(), event.clone()]);
        assert_eq!(decoded, []);
        assert_eq!(error.unwrap().to_string(), expected, "{event}");
    }
}
