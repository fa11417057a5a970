#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;

fn stream(events: &[Value]) -> String {
    let event = |data: &Value| {
        let name = data["type"].as_str().unwrap();
        format!("event: {name}\ndata: {data}\n\n")
    };
    events.iter().map(event).collect()
}

fn message() -> String {
    let usage = json!({ "input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 44,
        "cache_creation_input_tokens": 33 });
    stream(&[
        json!({ "type": "message_start",
            "message": { "id": "msg_1", "model": "m", "usage": usage } }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": "Hello you" } }),
        json!({ "type": "ping" }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 22 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn response() -> String {
    let details = json!({ "cached_tokens": 44, "cache_write_tokens": 33 });
    let usage = json!({ "input_tokens": 88, "input_tokens_details": details, "output_tokens": 22 });
    stream(&[
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.output_text.delta", "item_id": "i", "delta": "Hello you",
            "obfuscation": "xxxxxxxxxxxx" }),
        json!({ "type": "response.completed", "response": { "id": "resp_1", "model": "m",
            "status": "completed", "output": [{ "type": "function_call" }], "usage": usage } }),
    ])
}

fn meta(wire: RelayWire) -> Meta {
    let vendor = match wire {
        RelayWire::Anthropic => ("anthropic", "anthropic-messages"),
        RelayWire::Responses => ("openai-responses", "openai-responses"),
    };
    Meta {
        profile: None,
        provider: vendor.0.to_owned(),
        model: "m".to_owned(),
        api: vendor.1.to_owned(),
        usage: Usage::new(11, 22, 44, 33),
        stop_reason: StopReason::ToolUse,
    }
}

/// Reads in pieces of this many bytes; what was told, before and after the end, and heard.
fn read(wire: RelayWire, body: &str, size: usize) -> (bool, Option<(Option<String>, Meta)>, u64) {
    let mut tally = AnswerTally::new(wire);
    body.as_bytes().chunks(size).for_each(|piece| tally.read(piece));
    let early = tally.told().is_some();
    tally.finish();
    (early, tally.told(), tally.heard())
}

#[test]
fn a_stream_is_counted_however_it_is_cut() {
    for (wire, body, id) in
        [(RelayWire::Anthropic, message(), "msg_1"), (RelayWire::Responses, response(), "resp_1")]
    {
        for size in [1, 7, 4096] {
            let told = Some((Some(id.to_owned()), meta(wire)));
            let heard = count::of_text("Hello you");
            assert_eq!(read(wire, &body, size), (true, told, heard), "{wire:?} {size}");
        }
    }
}

#[test]
fn a_document_is_counted_at_its_end() {
    let message = r#" {"id":"msg_1","type":"message","model":"m","stop_reason":"tool_use",
        "usage":{"input_tokens":11,"cache_read_input_tokens":44,
        "cache_creation_input_tokens":33,"output_tokens":22}}"#;
    let response = r#"{"id":"resp_1","model":"m","status":"completed",
        "output":[{"type":"function_call"}],"usage":{"input_tokens":88,
        "input_tokens_details":{"cached_tokens":44,"cache_write_tokens":33},"output_tokens":22}}"#;
    for (wire, body, id) in
        [(RelayWire::Anthropic, message, "msg_1"), (RelayWire::Responses, response, "resp_1")]
    {
        let told = Some((Some(id.to_owned()), meta(wire)));
        assert_eq!(read(wire, body, 5), (false, told, 0));
    }
}

#[test]
fn what_breaks_off_or_makes_no_sense_tells_nothing() {
    let cut = |body: &str, before: &str| body[..body.find(before).unwrap()].to_owned();
    let table = [
        (RelayWire::Anthropic, cut(&message(), "event: message_delta")),
        (RelayWire::Responses, cut(&response(), "event: response.completed")),
        (RelayWire::Anthropic, "data: {\"type\":\"error\",\"error\":{}}\n\n".to_owned()),
        (
            RelayWire::Responses,
            response().replace("\"completed\"", "\"failed\"").replace("usage", "x"),
        ),
        (RelayWire::Anthropic, "<html>".to_owned()),
        (RelayWire::Anthropic, "{\"id\":5,\"usage\":[]".to_owned()),
        (RelayWire::Anthropic, String::new()),
        (RelayWire::Anthropic, "data: \u{0}\n\n".to_owned()),
    ];
    for (wire, body) in table {
        assert_eq!(read(wire, &body, 9).1, None, "{body}");
    }
    // The last word may be missing, the last count not.
    let whole = cut(&message(), "event: message_stop");
    assert_eq!(read(RelayWire::Anthropic, &whole, 9).1.unwrap().1, meta(RelayWire::Anthropic));
    // Counts that are no numbers are as if they were not there.
    let odd = message().replace("\"output_tokens\":22", "\"output_tokens\":\"many\"");
    assert_eq!(read(RelayWire::Anthropic, &odd, 9).1.unwrap().1.usage.output, 1);
}
