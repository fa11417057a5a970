//! What the scripted model refuses on the OpenAI wires, as the real services do.

use serde_json::{Value, json};
use skep_testkit::model::{Wire, signature_of};
use skep_testkit::{Reply, ScriptedModel};

use crate::model::client;

/// Sends each request; the reason is part of the refusal, or empty where none is expected.
async fn refuses(wire: Wire, cases: &[(Value, &str)]) {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("fine"));
    for (body, why) in cases {
        let url = format!("{}{}", model.base_url(), wire.path());
        let answer = client().post(url).bearer_auth("key").json(body).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        if why.is_empty() {
            assert_eq!(status, 200, "{body}: {text}");
        } else {
            assert!(matches!(status, 400 | 404), "{body}: {status}");
            assert!(text.contains(why), "{body}: {text}");
        }
    }
}

fn with(mut body: Value, change: Value) -> Value {
    for (key, value) in change.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn chat(messages: Value) -> Value {
    json!({ "model": "m", "stream": true, "messages": messages })
}

fn tool_calls(ids: &[&str]) -> Value {
    let call = |id: &&str| {
        let function = json!({ "name": "read", "arguments": "{}" });
        json!({ "id": id, "type": "function", "function": function })
    };
    json!({ "role": "assistant", "content": null,
        "tool_calls": ids.iter().map(call).collect::<Vec<_>>() })
}

fn tool(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "x" })
}

#[tokio::test]
async fn chat_conversations() {
    let hi = || json!({ "role": "user", "content": "hi" });
    let parts = json!([{ "type": "text", "text": "x" }]);
    let two = || tool_calls(&["a", "b"]);
    let thinking = json!({ "role": "assistant", "content": "x", "reasoning_content": "hm" });
    let long = "x".repeat(41);
    refuses(
        Wire::OpenAiChat,
        &[
            (chat(json!([hi()])), ""),
            (chat(json!([{ "role": "developer", "content": "x" }, hi(), hi()])), ""),
            (chat(json!([{ "role": "user", "content": parts }])), ""),
            (chat(json!([hi(), two(), tool("b"), tool("a"), hi()])), ""),
            (chat(json!([])), "empty array"),
            (chat(json!([{ "role": "robot", "content": "x" }])), "role"),
            (chat(json!([{ "role": "user", "content": null }])), "expected a string"),
            (chat(json!([{ "role": "user", "content": [] }])), "empty array"),
            (chat(json!([{ "role": "user", "content": "x", "extra": 1 }])), "messages[0].extra"),
            (chat(json!([hi(), thinking])), "messages[1].reasoning_content"),
            (chat(json!([hi(), { "role": "assistant", "content": null }])), "expected a string"),
            (chat(json!([hi(), tool_calls(&[])])), "empty array"),
            (chat(json!([hi(), tool_calls(&[&long]), tool(&long)])), "maximum length 40"),
            (chat(json!([hi(), two(), tool("a"), hi()])), "did not have response messages: b"),
            (chat(json!([hi(), two(), hi(), tool("a"), tool("b")])), "messages: a, b"),
            (chat(json!([hi(), two(), tool("a"), tool("a"), tool("b")])), "Duplicate"),
            (chat(json!([hi(), tool("a")])), "preceeding"),
            (chat(json!([hi(), two(), tool("a"), tool("b"), tool("c")])), "preceeding"),
        ],
    )
    .await;
}

#[tokio::test]
async fn chat_settings() {
    let base = || chat(json!([{ "role": "user", "content": "hi" }]));
    let function = |change: Value| {
        let good = json!({ "name": "read", "parameters": { "type": "object" } });
        json!({ "tools": [{ "type": "function", "function": with(good, change) }] })
    };
    let changes = [
        (json!({ "max_tokens": 5, "temperature": 1.5, "store": false }), ""),
        (json!({ "max_completion_tokens": 5, "reasoning_effort": "low" }), ""),
        (json!({ "stream_options": { "include_usage": true } }), ""),
        (function(json!({})), ""),
        (json!({ "max_output_tokens": 5 }), "Unrecognized request argument supplied"),
        (json!({ "model": "" }), "model"),
        (json!({ "max_tokens": 5, "max_completion_tokens": 5 }), "same time"),
        (json!({ "max_tokens": 0 }), "minimum"),
        (json!({ "temperature": 3 }), "temperature"),
        (json!({ "temperature": 1, "reasoning_effort": "low" }), "Unsupported parameter"),
        (json!({ "reasoning_effort": "much" }), "much"),
        (json!({ "stream": false, "stream_options": { "include_usage": true } }), "only allowed"),
        (json!({ "stream_options": { "usage": true } }), "stream_options.usage"),
        (json!({ "tools": [] }), "empty array"),
        (json!({ "parallel_tool_calls": true }), "only allowed when 'tools'"),
        (function(json!({ "name": "a b" })), "pattern"),
        (function(json!({ "input_schema": {} })), "input_schema"),
        (function(json!({ "parameters": { "type": "string" } })), "Invalid schema"),
        (function(json!({ "strict": true })), "additionalProperties"),
    ];
    let cases: Vec<_> =
        changes.into_iter().map(|(change, why)| (with(base(), change), why)).collect();
    refuses(Wire::OpenAiChat, &cases).await;
}

fn responses(input: Value) -> Value {
    json!({ "model": "m", "stream": true, "store": false, "input": input })
}

#[tokio::test]
async fn responses_conversations() {
    let hi = || json!({ "role": "user", "content": "hi" });
    let call = |id: &str| {
        let kind = "function_call";
        json!({ "type": kind, "call_id": id, "name": "read", "arguments": "{}" })
    };
    let output = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "x" });
    let thinking = |id: &str, text: &str, sealed: Option<&str>| {
        let summary = json!([{ "type": "summary_text", "text": text }]);
        json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": sealed })
    };
    let said =
        || json!({ "role": "assistant", "content": [{ "type": "output_text", "text": "x" }] });
    let good = signature_of("hm");
    let proof = || thinking("rs_1", "hm", Some(&good));
    let forged = thinking("rs_1", "other", Some(&good));
    let wrong_part = json!({ "role": "user", "content": [{ "type": "text", "text": "x" }] });
    refuses(
        Wire::OpenAiResponses,
        &[
            (responses(json!("hi")), ""),
            (responses(json!([hi(), said(), hi()])), ""),
            (responses(json!([hi(), proof(), call("a"), call("b"), output("b"), output("a")])), ""),
            (responses(json!([hi(), proof(), proof(), said(), hi()])), ""),
            (responses(Value::Null), "input"),
            (responses(json!([{ "type": "robot" }])), "robot"),
            (responses(json!([{ "role": "robot", "content": "x" }])), "robot"),
            (responses(json!([wrong_part])), "input_text"),
            (responses(json!([{ "role": "user", "content": "x", "extra": 1 }])), "input[0].extra"),
            (responses(json!([hi(), call("a")])), "No tool output found for function call a"),
            (responses(json!([hi(), output("a")])), "No tool call found"),
            (responses(json!([hi(), call("a"), output("a"), output("a")])), "No tool call found"),
            (responses(json!([hi(), output("a"), call("a")])), "No tool call found"),
            (responses(json!([hi(), forged, said()])), "could not be verified"),
            (responses(json!([hi(), thinking("rs_1", "hm", None), said()])), "not persisted"),
            (
                responses(json!([hi(), thinking("x_1", "hm", Some("s")), said()])),
                "begins with 'rs'",
            ),
            (responses(json!([hi(), proof()])), "required following item"),
            (responses(json!([hi(), proof(), hi()])), "required following item"),
        ],
    )
    .await;
}

#[tokio::test]
async fn responses_settings() {
    let base = || responses(json!("hi"));
    let function = |change: Value| {
        let good =
            json!({ "type": "function", "name": "read", "parameters": { "type": "object" } });
        json!({ "tools": [with(good, change)] })
    };
    let changes = [
        (json!({ "max_output_tokens": 16, "temperature": 1, "instructions": "x" }), ""),
        (json!({ "reasoning": { "effort": "low", "summary": "auto" } }), ""),
        (json!({ "include": ["reasoning.encrypted_content"] }), ""),
        (function(json!({ "strict": false })), ""),
        (json!({ "max_tokens": 16 }), "Unknown parameter: 'max_tokens'."),
        (json!({ "messages": [] }), "Unknown parameter: 'messages'."),
        (json!({ "model": "" }), "model"),
        (json!({ "max_output_tokens": 15 }), "minimum"),
        (json!({ "instructions": ["x"] }), "instructions"),
        (json!({ "include": ["everything"] }), "everything"),
        (json!({ "reasoning": { "budget": 1 } }), "reasoning.budget"),
        (json!({ "reasoning": { "effort": "low" }, "temperature": 1 }), "Unsupported parameter"),
        (function(json!({ "name": "a b" })), "pattern"),
        (function(json!({ "function": {} })), "tools[0].function"),
        (function(json!({ "strict": true })), "additionalProperties"),
    ];
    let cases: Vec<_> =
        changes.into_iter().map(|(change, why)| (with(base(), change), why)).collect();
    refuses(Wire::OpenAiResponses, &cases).await;
}

#[tokio::test]
async fn keys_are_asked_for() {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("fine"));
    for (wire, body) in [
        (Wire::OpenAiChat, chat(json!([{ "role": "user", "content": "hi" }]))),
        (Wire::OpenAiResponses, responses(json!("hi"))),
    ] {
        let url = format!("{}{}", model.base_url(), wire.path());
        let answer = client().post(&url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        model.require_key("right");
        let answer = client().post(&url).bearer_auth("wrong").json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        let answer = client().post(&url).bearer_auth("right").json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// Twelve bytes that begin as a picture does.
const PNG: &str = "data:image/png;base64,iVBORw0KGgpyZXN0";

#[tokio::test]
async fn pictures() {
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let user = |part: Value| chat(json!([{ "role": "user", "content": [part] }]));
    let result = json!({ "role": "tool", "tool_call_id": "a", "content": [image(PNG)] });
    let called = json!([{ "role": "user", "content": "hi" }, tool_calls(&["a"]), result]);
    refuses(
        Wire::OpenAiChat,
        &[
            (user(image(PNG)), ""),
            (user(image("https://example.test/a.png")), ""),
            (user(image("")), "Missing required parameter"),
            (user(image("data:image/png;base64,*")), "base64-encoded data URL"),
            (user(image("data:image/png;base64,aGVsbG8=")), "unsupported image"),
            (user(image("file:///etc/passwd")), "valid URL"),
            (chat(called), "only allowed for messages with role 'user'"),
        ],
    )
    .await;
    let image = |url: &str| json!({ "type": "input_image", "image_url": url });
    let ask = |part: Value| {
        json!({ "model": "m", "stream": true, "store": false,
            "input": [{ "role": "user", "content": [part] }] })
    };
    let output = |part: Value| {
        let call = json!({ "type": "function_call", "call_id": "a", "name": "read",
            "arguments": "{}" });
        let result = json!({ "type": "function_call_output", "call_id": "a", "output": [part] });
        json!({ "model": "m", "stream": true, "store": false, "input": [call, result] })
    };
    refuses(
        Wire::OpenAiResponses,
        &[
            (ask(image(PNG)), ""),
            (output(image(PNG)), ""),
            (ask(image("data:image/png;base64,aGVsbG8=")), "unsupported image"),
            (output(image("data:image/png;base64,*")), "base64-encoded data URL"),
            (output(json!({ "type": "image_url" })), "Invalid value"),
        ],
    )
    .await;
}
