//! One call is one turn: clients of `/v1` that give up, send again, or go away.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::{Answer, Events, answer};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Gate, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Play, Stage};

const COMPLETIONS: &str = "/v1/chat/completions";
/// Grace, join, headers and space in milliseconds. Nothing happens by itself in these.
const PATIENT: &str = "600000 600000 600000 600000";

impl Stage {
    /// The rig with these times for clients.
    async fn up_for_calls(&self, times: &str) -> Play {
        self.run(self.start().env("RIG_CALL_TIMES", times)).await
    }

    /// The model answers every request with `text` once the gate is open.
    fn held(&self, text: &'static str) -> Gate {
        self.model.answer_with(move |_| Reply::new().gate_first("held").text(text));
        self.model.gate("held")
    }
}

fn ask(text: &str) -> Value {
    json!({"model": "main", "messages": [{"role": "user", "content": text}]})
}

/// A client of its own for each call: none of them finds another's connection.
async fn call(play: &Play, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut request = play.api().request(Method::POST, COMPLETIONS).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(request).await.unwrap()
}

/// A connection with a request on it.
struct Waiting(TcpStream);

impl Waiting {
    async fn send(play: &Play, path: &str, headers: &str, body: &Value) -> Self {
        let host = play.hive.url().unwrap().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&host).await.unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
            play.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        Self(stream)
    }

    async fn call(play: &Play, body: &Value) -> Self {
        Self::send(play, COMPLETIONS, "", body).await
    }

    /// Goes away, and waits until the server has noticed. What it had sent until then.
    async fn close(mut self) -> String {
        self.0.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut rest));
        // A connection that is reset has ended, too.
        let _ = read.await.expect("the server closes the connection");
        String::from_utf8(rest).unwrap()
    }
}

impl Play {
    async fn inbox(&self) -> Vec<Value> {
        let page = self.api().get("/api/v1/inbox").await.unwrap().good().unwrap();
        page["items"].as_array().unwrap().clone()
    }

    /// An item once it has ended. Nobody waits for it meanwhile: that would keep it alive.
    async fn end_of(&self, id: &str) -> Value {
        let ended = wait::until_async("the end of an item", PATIENCE, async || {
            let item = self.api().get(&format!("/api/v1/inbox/{id}")).await.unwrap();
            Some(item.good().unwrap()).filter(|item| item["finished_at"].is_i64())
        });
        ended.await.unwrap()
    }

    /// The only item there is, once it has ended.
    async fn only_end(&self) -> Value {
        let ended = wait::until_async("the end of the only item", PATIENCE, async || {
            let mut items = self.inbox().await;
            assert!(items.len() < 2, "{items:?}");
            items.pop().filter(|item| item["finished_at"].is_i64())
        });
        ended.await.unwrap()
    }
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn channel_calls_sent_again_after_the_connection_closed_join_the_first() {
    let stage = Stage::new().await;
    let gate = stage.held("here");
    let play = stage.up_for_calls(PATIENT).await;
    let body = ask("long work");
    let first = Waiting::call(&play, &body).await;
    stage.model.wait_for_request(1).await.unwrap();
    assert_eq!(first.close().await, "");
    let again = Waiting::call(&play, &body).await;
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    // Another body is another call.
    let other = Waiting::call(&play, &streamed).await;
    stage.model.wait_for_request(2).await.unwrap();
    assert_eq!(again.close().await, "");
    drop(other.close().await);
    gate.open();
    for item in play.inbox().await {
        play.ended("main", item["item_id"].as_str().unwrap()).await;
    }
    // It has ended while nobody waited: the answer is still there, for the one that asks for it.
    let done = call(&play, &[], &body).await.good().unwrap();
    assert_eq!(content(&done), "here");
    let items = play.inbox().await;
    assert_eq!(items.len(), 2, "{items:?}");
    let id = format!("chatcmpl-{}", items[1]["item_id"].as_str().unwrap());
    assert_eq!(done["id"], json!(id));
    // Answered is answered: the same words again are a new call.
    let new = call(&play, &[], &body).await.good().unwrap();
    assert_ne!(new["id"], done["id"]);
    // Unless the client says that it never got it.
    let repeated = call(&play, &[("x-stainless-retry-count", "1")], &body).await.good().unwrap();
    assert_eq!(repeated["id"], new["id"]);
    assert_eq!(repeated["usage"], new["usage"]);
    assert!(new["usage"]["total_tokens"].as_u64().unwrap() > 0, "{new}");
    assert_eq!(play.inbox().await.len(), 3);
    assert_eq!(stage.model.requests().len(), 3);
}

#[tokio::test]
async fn channel_calls_that_are_open_at_once_are_two_unless_one_is_a_retry() {
    let stage = Stage::new().await;
    let gate = stage.held("here");
    let play = stage.up_for_calls(PATIENT).await;
    let mut body = ask("the same");
    body["stream"] = true.into();
    let mut open = Vec::new();
    for retry in ["0", "0", "1", "2"] {
        let request = play.api().request(Method::POST, COMPLETIONS).json(&body);
        let request = request.header("x-stainless-retry-count", retry);
        open.push(Events::of(request).await.unwrap());
    }
    assert_eq!(play.inbox().await.len(), 2);
    gate.open();
    let mut ids = Vec::new();
    for mut events in open {
        let mut text = String::new();
        while let Some(event) = events.next().await.unwrap() {
            let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
            ids.extend(chunk["id"].as_str().map(str::to_owned));
            text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        }
        assert_eq!(text, "here");
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), play.inbox().await.len()), (2, 2));
}

#[tokio::test]
async fn channel_calls_join_across_a_restart() {
    let stage = Stage::new().await;
    let gate = stage.held("here");
    let mut play = stage.up_for_calls(PATIENT).await;
    let mut body = ask("long work");
    body["messages"] = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]);
    let first = Waiting::call(&play, &body).await;
    stage.model.wait_for_request(1).await.unwrap();
    play.hive.kill().await.unwrap();
    drop(first);

    let play = stage.up_for_calls(PATIENT).await;
    let opened = async {
        stage.model.wait_for_request(2).await.unwrap();
        gate.open();
    };
    let (done, ()) = tokio::join!(call(&play, &[], &body), opened);
    assert_eq!(content(&done.good().unwrap()), "here");
    assert_eq!(play.inbox().await.len(), 1);
    assert_eq!(play.only_end().await["state"], "done");
}

#[tokio::test]
async fn channel_calls_of_clients_that_went_away_are_stopped() {
    let stage = Stage::new().await;
    let _held = stage.held("never");
    let mut play = stage.up_for_calls("200 600000 600000 600000").await;
    let whole = ask("whole");
    let streamed = json!({"model": "main", "stream": true, "messages": whole["messages"]});
    let kept = "X-Skep-On-Close: keep\r\n";
    for (number, (path, headers, body, code)) in [
        (COMPLETIONS, "", &whole, Some("client_gone")),
        (COMPLETIONS, "", &streamed, Some("client_gone")),
        (COMPLETIONS, kept, &whole, None),
        (COMPLETIONS, "X-Skep-Session: desk\r\n", &whole, None),
        (
            COMPLETIONS,
            "X-Skep-Session: s\r\nX-Skep-On-Close: stop\r\n",
            &whole,
            Some("client_gone"),
        ),
        (
            "/api/v1/agents/main/messages?wait=true",
            "X-Skep-On-Close: stop\r\n",
            &json!({"message": "x", "session_key": "waits"}),
            Some("client_gone"),
        ),
        (
            "/api/v1/agents/main/messages?stream=true",
            "",
            &json!({"message": "x", "session_key": "stays"}),
            None,
        ),
        (
            "/api/v1/agents/main/messages?stream=true",
            "X-Skep-On-Close: stop\r\n",
            &json!({"message": "x", "session_key": "streams"}),
            Some("client_gone"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let waiting = Waiting::send(&play, path, headers, body).await;
        stage.model.wait_for_request(number + 1).await.unwrap();
        let item = play.inbox().await.remove(0);
        let id = item["item_id"].as_str().unwrap();
        waiting.close().await;
        // What goes on is looked at after the last one was stopped: it had the time to be.
        if let Some(code) = code {
            let ended = play.end_of(id).await;
            let shown = (&ended["state"], &ended["error"]["code"]);
            assert_eq!(shown, (&json!("cancelled"), &json!(code)));
            stage.model.wait_for_end(number + 1).await.unwrap();
        }
    }
    let open: Vec<Value> =
        play.inbox().await.into_iter().filter(|item| item["state"] == "running").collect();
    assert_eq!(open.len(), 3, "{open:?}");
    // A client does not come back from a crash of the hive: its turn ends, those kept go on.
    let _gone = Waiting::call(&play, &ask("crash")).await;
    stage.model.wait_for_request(9).await.unwrap();
    play.hive.kill().await.unwrap();
    let play = stage.up_for_calls("200 600000 600000 600000").await;
    let newest = play.inbox().await.remove(0);
    let ended = play.end_of(newest["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["error"]["code"], "client_gone", "{ended}");
    let still = play.inbox().await.into_iter().filter(|item| item["finished_at"].is_null());
    assert_eq!(still.count(), 3);
}

#[tokio::test]
async fn channel_calls_that_take_long_are_kept_alive_and_break_off_when_they_fail() {
    let stage = Stage::new().await;
    let gate = stage.held("at last");
    let play = stage.up_for_calls("600000 600000 3000 20").await;
    let request = play.api().request(Method::POST, COMPLETIONS).json(&ask("slow"));
    // The headers come while the model is held back.
    let response = tokio::time::timeout(PATIENCE, request.send()).await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    gate.open();
    let text = response.text().await.unwrap();
    assert!(text.starts_with(' '), "{text}");
    let done: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(content(&done), "at last");

    let gate = stage.model.gate("fails");
    stage.model.answer_with(|_| {
        Reply::new().gate_first("fails").error_event("invalid_request_error", "no such thing")
    });
    let request = play.api().request(Method::POST, COMPLETIONS).json(&ask("fails"));
    let response = tokio::time::timeout(PATIENCE, request.send()).await.unwrap().unwrap();
    gate.open();
    assert!(response.text().await.is_err(), "a body that is broken off is no answer");
    for headers in [&[("x-stainless-retry-count", "1")][..], &[]] {
        let told = call(&play, headers, &ask("fails")).await;
        let shown = (told.status, told.headers["x-should-retry"].to_str().unwrap());
        assert_eq!(shown, (422, "false"), "{}", told.text);
        // The second is a new call: the first was told.
        assert_eq!(play.inbox().await.len(), if headers.is_empty() { 3 } else { 2 });
    }
}

#[tokio::test]
async fn channel_calls_tell_of_a_failure_in_the_same_words_streamed_and_in_one_piece() {
    let stage = Stage::new().await;
    let failing = || Reply::new().error_event("invalid_request_error", "no such thing");
    stage.model.answer_with(move |_| failing());
    let play = stage.up_for_calls("600000 600000 600000 600000").await;
    let told = call(&play, &[], &ask("one")).await;
    let whole: Value = serde_json::from_str(&told.text).unwrap();
    let mut body = ask("other");
    body["stream"] = true.into();
    let request = play.api().request(Method::POST, COMPLETIONS).json(&body);
    let mut events = Events::of(request).await.unwrap();
    let streamed = loop {
        let event = events.next().await.unwrap().expect("the stream goes on");
        let chunk: Value = serde_json::from_str(&event.data).unwrap();
        if chunk.get("error").is_some() {
            break chunk;
        }
    };
    assert_eq!(whole["error"]["type"], "invalid_request_error", "{whole}");
    assert_eq!(streamed, whole);
}

#[tokio::test]
async fn channel_calls_tell_that_they_wait_for_a_person() {
    let stage = Stage::new().await;
    let asks = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
    stage.write("teams/main/config.yaml", asks);
    stage.model.push(Reply::new().tool("bash", json!({"command": "echo x"})));
    let play = stage.up_for_calls("100 600000 600000 600000").await;
    let mut body = ask("clean up");
    body["stream"] = true.into();
    let request = play.api().request(Method::POST, COMPLETIONS).json(&body);
    let mut events = Events::of(request).await.unwrap();
    let told = loop {
        let event = events.next().await.unwrap().expect("the stream goes on");
        let chunk: Value = serde_json::from_str(&event.data).unwrap();
        if let Some(told) = chunk["choices"][0]["delta"]["reasoning_content"].as_str() {
            break told.to_owned();
        }
    };
    assert!(told.starts_with("The turn waits: ") && told.contains("bash"), "{told}");
    // Nobody waits for it any more: nobody is asked any more.
    drop(events);
    let ended = play.only_end().await;
    assert_eq!(ended["error"]["code"], "client_gone", "{ended}");
    assert_eq!(play.questions().await.len(), 0);
}

#[tokio::test]
async fn channel_calls_have_the_same_text_streamed_and_not_and_say_why_they_ended() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let cases = [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "content_filter")];
    for (reason, expected) in cases {
        let mut told = Vec::new();
        for stream in [false, true] {
            stage.model.push(Reply::new().text("I look.").tool("look", json!({"text": "a"})));
            stage.model.push(Reply::new().text_in(["It is ", "4."]).stop_reason(reason));
            let mut body = ask("/status is text here");
            body["stream"] = stream.into();
            told.push(match stream {
                false => {
                    let done = call(&play, &[], &body).await.good().unwrap();
                    let finish = done["choices"][0]["finish_reason"].as_str().unwrap().to_owned();
                    (content(&done).to_owned(), finish)
                }
                true => streamed(&play, &body).await,
            });
        }
        let expected = ("I look.\n\nIt is 4.".to_owned(), expected.to_owned());
        assert_eq!(told, [expected.clone(), expected], "{reason}");
    }
    let shown = stage.model.requests()[0].last_user_text();
    assert!(shown.ends_with("/status is text here"), "{shown}");
}

/// The text and the reason for its end.
async fn streamed(play: &Play, body: &Value) -> (String, String) {
    let request = play.api().request(Method::POST, COMPLETIONS).json(body);
    let mut events = Events::of(request).await.unwrap();
    let (mut text, mut finish) = (String::new(), String::new());
    while let Some(event) = events.next().await.unwrap() {
        let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let choice = &chunk["choices"][0];
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        finish.push_str(choice["finish_reason"].as_str().unwrap_or_default());
    }
    (text, finish)
}

#[tokio::test]
async fn channel_answers_carry_the_id_of_their_request() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    for (given, expected) in
        [(Some("mine-1"), Some("mine-1")), (Some("two words"), None), (None, None)]
    {
        for path in ["/v1/models", "/api/v1/state", "/nothing"] {
            let mut request = play.api().request(Method::GET, path);
            if let Some(given) = given {
                request = request.header("x-request-id", given);
            }
            let told = answer(request).await.unwrap();
            let id = told.headers["x-request-id"].to_str().unwrap();
            match expected {
                Some(expected) => assert_eq!(id, expected, "{path}"),
                None => assert!(id.starts_with("req_") && id.len() > 20, "{path}: {id}"),
            }
        }
    }
    let request = play.api().request(Method::GET, "/v1/models").header("x-skep-on-close", "go");
    assert_eq!(answer(request).await.unwrap().status, 200, "it says nothing to other routes");
    let request = play.api().request(Method::POST, COMPLETIONS).json(&ask("x"));
    let refused = answer(request.header("x-skep-on-close", "go")).await.unwrap();
    assert_eq!((refused.status, &refused.json["error"]["code"]), (400, &json!("invalid_header")));
}
