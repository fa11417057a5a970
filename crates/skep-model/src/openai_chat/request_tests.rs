#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use skep_core::message::Role;

use super::*;
use crate::rows::{
    assert_prefixes, assistant, call, request, result, row, thinking, twenty_turns, user,
};

const LOCAL: Dialect =
    Dialect { limit: "max_tokens", cache_key: false, counts: true, thinking_goes_back: false };

#[test]
fn the_whole_body_with_its_key_order() {
    let body = render(&request(vec![user("ping")]), LOCAL).to_string();
    let schema = r#"{"type":"object","properties":{"z":{},"a":{}}}"#;
    let expected = format!(
        concat!(
            r#"{{"model":"model","max_tokens":100,"stream":true,"#,
            r#""stream_options":{{"include_usage":true}},"temperature":0.5,"tools":["#,
            r#"{{"type":"function","function":{{"name":"glob","description":"does glob","#,
            r#""parameters":{schema}}}}},"#,
            r#"{{"type":"function","function":{{"name":"read","description":"does read","#,
            r#""parameters":{schema}}}}}],"#,
            r#""messages":[{{"role":"system","content":"shared\n\nagent"}},"#,
            r#"{{"role":"user","content":"ping"}}]}}"#,
        ),
        schema = schema,
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
        assistant(VENDOR, vec![thinking("only", None)]),
    ];
    let body = render(&request(rows), LOCAL);
    let call = |id: &str| {
        let function = json!({"name": "read", "arguments": "{\"z\":1,\"a\":2}"});
        json!({"id": id, "type": "function", "function": function})
    };
    let tool = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let expected = json!([
        {"role": "system", "content": "shared\n\nagent"},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "I look.",
         "tool_calls": [call("one"), call("two"), call("three")]},
        tool("one", "Error: no"),
        tool("two", "Error: no result was recorded for this call"),
        tool("three", "3"),
        {"role": "user", "content": "It is noon.\n\nand this"},
        {"role": "user", "content": "(empty message)"},
        {"role": "assistant", "content": null, "tool_calls": [call("one")]},
        tool("one", ""),
    ]);
    assert_eq!(body["messages"], expected);
}

#[test]
fn a_budget_becomes_an_effort_and_takes_the_place_of_the_temperature() {
    let table =
        [(1024, "low"), (4095, "low"), (4096, "medium"), (16383, "medium"), (16384, "high")];
    for (budget, effort) in table {
        let request = ModelRequest { thinking: Some(budget), ..request(vec![user("a")]) };
        let body = render(&request, LOCAL);
        assert_eq!(body["reasoning_effort"], effort, "{budget}");
        assert_eq!(body.get("temperature"), None);
    }
}

#[test]
fn servers_are_spoken_to_in_their_dialect() {
    let table = [
        ("https://api.openai.com/v1", "max_completion_tokens", false),
        ("https://eu.api.openai.com/v1", "max_completion_tokens", false),
        ("https://name.openai.azure.com/openai/v1", "max_completion_tokens", false),
        ("http://127.0.0.1:11434/v1", "max_tokens", false),
        ("https://notopenai.com/v1", "max_tokens", false),
        ("https://api.deepseek.com/v1", "max_tokens", true),
        ("https://api.moonshot.ai/v1", "max_tokens", true),
        ("https://example.test/api.deepseek.com", "max_tokens", false),
    ];
    for (base, limit, thinking_goes_back) in table {
        let cache_key = limit == "max_completion_tokens";
        let expected = Dialect { limit, cache_key, counts: true, thinking_goes_back };
        assert_eq!(Dialect::of(base), expected, "{base}");
    }
}

/// Such a server wants the field on every message and takes an empty one.
#[test]
fn thinking_goes_back_only_where_it_must() {
    let rows = vec![
        user("a"),
        assistant(VENDOR, vec![thinking("hm", None), Block::text("b")]),
        assistant("anthropic", vec![thinking("theirs", Some("sign")), Block::text("c")]),
        user("d"),
    ];
    let body = render(&request(rows.clone()), LOCAL).to_string();
    assert!(!body.contains("reasoning_content"), "{body}");
    let dialect = Dialect { thinking_goes_back: true, ..LOCAL };
    let messages = render(&request(rows), dialect)["messages"].clone();
    assert_eq!(messages[2]["reasoning_content"], "hm");
    assert_eq!(messages[3]["reasoning_content"], "");
}

#[test]
fn every_request_begins_with_all_of_the_one_before() {
    for thinking_goes_back in [false, true] {
        let mut bodies = Vec::new();
        let dialect = Dialect { thinking_goes_back, ..LOCAL };
        twenty_turns(VENDOR, |rows| {
            bodies.push(render(&request(rows.to_vec()), dialect).to_string());
        });
        assert_prefixes(&bodies);
    }
}
