#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::message::{Block, Body, Role};
use skep_core::provider::ModelRequest;

use super::VENDOR;
use crate::rows::{
    assert_prefixes, assistant, call, request, result, row, thinking, twenty_turns, user,
};

fn render(request: &ModelRequest) -> Value {
    serde_json::from_str(&super::render(request)).unwrap()
}

#[test]
fn the_whole_body_with_its_key_order_and_four_breakpoints() {
    let body = super::render(&request(vec![user("ping")]));
    let schema = r#"{"type":"object","properties":{"z":{},"a":{}}}"#;
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let expected = format!(
        concat!(
            r#"{{"model":"model","max_tokens":100,"stream":true,"temperature":0.5,"#,
            r#""tools":[{{"name":"glob","description":"does glob","input_schema":{schema}}},"#,
            r#"{{"name":"read","description":"does read","input_schema":{schema},{mark}}}],"#,
            r#""system":[{{"type":"text","text":"shared",{mark}}},"#,
            r#"{{"type":"text","text":"agent",{mark}}}],"#,
            r#""messages":[{{"role":"user","content":["#,
            r#"{{"type":"text","text":"ping",{mark}}}]}}]}}"#,
        ),
        schema = schema,
        mark = mark,
    );
    assert_eq!(body, expected);
}

#[test]
fn results_follow_their_calls_in_order_and_users_stay_apart() {
    let mut shown = (*user("and this")).clone();
    shown.body.shown = Some("It is noon.".to_owned());
    let rows = vec![
        user("look"),
        assistant(VENDOR, vec![Block::text("I look."), call("one"), call("two"), call("three")]),
        result("three", "3", false),
        result("one", "no", true),
        Arc::new(shown),
        user("  "),
        row(Body { role: Role::System, ..user("a note").body.clone() }),
        assistant(VENDOR, vec![call("one")]),
        result("one", "", false),
        result("stray", "?", false),
    ];
    let body = render(&request(rows));
    let tool_use =
        |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {"z": 1, "a": 2}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": [text("look")]},
        {"role": "assistant", "content": [
            text("I look."), tool_use("one"), tool_use("two"), tool_use("three"),
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "one", "content": [text("no")],
             "is_error": true},
            {"type": "tool_result", "tool_use_id": "two",
             "content": [text("no result was recorded for this call")], "is_error": true},
            {"type": "tool_result", "tool_use_id": "three", "content": [text("3")]},
        ]},
        {"role": "user", "content": [text("It is noon."), text("and this")]},
        {"role": "user", "content": [text("(empty message)")]},
        {"role": "assistant", "content": [tool_use("one")]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "one", "cache_control": {"type": "ephemeral"}},
        ]},
    ]);
    assert_eq!(body["messages"], expected);
}

#[test]
fn only_signed_thinking_and_visible_text_go_back() {
    let rows = vec![
        user("a"),
        assistant(
            VENDOR,
            vec![
                thinking("hm", Some("sign")),
                Block::RedactedThinking { data: "xyz".to_owned() },
                thinking("unsigned", None),
                Block::text(" \n"),
                thinking("", Some("alone")),
                Block::text("b"),
            ],
        ),
        user("c"),
        assistant(VENDOR, vec![thinking("unsigned", None)]),
        user("d"),
    ];
    let mut request = request(rows);
    request.thinking = Some(2048);
    let body = render(&request);
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sign"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "", "signature": "alone"},
        {"type": "text", "text": "b"},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(body["messages"].as_array().unwrap().len(), 4);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 2048}));
    assert_eq!(body.get("temperature"), None);
}

#[test]
fn a_turn_that_another_vendor_began_goes_on_without_thinking() {
    let own = || assistant(VENDOR, vec![thinking("hm", Some("s")), call("a")]);
    let theirs = || assistant("openai", vec![thinking("hm", Some("s")), call("a")]);
    let bare = || assistant(VENDOR, vec![call("b")]);
    let (a, b) = (|| result("a", "x", false), || result("b", "x", false));
    let table = [
        (vec![user("q")], true),
        (vec![user("q"), own(), a()], true),
        (vec![user("q"), own(), a(), bare(), b()], true),
        (vec![user("q"), theirs(), a()], false),
        (vec![user("q"), theirs(), a(), bare(), b()], false),
        (vec![user("q"), theirs(), a(), user("r")], true),
    ];
    for (rows, thinks) in table {
        let mut request = request(rows);
        request.thinking = Some(2048);
        let body = render(&request);
        assert_eq!(body.get("thinking").is_some(), thinks, "{body}");
        assert_eq!(body.get("temperature"), None);
    }
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_marks).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(kept.map(|(name, value)| (name.clone(), without_marks(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn what_another_vendor_signed_stays_away_and_its_odd_ids_are_replaced() {
    let content = vec![
        thinking("hm", Some("sign")),
        Block::RedactedThinking { data: "xyz".to_owned() },
        call("functions.read:0"),
    ];
    let rows =
        vec![user("a"), assistant("openai", content), result("functions.read:0", "x", false)];
    let messages = render(&request(rows))["messages"].clone();
    let calls = messages[1]["content"].as_array().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["id"], messages[2]["content"][0]["tool_use_id"]);
    assert_eq!(calls[0]["id"], "call_5b4c7fc9f36ea68e");
}

#[test]
fn every_request_begins_with_all_of_the_one_before() {
    let mut bodies = Vec::new();
    twenty_turns(VENDOR, |rows| {
        bodies.push(without_marks(&render(&request(rows.to_vec()))).to_string());
    });
    assert_prefixes(&bodies);
}

/// These refuse a budget and a temperature on every request.
#[test]
fn models_that_think_as_they_like_are_told_an_effort() {
    let table = [
        ("claude-sonnet-5-5", Some(2048), Some("low"), None),
        ("claude-opus-4-7-20260416", Some(24_576), Some("high"), None),
        ("claude-opus-5", None, None, None),
        ("claude-sonnet-4-5", Some(2048), None, Some(2048)),
    ];
    for (model, thinking, effort, budget) in table {
        let asked = request(vec![user("a")]);
        let body = render(&ModelRequest { model: model.to_owned(), thinking, ..asked });
        assert_eq!(body["output_config"]["effort"].as_str(), effort, "{model}");
        assert_eq!(body["thinking"]["budget_tokens"].as_u64(), budget, "{model}");
        assert_eq!(body.get("temperature"), None, "{model}");
        let kind = thinking.map(|_| if effort.is_some() { "adaptive" } else { "enabled" });
        assert_eq!(body["thinking"]["type"].as_str(), kind, "{model}");
    }
}
