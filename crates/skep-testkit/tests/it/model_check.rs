//! What the scripted model refuses, as the real service does.

use serde_json::{Value, json};
use skep_testkit::model::signature_of;
use skep_testkit::{Reply, ScriptedModel};

use crate::model::{body, client, hello, post};

async fn refusal_of(model: &ScriptedModel, request: &Value) -> Option<String> {
    let answer = post(model, request).await.unwrap();
    match answer.status().as_u16() {
        200 => None,
        400 => {
            let body: Value = answer.json().await.unwrap();
            assert_eq!(body["error"]["type"], "invalid_request_error");
            Some(body["error"]["message"].as_str().unwrap().to_owned())
        }
        other => panic!("status {other}"),
    }
}

async fn lenient() -> ScriptedModel {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("fine"));
    model
}

fn user(content: Value) -> Value {
    json!({ "role": "user", "content": content })
}

fn assistant(content: Value) -> Value {
    json!({ "role": "assistant", "content": content })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "read", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "x" })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[tokio::test]
async fn takes_good_conversations() {
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": signature_of("hm") });
    let redacted = json!({ "type": "redacted_thinking", "data": "x" });
    let marked = json!({ "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } });
    let good = [
        json!([user(json!("hi")), user(json!([text("again")]))]),
        json!([user(json!([marked])), assistant(json!("yes")), user(json!("go"))]),
        json!([
            user(json!("hi")),
            assistant(json!([thinking, redacted, text("I look."), call("a"), call("b")])),
            user(json!([result("b"), result("a"), text("and?")])),
        ]),
        json!([
            user(json!("hi")),
            assistant(json!([call("a"), call("b")])),
            user(json!([result("a")])),
            user(json!([result("b")])),
        ]),
    ];
    let model = lenient().await;
    for messages in good {
        assert_eq!(refusal_of(&model, &body(true, messages.clone())).await, None, "{messages}");
    }
}

#[tokio::test]
async fn refuses_bad_conversations() {
    let forged = json!({ "type": "thinking", "thinking": "no", "signature": signature_of("hm") });
    let unsigned = json!({ "type": "thinking", "thinking": "hm" });
    let hi = || user(json!("hi"));
    let bad = [
        (json!([]), "at least one message"),
        (json!([assistant(json!("yes")), hi()]), "first message"),
        (json!([hi(), assistant(json!("yes"))]), "must end with a user message"),
        (json!([user(json!(""))]), "non-empty content"),
        (json!([user(json!([]))]), "non-empty content"),
        (json!([user(json!([text("")]))]), "must be non-empty"),
        (json!([user(json!([text(" \n")]))]), "non-whitespace"),
        (json!([{ "role": "system", "content": "x" }]), "role"),
        (json!([{ "role": "user", "content": "x", "id": 1 }]), "messages.0.id: Extra inputs"),
        (json!([user(json!([{ "type": "text", "text": "x", "extra": 1 }]))]), "Extra inputs"),
        (json!([user(json!([call("a")]))]), "not permitted in user content"),
        (json!([hi(), assistant(json!([result("a")])), hi()]), "not permitted in assistant"),
        (json!([hi(), assistant(json!([call("a")])), hi()]), "without `tool_result` blocks"),
        (
            json!([hi(), assistant(json!([call("a"), call("b")])), user(json!([result("a")]))]),
            "immediately after: b.",
        ),
        (
            json!([hi(), assistant(json!([call("a")])), user(json!([result("a"), result("b")]))]),
            "unexpected `tool_use_id`",
        ),
        (
            json!([hi(), assistant(json!([call("a")])), user(json!([result("a"), result("a")]))]),
            "single result",
        ),
        (
            json!([hi(), assistant(json!([call("a")])), user(json!([text("x"), result("a")]))]),
            "must come first",
        ),
        (
            json!([
                hi(),
                assistant(json!([call("a")])),
                user(json!([result("a")])),
                assistant(json!([call("a")])),
                user(json!([result("a")]))
            ]),
            "must be unique",
        ),
        (
            json!([
                hi(),
                assistant(json!([{ "type": "tool_use", "id": "a", "name": "read",
                "input": "{}" }])),
                user(json!([result("a")]))
            ]),
            "valid dictionary",
        ),
        (json!([hi(), assistant(json!([forged, text("x")])), hi()]), "Invalid `signature`"),
        (json!([hi(), assistant(json!([unsigned, text("x")])), hi()]), "signature: Field required"),
    ];
    let model = lenient().await;
    let count = bad.len();
    for (messages, why) in bad {
        let refusal = refusal_of(&model, &body(true, messages.clone())).await;
        assert!(refusal.as_ref().is_some_and(|text| text.contains(why)), "{messages}: {refusal:?}");
    }
    assert_eq!(model.refusals().len(), count, "every refusal is recorded");
}

#[tokio::test]
async fn refuses_bad_requests_around_the_conversation() {
    let mark = || json!({ "type": "ephemeral" });
    let marked = || json!({ "type": "text", "text": "x", "cache_control": mark() });
    let tool = |name: &str| json!({ "name": name, "input_schema": { "type": "object" } });
    let bad = [
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "model": null }), "model"),
        (json!({ "unknown": 1 }), "unknown: Extra inputs are not permitted"),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 10 } }), "1024"),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } }), "max_tokens"),
        (json!({ "system": [text("")] }), "non-empty"),
        (json!({ "system": [marked(), marked(), marked(), marked(), marked()] }), "Found 5"),
        (json!({ "tools": [tool("a"), tool("a")] }), "unique"),
        (json!({ "tools": [tool("a b")] }), "pattern"),
        (json!({ "tools": [{ "name": "a", "input_schema": {} }] }), "input_schema.type"),
        (
            json!({ "tools": [{ "name": "a", "input_schema": { "type": "object" }, "x": 1 }] }),
            "tools.0.custom.x",
        ),
    ];
    let model = lenient().await;
    for (change, why) in bad {
        let mut request = hello(true);
        for (key, value) in change.as_object().unwrap() {
            request[key] = value.clone();
        }
        let refusal = refusal_of(&model, &request).await;
        assert!(refusal.as_ref().is_some_and(|text| text.contains(why)), "{change}: {refusal:?}");
    }
}

#[tokio::test]
async fn refuses_thinking_in_a_turn_that_began_without() {
    let signature = signature_of("hm");
    let thinking = || json!({ "type": "thinking", "thinking": "hm", "signature": signature });
    let turn = |first: Value| {
        let mut request = body(
            true,
            json!([
                user(json!("hi")),
                assistant(first),
                user(json!([result("a")])),
                assistant(json!([call("b")])),
                user(json!([result("b")])),
            ]),
        );
        request["max_tokens"] = json!(3000);
        request["thinking"] = json!({ "type": "enabled", "budget_tokens": 2000 });
        request
    };
    let model = lenient().await;
    assert_eq!(refusal_of(&model, &turn(json!([thinking(), call("a")]))).await, None);
    let refusal = refusal_of(&model, &turn(json!([call("a")]))).await.unwrap();
    assert!(refusal.starts_with("messages.1.content.0.type: Expected `thinking`"), "{refusal}");
}

#[tokio::test]
async fn refuses_missing_headers_and_wrong_keys() {
    let model = lenient().await;
    let url = format!("{}/v1/messages", model.base_url());
    let send = async |headers: &[(&str, &str)]| {
        let mut request = client().post(&url).json(&hello(true));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let version = ("anthropic-version", "2023-06-01");
    assert_eq!(send(&[version]).await, 401);
    assert_eq!(send(&[("x-api-key", "k")]).await, 400);
    assert_eq!(send(&[("x-api-key", "k"), ("anthropic-version", "2000-01-01")]).await, 400);
    assert_eq!(send(&[("x-api-key", "k"), version]).await, 200);
    model.require_key("right");
    assert_eq!(send(&[("x-api-key", "wrong"), version]).await, 401);
    assert_eq!(send(&[("x-api-key", "right"), version]).await, 200);
    let elsewhere = client().post(format!("{}/v1/other", model.base_url())).send().await;
    assert_eq!(elsewhere.unwrap().status(), 404);
}

#[tokio::test]
async fn knows_both_versions_and_what_the_new_one_refuses() {
    let model = lenient().await;
    let url = format!("{}/v1/messages", model.base_url());
    let send = async |version: &str, change: Value| {
        let mut request = hello(true);
        for (key, value) in change.as_object().unwrap() {
            request[key] = value.clone();
        }
        let builder = client().post(&url).header("x-api-key", "k").json(&request);
        let answer = builder.header("anthropic-version", version).send().await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(send("2026-10-21", json!({})).await, 200);
    for name in ["temperature", "top_p", "top_k"] {
        assert_eq!(send("2026-10-21", json!({ name: 1 })).await, 400, "{name}");
        assert_eq!(send("2023-06-01", json!({ name: 1 })).await, 200, "{name}");
    }
    let cited = json!({ "type": "text", "text": "x", "citations": [{ "type": "char_location" }] });
    let messages = json!({ "messages": [user(json!([cited]))] });
    assert_eq!(send("2026-10-21", messages.clone()).await, 400);
    assert_eq!(send("2023-06-01", messages).await, 200);
}

#[tokio::test]
async fn pictures_are_what_they_say_they_are() {
    let model = lenient().await;
    let image = |mime: &str, data: &str| {
        let source = json!({ "type": "base64", "media_type": mime, "data": data });
        json!({ "type": "image", "source": source })
    };
    let png = "iVBORw0KGgpyZXN0";
    let in_result = |block: Value| {
        let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": [block] });
        json!([user(json!("hi")), assistant(json!([call("a")])), user(json!([result]))])
    };
    let cases = [
        (json!([user(json!([image("image/png", png)]))]), None),
        (in_result(image("image/png", png)), None),
        (json!([user(json!([image("image/gif", png)]))]), Some("appears to be a image/png")),
        (in_result(image("image/jpeg", png)), Some("appears to be a image/png")),
        (json!([user(json!([image("image/svg+xml", png)]))]), Some("media_type: Input should")),
        (json!([user(json!([image("image/png", "*")]))]), Some("invalid base64")),
        (json!([user(json!([{ "type": "image" }]))]), Some("source.type: Field required")),
        (
            json!([user(json!("hi")), assistant(json!([image("image/png", png)]))]),
            Some("not permitted in assistant"),
        ),
    ];
    for (messages, why) in cases {
        let refused = refusal_of(&model, &body(false, messages)).await;
        let fits = match (&refused, why) {
            (None, None) => true,
            (Some(text), Some(part)) => text.contains(part),
            _ => false,
        };
        assert!(fits, "{why:?}: {refused:?}");
    }
}
