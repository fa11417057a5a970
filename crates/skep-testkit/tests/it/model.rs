//! The scripted model: shapes of the wire, gates, recording.

use futures_util::StreamExt;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use skep_testkit::model::{Differing, Ending, Usage, signature_of};
use skep_testkit::{Reply, ScriptedModel, http};

pub fn body(stream: bool, messages: Value) -> Value {
    let tool = json!({ "name": "read", "description": "Reads.", "input_schema":
        { "type": "object", "properties": { "path": { "type": "string" } } } });
    json!({ "model": "claude-test", "max_tokens": 1000, "stream": stream, "tools": [tool],
        "system": "Be brief.", "messages": messages })
}

pub fn hello(stream: bool) -> Value {
    body(stream, json!([{ "role": "user", "content": "hello" }]))
}

pub fn client() -> Client {
    http::builder().build().unwrap()
}

pub async fn post(model: &ScriptedModel, body: &Value) -> reqwest::Result<Response> {
    let url = format!("{}/v1/messages", model.base_url());
    let request = client().post(url).header("x-api-key", "key");
    request.header("anthropic-version", "2023-06-01").json(body).send().await
}

/// Every event of a stream: its name and its data.
pub fn events(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split_terminator("\n\n");
    blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (name.to_owned(), data)
        })
        .collect()
}

#[tokio::test]
async fn streams_every_kind_of_block_in_the_shapes_of_the_real_wire() {
    let model = ScriptedModel::start().await.unwrap();
    let usage = Usage {
        input_tokens: Some(11),
        output_tokens: Some(7),
        cache_creation_input_tokens: 3,
        cache_read_input_tokens: 5,
    };
    let reply = Reply::new()
        .thinking("hm")
        .redacted_thinking("opaque")
        .text_in(["Hel", "lo"])
        .tool_with_id("toolu_1", "read", json!({ "path": "a" }))
        .usage(usage);
    model.push(reply);
    let answer = post(&model, &hello(true)).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert!(answer.headers()["request-id"].to_str().unwrap().starts_with("req_"));
    let events = events(&answer.text().await.unwrap());
    assert!(events.iter().all(|(name, data)| data["type"] == **name));
    let start = &events[0].1["message"];
    assert_eq!(start["usage"]["cache_read_input_tokens"], 5);
    assert_eq!((&start["role"], &start["model"]), (&json!("assistant"), &json!("claude-test")));
    let rest: Vec<Value> = events[1..].iter().map(|(_, data)| data.clone()).collect();
    let block = |index: usize, block: Value| {
        json!({ "type": "content_block_start", "index": index,
        "content_block": block })
    };
    let delta = |index: usize, delta: Value| {
        json!({ "type": "content_block_delta", "index": index,
        "delta": delta })
    };
    let stop = |index: usize| json!({ "type": "content_block_stop", "index": index });
    let end_usage = json!({ "input_tokens": 11, "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 5, "output_tokens": 7 });
    let expected = vec![
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        json!({ "type": "ping" }),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        delta(0, json!({ "type": "signature_delta", "signature": signature_of("hm") })),
        stop(0),
        block(1, json!({ "type": "redacted_thinking", "data": "opaque" })),
        stop(1),
        block(2, json!({ "type": "text", "text": "" })),
        delta(2, json!({ "type": "text_delta", "text": "Hel" })),
        delta(2, json!({ "type": "text_delta", "text": "lo" })),
        stop(2),
        block(3, json!({ "type": "tool_use", "id": "toolu_1", "name": "read", "input": {} })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "" })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "{\"path\":\"a\"}" })),
        stop(3),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use",
            "stop_sequence": null }, "usage": end_usage }),
        json!({ "type": "message_stop" }),
    ];
    assert_eq!(rest, expected);
    assert_eq!(model.wait_for_end(1).await.unwrap(), Ending::Complete);
}

#[tokio::test]
async fn answers_as_one_message_when_no_stream_is_asked_for() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::new().text_in(["Hel", "lo"]).tool_in("read", ["{\"pa", "th\":\"a\"}"]));
    let message: Value = post(&model, &hello(false)).await.unwrap().json().await.unwrap();
    assert_eq!(message["content"][0], json!({ "type": "text", "text": "Hello" }));
    assert_eq!(message["content"][1]["input"], json!({ "path": "a" }));
    assert_eq!(message["stop_reason"], "tool_use");
}

#[tokio::test]
async fn a_gate_holds_the_stream_in_the_middle_of_a_block() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::new().open_text().delta("Hel").gate("half").delta("lo").close());
    let answer = post(&model, &hello(true)).await.unwrap();
    let gate = model.gate("half");
    gate.wait_arrived(1).await.unwrap();
    let mut stream = answer.bytes_stream();
    let mut seen = String::new();
    while !seen.contains("Hel") {
        seen += std::str::from_utf8(&stream.next().await.unwrap().unwrap()).unwrap();
    }
    assert!(!seen.contains("\"lo\""));
    assert_eq!(model.in_flight(), 1);
    gate.release();
    while let Some(chunk) = stream.next().await {
        seen += std::str::from_utf8(&chunk.unwrap()).unwrap();
    }
    assert!(seen.contains("\"lo\"") && seen.contains("message_stop"));
}

#[tokio::test]
async fn a_gate_holds_the_status_line_and_stays_open_once_opened() {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("hi").gate_first("door"));
    let gate = model.gate("door");
    let (answer, ()) = tokio::join!(async { post(&model, &hello(true)).await.unwrap() }, async {
        gate.wait_arrived(1).await.unwrap();
        gate.open();
    });
    assert!(answer.text().await.unwrap().contains("hi"));
    let again = post(&model, &hello(true)).await.unwrap().text().await.unwrap();
    assert!(again.contains("hi"));
}

#[tokio::test]
async fn sees_a_client_that_hangs_up_before_the_first_byte_and_in_mid_stream() {
    let model = ScriptedModel::start().await.unwrap();
    model.push_all([Reply::silence(), Reply::new().open_text().delta("Hel").then_silence()]);
    let body = hello(true);
    tokio::select! {
        _ = post(&model, &body) => panic!("no answer may come"),
        request = model.wait_for_request(1) => assert_eq!(request.unwrap().ending, None),
    }
    assert_eq!(model.wait_for_end(1).await.unwrap(), Ending::HungUp);
    let answer = post(&model, &body).await.unwrap();
    let mut stream = answer.bytes_stream();
    stream.next().await.unwrap().unwrap();
    assert_eq!(model.requests()[1].ending, None, "still waiting");
    drop(stream);
    assert_eq!(model.wait_for_end(2).await.unwrap(), Ending::HungUp);
    assert!(model.requests()[1].hung_up());
}

#[tokio::test]
async fn records_requests_as_sent_and_uses_the_queue_before_the_script() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::say("queued"));
    model.answer_with(|request| Reply::say(&format!("scripted {}", request.last_user_text())));
    let first = post(&model, &hello(true)).await.unwrap().text().await.unwrap();
    let second = post(&model, &hello(true)).await.unwrap().text().await.unwrap();
    assert!(first.contains("queued") && second.contains("scripted hello"));
    let recorded = model.wait_for_request(2).await.unwrap();
    assert_eq!(recorded.raw, serde_json::to_vec(&hello(true)).unwrap());
    let keys: Vec<&String> = recorded.body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "max_tokens", "stream", "tools", "system", "messages"]);
    assert_eq!(
        (recorded.tool_names(), recorded.system_text().as_str()),
        (vec!["read"], "Be brief.")
    );
    assert!(model.refusals().is_empty());
}

#[tokio::test]
async fn without_an_answer_a_request_is_refused() {
    let model = ScriptedModel::start().await.unwrap();
    assert_eq!(post(&model, &hello(true)).await.unwrap().status(), 400);
}

#[tokio::test]
async fn the_differing_model_never_says_the_same_twice_and_goes_on_from_the_history() {
    let model = ScriptedModel::start().await.unwrap();
    let script = Differing {
        tool: "read".to_owned(),
        calls: 2,
        rounds: 1,
        arguments: |fresh| json!({ "path": format!("file-{fresh}") }),
    };
    model.answer_with(move |request| script.answer(request));
    let one: Value = post(&model, &hello(false)).await.unwrap().json().await.unwrap();
    let two: Value = post(&model, &hello(false)).await.unwrap().json().await.unwrap();
    for at in 0..4 {
        assert_ne!(one["content"][at], two["content"][at]);
    }
    let calls: Vec<&Value> = one["content"].as_array().unwrap().iter().skip(2).collect();
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_ne!(calls[0]["input"], calls[1]["input"]);
    let results: Vec<Value> = calls
        .iter()
        .map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "ok" }))
        .collect();
    let history = json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": one["content"] },
        { "role": "user", "content": results },
    ]);
    let end: Value = post(&model, &body(false, history)).await.unwrap().json().await.unwrap();
    assert_eq!(end["stop_reason"], "end_turn");
    let last = model.wait_for_request(3).await.unwrap();
    assert_eq!((last.steps_done(), last.last_tool_results().len()), (1, 2));
}
