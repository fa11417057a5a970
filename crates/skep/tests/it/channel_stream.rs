//! One message as a stream of its own, and agents as models of the OpenAI interface.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::{Answer, Api, Events, answer};
use skep_testkit::{ModelRequest, Reply};

use crate::stage::{Play, Stage};

/// Opens a stream by POST.
async fn post_stream(api: &Api, path: &str, body: &Value) -> Events {
    let request = api.request(Method::POST, path).json(body);
    Events::of(request).await.unwrap()
}

/// Reads to the end: the name and the data of each event.
async fn all(mut events: Events) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        let data = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
        seen.push((event.name.unwrap_or_default(), data));
    }
    seen
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

const MESSAGES: &str = "/api/v1/agents/main/messages";

#[tokio::test]
async fn channel_a_message_streams_to_its_durable_answer() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().text("I look.").tool("look", json!({"text": "a"})));
    stage.model.push(Reply::new().text_in(["It ", "is ", "there."]));
    let play = stage.up().await;
    let path = format!("{MESSAGES}?stream=true");
    let seen = all(post_stream(&play.api(), &path, &json!({"message": "where?"})).await).await;
    let expected =
        ["ack", "delta", "delta", "tool_start", "tool_end", "delta", "delta", "delta", "response"];
    assert_eq!(names(&seen), expected, "{seen:?}");
    let texts: Vec<&str> = seen.iter().filter_map(|(_, data)| data["text"].as_str()).collect();
    // A word waits for its end.
    assert_eq!(texts, ["I ", "look.", "It ", "is ", "there."]);
    let (ack, end) = (&seen[0].1, &seen[8].1);
    assert_eq!(end["response"]["content"], "It is there.");
    assert_eq!((&ack["item_id"], &end["state"]), (&end["item_id"], &"done".into()));
    assert!(end["usage"]["totalTokens"].as_u64().unwrap() > 0, "{end}");
    // Whoever comes later finds the same end.
    let path = format!("{MESSAGES}/{}?stream=true", ack["item_id"].as_str().unwrap());
    let seen = all(play.api().events(&path).await.unwrap()).await;
    assert_eq!(names(&seen), ["message", "response"]);
}

#[tokio::test]
async fn channel_a_stream_is_of_its_own_message_alone() {
    let stage = Stage::new().await;
    let gate = stage.model.gate("held");
    stage.model.push(Reply::new().gate_first("held").text("first"));
    stage.model.push(Reply::say("second"));
    stage.model.push(Reply::say("elsewhere"));
    let play = stage.up().await;
    let path = format!("{MESSAGES}?stream=true");
    let first = post_stream(&play.api(), &path, &json!({"message": "one"})).await;
    stage.model.wait_for_request(1).await.unwrap();
    let second = post_stream(&play.api(), &path, &json!({"message": "two"})).await;
    gate.open();
    let (first, second) = (all(first).await, all(second).await);
    assert_eq!(names(&first), ["ack", "delta", "response"], "{first:?}");
    assert_eq!(first[1].1["text"], "first");
    assert_eq!(names(&second), ["ack", "delta", "response"], "{second:?}");
    assert_eq!((&second[1].1["text"], &second[0].1["state"]), (&"second".into(), &"queued".into()));
    // A command is answered at once, and a stop ends the stream with its error.
    let command = post_stream(&play.api(), &path, &json!({"message": "/status"})).await;
    assert_eq!(names(&all(command).await), ["ack", "response"]);
}

#[tokio::test]
async fn channel_a_client_that_leaves_its_stream_does_not_end_the_turn() {
    let stage = Stage::new().await;
    let gate = stage.model.gate("held");
    stage.model.push(Reply::new().text("half ").gate("held").text(" whole"));
    let play = stage.up().await;
    let path = format!("{MESSAGES}?stream=true");
    let mut events = post_stream(&play.api(), &path, &json!({"message": "go"})).await;
    let ack = events.next().await.unwrap().unwrap();
    let ack: Value = serde_json::from_str(&ack.data).unwrap();
    events.next().await.unwrap();
    drop(events);
    gate.open();
    let ended = play.ended("main", ack["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "done", "{ended}");
}

async fn complete(api: &Api, session: Option<&str>, body: Value) -> Answer {
    let mut request = api.request(Method::POST, "/v1/chat/completions").json(&body);
    if let Some(session) = session {
        request = request.header("x-skep-session", session);
    }
    answer(request).await.unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// What the model was shown as messages, each as `role: text`.
fn shown(request: &ModelRequest) -> Vec<String> {
    let body = &request.body;
    let messages = body["messages"].as_array().unwrap().iter();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().filter_map(|b| b["text"].as_str()).collect(),
    };
    messages.map(|m| format!("{}: {}", m["role"].as_str().unwrap(), text(m))).collect()
}

#[tokio::test]
async fn channel_openai_without_a_session_the_messages_given_are_the_conversation() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("four"));
    let play = stage.up().await;
    let messages = json!([
        {"role": "system", "content": "be brief"},
        user("hello"),
        {"role": "assistant", "content": "hi"},
        user("two and two?"),
    ]);
    let done = complete(&play.api(), None, json!({"model": "main", "messages": messages})).await;
    let done = done.good().unwrap();
    assert_eq!(done["object"], "chat.completion");
    let message = json!({"role": "assistant", "content": "four"});
    assert_eq!(done["choices"][0]["message"], message);
    assert!(done["usage"]["total_tokens"].as_u64().unwrap() > 0, "{done}");
    let lines = shown(&stage.model.requests()[0]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].ends_with("hello") && lines[1] == "assistant: hi", "{lines:?}");
    assert!(lines[2].contains("be brief") && lines[2].ends_with("two and two?"), "{lines:?}");
    // Nothing of it is left for the next.
    complete(&play.api(), None, json!({"model": "main", "messages": [user("again")]})).await;
    let lines = shown(&stage.model.requests()[1]);
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[tokio::test]
async fn channel_openai_with_a_session_what_follows_the_last_answer_is_new() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("noted"));
    let play = stage.up().await;
    let mut messages = vec![user("my name is Ada")];
    for _ in 0..2 {
        let body = json!({"model": "main", "messages": messages});
        let done = complete(&play.api(), Some("desk"), body).await.good().unwrap();
        messages.push(done["choices"][0]["message"].clone());
        messages.push(user("what is it?"));
    }
    let history = play.history("main", "desk").await;
    let lines = crate::telling::lines(&history);
    let expected = [
        "user my name is Ada",
        "assistant end_turn: noted",
        "user what is it?",
        "assistant end_turn: noted",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn channel_openai_streams_chunks_and_says_when_it_is_done() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().text("I look.").tool("look", json!({"text": "a"})));
    stage.model.push(Reply::new().text_in(["It is ", "there."]));
    let play = stage.up().await;
    let body = json!({
        "model": "main", "stream": true, "stream_options": {"include_usage": true},
        "messages": [user("where?")],
    });
    let seen = all(post_stream(&play.api(), "/v1/chat/completions", &body).await).await;
    let (done, chunks) = seen.split_last().unwrap();
    assert_eq!(done.1, "[DONE]");
    let delta = |(_, chunk): &(String, Value)| {
        chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    };
    let text: String = chunks.iter().filter_map(delta).collect();
    assert_eq!(text, "I look.\n\nIt is there.");
    let finish: Vec<&Value> =
        chunks.iter().map(|(_, c)| &c["choices"][0]["finish_reason"]).collect();
    assert_eq!(finish[finish.len() - 2], "stop", "{finish:?}");
    let usage = &chunks.last().unwrap().1["usage"];
    assert!(usage["total_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert!(chunks.iter().all(|(_, chunk)| chunk["object"] == "chat.completion.chunk"));
}

#[tokio::test]
async fn channel_openai_refuses_in_its_own_words() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::bad_request("no such thing"));
    let play = stage.up().await;
    let ask = json!([user("x")]);
    let cases = [
        (json!({"model": "nobody", "messages": ask}), 404, "model_not_found"),
        (json!({"model": "main", "messages": ask, "tools": [{}]}), 400, "unsupported_parameter"),
        (json!({"model": "main", "messages": ask, "n": 2}), 400, "unsupported_parameter"),
        (
            json!({"model": "main", "messages": [{"role": "tool", "content": "x"}]}),
            400,
            "unknown_role",
        ),
        (json!({"model": "main", "messages": []}), 400, "nothing_to_answer"),
        (json!({"model": "main"}), 400, "invalid_body"),
        (json!({"model": "main", "messages": ask}), 422, "provider_rejected"),
    ];
    for (body, status, code) in cases {
        let refused = complete(&play.api(), None, body.clone()).await;
        assert_eq!((refused.status, refused.json["error"]["code"].as_str()), (status, Some(code)));
        assert!(refused.json["error"]["message"].as_str().unwrap().len() > 10, "{body}");
        // The clients would send a message again by themselves.
        assert_eq!(refused.headers["x-should-retry"], "false", "{body}");
    }
    let nobody = play.hive.api(Some("wrong")).unwrap().get("/v1/models").await.unwrap();
    assert_eq!((nobody.status, &nobody.json["error"]["code"]), (401, &"unauthorized".into()));
    let models = play.api().get("/v1/models").await.unwrap().good().unwrap();
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["main", "plain"]);
    whoever_asks_again_gets_the_same(&stage, &play).await;
}

async fn whoever_asks_again_gets_the_same(stage: &Stage, play: &Play) {
    stage.model.answer_with(|_| Reply::say("once"));
    let before = stage.model.requests().len();
    let body = json!({"model": "main", "messages": [
        user("a"), {"role": "assistant", "content": "b"}, user("c")]});
    for _ in 0..2 {
        let request = play.api().request(Method::POST, "/v1/chat/completions").json(&body);
        let request = request.header("idempotency-key", "retry-1");
        let done = answer(request).await.unwrap().good().unwrap();
        assert_eq!(done["choices"][0]["message"]["content"], "once");
    }
    assert_eq!(stage.model.requests().len(), before + 1);
}

#[tokio::test]
async fn channel_openai_says_what_a_message_should_look_like() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let body = json!({"model": "main", "messages": [1]});
    let told = play.api().post("/v1/chat/completions", &body).await.unwrap();
    assert_eq!((told.status, &told.json["error"]["code"]), (400, &json!("invalid_body")));
    let words = "expected a message: an object with role and content";
    assert!(told.text.contains(words), "{}", told.text);
}
