#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::{Value, json};
use skep_core::relay::RelayWire;

use super::*;
use crate::wire::rules;

fn allowed() -> RelayTools {
    RelayTools {
        names: ["Bash", "DeferredToolPlaceholder", "exec_command", "hive"].map(Into::into).into(),
        prefixes: vec!["mcp__skep__".to_owned()],
        types: ["namespace"].map(Into::into).into(),
    }
}

fn judged(wire: RelayWire, body: &str) -> Result<JudgedRequest, &'static str> {
    judge(body.as_bytes(), rules(wire), &allowed()).map_err(|refusal| refusal.code)
}

fn message(more: Value) -> String {
    let mut body = json!({ "model": "m", "max_tokens": 64, "messages": [] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

fn response(more: Value) -> String {
    let mut body = json!({ "model": "m", "input": [] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

fn said(block: Value) -> String {
    message(json!({ "messages": [{ "role": "user", "content": [block] }] }))
}

#[test]
fn what_programs_send_is_understood() {
    use RelayWire::{Anthropic, Responses};
    let plain = JudgedRequest { model: "m".to_owned(), limit: Some(64), pictures: Vec::new() };
    let table = [
        message(json!({})),
        message(json!({ "messages": "hi", "system": "be brief", "tools": null })),
        message(json!({
            "tools": [
                { "name": "Bash", "input_schema": { "type": "object", "tools": [1] } },
                { "type": "custom", "name": "mcp__skep__send", "input_schema": {} },
                { "name": "DeferredToolPlaceholder", "defer_loading": true },
            ],
            "context_management": { "edits": [{ "type": "clear_thinking_20251015" }] },
            "thinking": { "type": "adaptive" },
        })),
        said(json!({ "type": "tool_use", "id": "t", "name": "x",
            "input": { "type": "url", "tools": ["a"], "definition": 1, "file_id": "f" } })),
        said(json!({ "type": "tool_result", "tool_use_id": "t", "content": [
            { "type": "text", "text": "ok", "cache_control": { "type": "ephemeral" } }] })),
        said(json!({ "type": "tool_addition", "tool": { "type": "tool_definition",
            "definition": { "name": "Bash", "input_schema": {} } } })),
        said(json!({ "type": "tool_removal", "tool": { "type": "tool_reference", "name": "x" } })),
    ];
    for body in table {
        assert_eq!(judged(Anthropic, &body), Ok(plain.clone()), "{body}");
    }
    let plain = JudgedRequest { limit: None, ..plain };
    let exec = json!({ "type": "function", "name": "exec_command", "parameters": {} });
    let table = [
        response(json!({ "tools": [exec], "store": false, "client_metadata": { "a": "b" } })),
        response(json!({ "tools": [{ "type": "namespace", "name": "hive", "tools": [exec] }] })),
        response(json!({ "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
            { "type": "additional_tools", "tools": [exec] },
            { "type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x" },
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "s" }] },
        ] })),
    ];
    for body in table {
        assert_eq!(judged(Responses, &body), Ok(plain.clone()), "{body}");
    }
}

#[test]
fn what_leads_out_is_refused_of_anthropic() {
    use RelayWire::Anthropic;
    let search = json!({ "type": "web_search_20250305", "name": "Bash" });
    let added = |tool: &Value| {
        said(json!({ "type": "tool_addition",
            "tool": { "type": "tool_definition", "definition": tool } }))
    };
    let table = [
        (Anthropic, message(json!({ "mcp_servers": [] })), "relay_field"),
        (Anthropic, message(json!({ "container": "c" })), "relay_field"),
        (Anthropic, message(json!({ "service_tier": "auto" })), "relay_field"),
        (Anthropic, message(json!({ "tools": [search] })), "relay_tool"),
        (Anthropic, message(json!({ "tools": [{ "name": "WebFetch" }] })), "relay_tool"),
        (Anthropic, message(json!({ "tools": [{ "name": "mcp__other__x" }] })), "relay_tool"),
        (Anthropic, message(json!({ "tools": [{ "input_schema": {} }] })), "relay_tool"),
        (Anthropic, message(json!({ "tools": { "name": "Bash" } })), "relay_body"),
        (Anthropic, message(json!({ "tools": ["Bash"] })), "relay_body"),
        (Anthropic, message(json!({ "tools": [{ "type": null, "name": "Bash" }] })), "relay_body"),
        (Anthropic, added(&search), "relay_tool"),
        (Anthropic, added(&json!({ "name": "WebFetch" })), "relay_tool"),
        (
            Anthropic,
            message(json!({ "messages": [{ "role": "system", "content": [],
                "tool_changes": [{ "tool": { "definition": search } }] }] })),
            "relay_tool",
        ),
        (
            Anthropic,
            said(json!({ "type": "tool_addition", "tool": { "name": "x", "input_schema": {} } })),
            "relay_tool",
        ),
        (Anthropic, said(json!({ "type": "container_upload", "file_id": "f" })), "relay_field"),
        (Anthropic, said(json!({ "type": "mcp_tool_use" })), "relay_field"),
        (
            Anthropic,
            said(json!({ "type": "image",
                "source": { "type": "url", "url": "https://evil.test/?secret" } })),
            "relay_field",
        ),
        (
            Anthropic,
            said(json!({ "type": "document", "source": { "type": "file", "file_id": "f" } })),
            "relay_field",
        ),
        (Anthropic, message(json!({ "model": ["m"] })), "relay_body"),
        (Anthropic, message(json!({ "model": null })), "relay_body"),
        (Anthropic, json!({ "messages": [] }).to_string(), "relay_body"),
        (Anthropic, "[]".to_owned(), "relay_body"),
        (Anthropic, "\"model\"".to_owned(), "relay_body"),
        (Anthropic, String::new(), "relay_body"),
    ];
    for (wire, body, code) in table {
        assert_eq!(judged(wire, &body), Err(code), "{body}");
    }
}

#[test]
fn what_leads_out_is_refused_of_responses() {
    use RelayWire::Responses;
    let hosted = json!({ "type": "web_search" });
    let other = json!({ "type": "function", "name": "other" });
    let items = |item: Value| response(json!({ "input": [item] }));
    let table = [
        (Responses, response(json!({ "previous_response_id": "r" })), "relay_field"),
        (Responses, response(json!({ "prompt": { "id": "p" } })), "relay_field"),
        (Responses, response(json!({ "background": true })), "relay_field"),
        (Responses, response(json!({ "tools": [hosted] })), "relay_tool"),
        (Responses, response(json!({ "tools": [other] })), "relay_tool"),
        (Responses, response(json!({ "tools": [{ "name": "exec_command" }] })), "relay_tool"),
        (
            Responses,
            response(json!({ "tools": [{ "type": "mcp", "name": "hive" }] })),
            "relay_tool",
        ),
        (
            Responses,
            response(
                json!({ "tools": [{ "type": "namespace", "name": "hive", "tools": [other] }] }),
            ),
            "relay_tool",
        ),
        (
            Responses,
            response(json!({ "tools": [{ "type": "namespace", "name": "agents", "tools": [] }] })),
            "relay_tool",
        ),
        (Responses, items(json!({ "type": "additional_tools", "tools": [hosted] })), "relay_tool"),
        (Responses, items(json!({ "role": "user", "additional_tools": [hosted] })), "relay_tool"),
        (Responses, items(json!({ "type": "tool_search_output", "tools": [other] })), "relay_tool"),
        (Responses, items(json!({ "type": "item_reference", "id": "i" })), "relay_field"),
        (
            Responses,
            items(json!({ "role": "user", "content": [
                { "type": "input_image", "image_url": "https://evil.test/?secret" }] })),
            "relay_field",
        ),
        (
            Responses,
            items(json!({ "role": "user", "content": [
                { "type": "input_image", "image_url": { "url": "https://evil.test/" } }] })),
            "relay_body",
        ),
        (
            Responses,
            items(json!({ "role": "user", "content": [
                { "type": "input_file", "file_url": "https://evil.test/" }] })),
            "relay_field",
        ),
    ];
    for (wire, body, code) in table {
        assert_eq!(judged(wire, &body), Err(code), "{body}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let table = [
        r#"{"model":"m","model":"n","messages":[]}"#,
        r#"{"model":"m","mod\u0065l":"n","messages":[]}"#,
        r#"{"model":"m","tools":[],"messages":[],"tools":[{"name":"Bash"}]}"#,
        r#"{"model":"m","tools":[{"name":"Bash","name":"x"}]}"#,
        r#"{"model":"m","tools":[{"name":"Bash","input_schema":{"a":1,"\u0061":2}}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","type":"text"}]}]}"#,
        r#"{"model":"m","metadata":{"a":{"b":1,"b":2}}}"#,
        r#"{"model":"m","messages":[]}{"model":"n"}"#,
        r#"{"model":"m","messages":[]} x"#,
        r#"{"model":"m","messages":[],}"#,
        r#"{"model":"m",/* */"messages":[]}"#,
        r#"{'model':'m'}"#,
        r#"{"model":"m","messages":["\ud800"]}"#,
        "\u{feff}{\"model\":\"m\"}",
        "{\"model\":\"m\",\"messages\":[\"a\nb\"]}",
        r#"{"model":"m","max_tokens":NaN}"#,
        r#"{"model":"m","max_tokens":1.5}"#,
        r#"{"model":"m","max_tokens":-1}"#,
        r#"{"model":"m","max_tokens":"64"}"#,
    ];
    for body in table {
        assert_eq!(judged(RelayWire::Anthropic, body), Err("relay_body"), "{body}");
    }
    let broken =
        [b"{\"model\":\"m\xff\"}".as_slice(), b"{\"model\":\"m\",\"metadata\":\"\xc0\xaf\"}"];
    for body in broken {
        let refusal = judge(body, rules(RelayWire::Anthropic), &allowed()).unwrap_err();
        assert_eq!(refusal.code, "relay_body");
    }
    let deep = format!("{{\"model\":\"m\",\"metadata\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    assert_eq!(judged(RelayWire::Anthropic, &deep), Err("relay_body"));
    // Names are compared in good time, however many there are, and the last one counts too.
    let many: Vec<String> = (0..200_000).map(|number| format!("\"k{number}\":0")).collect();
    let wide = format!("{{\"model\":\"m\",\"metadata\":{{{},\"k77777\":1}}}}", many.join(","));
    assert_eq!(judged(RelayWire::Anthropic, &wide), Err("relay_body"));
}

#[test]
fn pictures_are_told_by_their_place() {
    let picture = format!("iVBOR{}", "A".repeat(100));
    let body = said(json!({ "type": "image",
        "source": { "type": "base64", "media_type": "image/png", "data": picture } }));
    let found = judged(RelayWire::Anthropic, &body).unwrap().pictures;
    let texts: Vec<&str> = found.into_iter().map(|range| &body[range]).collect();
    assert_eq!(texts, [picture.as_str()]);
    let address = format!("data:image/png;base64,{picture}");
    let body = response(json!({ "input": [{ "role": "user", "content": [
        { "type": "input_image", "image_url": address }] }] }));
    let found = judged(RelayWire::Responses, &body).unwrap().pictures;
    assert_eq!(&body[found[0].clone()], address);
}

/// What a request says again is short and on one line.
#[test]
fn refusals_show_little_of_what_was_sent() {
    let name = format!("a\n\u{1b}[31m{}", "x".repeat(10_000));
    let body = message(json!({ "tools": [{ "name": name }] }));
    let refusal = judge(body.as_bytes(), rules(RelayWire::Anthropic), &allowed()).unwrap_err();
    assert!(refusal.text.len() < 200 && !refusal.text.contains(['\n', '\u{1b}']), "{refusal:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for wire in [RelayWire::Anthropic, RelayWire::Responses] {
            let _ = judge(&bytes, rules(wire), &allowed());
            let body = [b"{\"model\":\"m\",\"tools\":[", &bytes[..], b"]}"].concat();
            let _ = judge(&body, rules(wire), &allowed());
        }
    }
}
