#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::ids::{AgentName, CallId, ItemId, MessageId, SessionId, TurnId};
use skep_core::message::{Block, Body, Message, Origin, Role};
use skep_core::provider::{ModelRequest, SystemPrompt, ToolSpec};

use super::render;

fn row(body: Body) -> Arc<Message> {
    Arc::new(Message {
        tag: "history".to_owned(),
        id: "id".to_owned(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new("turn"),
        seq: 1,
        timestamp: 1,
        body,
    })
}

fn user(text: &str) -> Arc<Message> {
    let origin = Origin {
        item: ItemId::new("item"),
        message_id: MessageId::new("message"),
        channel: "ws".to_owned(),
        principal: "operator".to_owned(),
    };
    row(Body::user(text, origin))
}

fn assistant(content: Vec<Block>) -> Arc<Message> {
    row(Body::assistant(content, None))
}

fn call(id: &str) -> Block {
    let arguments = json!({"z": 1, "a": 2});
    Block::ToolCall { id: CallId::new(id), name: "read".to_owned(), arguments }
}

fn result(id: &str, text: &str, is_error: bool) -> Arc<Message> {
    row(Body::tool_result(CallId::new(id), "read", text.to_owned(), is_error))
}

fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        input_schema: json!({"type": "object", "properties": {"z": {}, "a": {}}}),
        retry_safe: true,
    };
    ModelRequest {
        model: "model".to_owned(),
        system: SystemPrompt { shared: "shared".into(), agent: "agent".into() },
        tools: vec![tool("glob"), tool("read")].into(),
        messages,
        max_output_tokens: 100,
        thinking: None,
        temperature: Some(0.5),
    }
}

fn thinking(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking { thinking: text.to_owned(), signature: signature.map(str::to_owned) }
}

#[test]
fn the_whole_body_with_its_key_order_and_four_breakpoints() {
    let body = render(&request(vec![user("ping")])).to_string();
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
        assistant(vec![Block::text("I look."), call("one"), call("two"), call("three")]),
        result("three", "3", false),
        result("one", "no", true),
        Arc::new(shown),
        user("  "),
        row(Body { role: Role::System, ..user("a note").body.clone() }),
        assistant(vec![call("one")]),
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
        assistant(vec![
            thinking("hm", Some("sign")),
            Block::RedactedThinking { data: "xyz".to_owned() },
            thinking("unsigned", None),
            Block::text(" \n"),
            thinking("", Some("alone")),
            Block::text("b"),
        ]),
        user("c"),
        assistant(vec![thinking("unsigned", None)]),
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
fn every_request_begins_with_all_of_the_one_before() {
    let mut rows = Vec::new();
    let mut before: Option<String> = None;
    for turn in 0..20 {
        rows.push(user(&format!("question {turn}")));
        for step in 0..2 {
            let body = without_marks(&render(&request(rows.clone()))).to_string();
            if let Some(before) = &before {
                assert!(body.starts_with(before.as_str()), "{before}\n{body}");
            }
            // Without the two brackets that close the list and the body.
            before = Some(body[..body.len() - 2].to_owned());
            let (one, two) = (format!("{turn}-{step}-1"), format!("{turn}-{step}-2"));
            if step == 0 {
                rows.push(assistant(vec![thinking("hm", Some("s")), call(&one), call(&two)]));
                rows.push(result(&two, "second", false));
                rows.push(result(&one, "first", true));
            } else {
                rows.push(assistant(vec![Block::text("answer")]));
            }
        }
    }
}
