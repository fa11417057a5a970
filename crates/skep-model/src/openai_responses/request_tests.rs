#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use super::*;
use crate::rows::{
    assert_prefixes, assistant, call, request, result, thinking, twenty_turns, user,
};

const SHOWN: &str = concat!(
    r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"#,
    r#""encrypted_content":"sealed","status":null}"#
);
const HIDDEN: &str = r#"{"type":"reasoning","summary":[],"encrypted_content":"x","id":"rs_2"}"#;

fn hidden() -> Block {
    Block::RedactedThinking { data: HIDDEN.to_owned() }
}

#[test]
fn the_whole_body_with_its_key_order() {
    let body = render(&request(vec![user("ping")])).to_string();
    let schema = r#"{"type":"object","properties":{"z":{},"a":{}}}"#;
    let expected = format!(
        concat!(
            r#"{{"model":"model","max_output_tokens":100,"stream":true,"store":false,"#,
            r#""prompt_cache_key":"session","#,
            r#""temperature":0.5,"tools":["#,
            r#"{{"type":"function","name":"glob","description":"does glob","#,
            r#""parameters":{schema},"strict":false}},"#,
            r#"{{"type":"function","name":"read","description":"does read","#,
            r#""parameters":{schema},"strict":false}}],"#,
            r#""instructions":"shared\n\nagent","#,
            r#""input":[{{"type":"message","role":"user","content":["#,
            r#"{{"type":"input_text","text":"ping"}}]}}]}}"#,
        ),
        schema = schema,
    );
    assert_eq!(body, expected);
}

#[test]
fn thinking_asks_for_what_lets_it_go_back() {
    let request =
        ModelRequest { thinking: Some(8192), max_output_tokens: 1, ..request(vec![user("a")]) };
    let body = render(&request);
    assert_eq!(body["reasoning"], json!({"effort": "medium", "summary": "auto"}));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body.get("temperature"), None);
    assert_eq!(body["max_output_tokens"], 16);
}

#[test]
fn items_keep_their_order_and_results_follow_all_calls() {
    let mut shown = (*user("and this")).clone();
    shown.body.shown = Some("It is noon.".to_owned());
    let content = vec![
        thinking("hm", Some(SHOWN)),
        Block::text("I look."),
        hidden(),
        thinking("lost", None),
        Block::text(" \n"),
        call("one"),
        call("two"),
    ];
    let rows = vec![
        user("look"),
        assistant(VENDOR, content),
        result("two", "2", true),
        result("one", "1", false),
        Arc::new(shown),
    ];
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let call = |id: &str| {
        json!({"type": "function_call", "call_id": id, "name": "read",
            "arguments": "{\"z\":1,\"a\":2}"})
    };
    let output = |id: &str, text: &str| {
        let kind = "function_call_output";
        json!({"type": kind, "call_id": id, "output": text})
    };
    let said = json!([{"type": "output_text", "text": "I look."}]);
    let expected = json!([
        {"type": "message", "role": "user", "content": [text("look")]},
        serde_json::from_str::<Value>(SHOWN).unwrap(),
        {"type": "message", "role": "assistant", "content": said},
        serde_json::from_str::<Value>(HIDDEN).unwrap(),
        call("one"),
        call("two"),
        output("one", "1"),
        output("two", "Error: 2"),
        {"type": "message", "role": "user", "content": [text("It is noon."), text("and this")]},
    ]);
    let body = render(&request(rows)).to_string();
    let input: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(input["input"], expected);
    // Word for word, the order of the fields too.
    assert!(body.contains(SHOWN) && body.contains(HIDDEN), "{body}");
}

#[test]
fn thinking_without_a_follower_or_of_another_vendor_stays_away() {
    let rows = vec![
        user("a"),
        assistant(VENDOR, vec![Block::text("b"), thinking("hm", Some(SHOWN)), hidden()]),
        assistant(VENDOR, vec![hidden()]),
        assistant("anthropic", vec![thinking("hm", Some("sign")), hidden(), Block::text("c")]),
        assistant(VENDOR, vec![thinking("hm", Some("no item")), Block::text("d")]),
    ];
    let body = render(&request(rows));
    let items = body["input"].as_array().unwrap();
    assert_eq!(items.len(), 4);
    assert!(items.iter().all(|item| item["type"] == "message"), "{items:?}");
}

#[test]
fn every_request_begins_with_all_of_the_one_before() {
    let mut bodies = Vec::new();
    twenty_turns(VENDOR, |rows| bodies.push(render(&request(rows.to_vec())).to_string()));
    assert_prefixes(&bodies);
}
