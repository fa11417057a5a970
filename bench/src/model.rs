//! The instant model: the Anthropic wire, an answer as soon as the request is in.
//!
//! What it says is chosen by the newest words of the person: `stream N` gives N tokens, `tools N`
//! asks for N reads one after the other and then answers, `delegate TEAM` gives a task, whose
//! result it knows again; anything else is one token. While it is
//! held (`POST /hold`, `POST /release`) it answers nobody. `GET /newest` is the last request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The words of a task, of its result, and of whoever has read that.
const TASK: &str = "task";
const RESULT: &str = "result";
pub const OVER: &str = "over";
/// A task takes so long, so that whoever gave it is done with its turn.
const AT_WORK: Duration = Duration::from_millis(5);

/// Whether it is held, and what it was asked last.
#[derive(Clone)]
struct Model {
    held: Arc<watch::Sender<bool>>,
    newest: Arc<Mutex<Bytes>>,
}

impl Model {
    fn hold(&self, held: bool) -> String {
        self.held.send_replace(held).to_string()
    }

    fn newest(&self) -> MutexGuard<'_, Bytes> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let model = Model { held: Arc::new(watch::Sender::new(false)), newest: Arc::default() };
    let router = Router::new()
        .route("/v1/messages", post(answer))
        .route("/hold", post(async |State(model): State<Model>| model.hold(true)))
        .route("/release", post(async |State(model): State<Model>| model.hold(false)))
        .route("/newest", get(async |State(model): State<Model>| model.newest().clone()))
        .with_state(model);
    let listener = axum::serve::ListenerExt::tap_io(listener, |socket| {
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

async fn answer(State(model): State<Model>, request: Request) -> Response {
    // The sender lives as long as the server.
    let _ = model.held.subscribe().wait_for(|held| !held).await;
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
    *model.newest() = body.clone();
    let pieces = match serde_json::from_slice::<Value>(&body) {
        Ok(asked) => {
            let (words, results) = newest(&asked);
            if words == TASK {
                tokio::time::sleep(AT_WORK).await;
            }
            say(&words, results)
        }
        Err(_) => vec![Bytes::from_static(b"event: error\ndata: {}\n\n")],
    };
    let stream = stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>));
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    response.body(Body::from_stream(stream)).unwrap_or_default()
}

fn say(words: &str, results: usize) -> Vec<Bytes> {
    match words.split_once(' ') {
        Some(("stream", number)) => text(number.trim().parse().unwrap_or(1)),
        Some(("tools", number)) if results < number.trim().parse().unwrap_or(0) => read(results),
        Some(("delegate", team)) if results == 0 => delegate(team),
        None if words == TASK => word(RESULT),
        None if words == RESULT => word(OVER),
        _ => text(1),
    }
}

/// The last words a person or another agent said, and how many results of calls came after them.
fn newest(asked: &Value) -> (String, usize) {
    let empty = Vec::new();
    let messages = asked["messages"].as_array().unwrap_or(&empty);
    let mut results = 0;
    for message in messages.iter().rev() {
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let called = blocks.iter().filter(|block| block["type"] == "tool_result").count();
        results += called;
        if message["role"] == "user" && called == 0 {
            let text = match &message["content"] {
                Value::String(text) => text.clone(),
                _ => blocks.iter().rev().find_map(|b| b["text"].as_str()).unwrap_or("").to_owned(),
            };
            // A prompt may put a line of its own before the words.
            let last = text.trim().lines().next_back().unwrap_or("").to_owned();
            return (last, results);
        }
    }
    (String::new(), results)
}

fn text(tokens: usize) -> Vec<Bytes> {
    let deltas =
        (0..tokens).map(|number| json!({ "type": "text_delta", "text": format!("tok{number} ") }));
    answered(json!({ "type": "text", "text": "" }), deltas, "end_turn", tokens)
}

fn word(word: &str) -> Vec<Bytes> {
    let delta = json!({ "type": "text_delta", "text": word });
    answered(json!({ "type": "text", "text": "" }), [delta], "end_turn", 1)
}

fn read(number: usize) -> Vec<Bytes> {
    // Each another page of it: the same call ten times over would be a loop.
    call("read", number, &json!({ "file_path": "note.txt", "limit": number + 1 }))
}

fn delegate(team: &str) -> Vec<Bytes> {
    let task = json!({ "team": team, "task": TASK, "overlap_policy": "allow" });
    call("delegate_task", 0, &task)
}

fn call(tool: &str, number: usize, input: &Value) -> Vec<Bytes> {
    let id = format!("toolu_{number}");
    let block = json!({ "type": "tool_use", "id": id, "name": tool, "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
    answered(block, [delta], "tool_use", 20)
}

/// The events of an answer of one block.
fn answered(
    block: Value,
    deltas: impl IntoIterator<Item = Value>,
    reason: &str,
    tokens: usize,
) -> Vec<Bytes> {
    let usage = json!({ "input_tokens": 10, "output_tokens": 1,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0 });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "instant",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut pieces = vec![
        event("message_start", json!({ "message": message })),
        event("content_block_start", json!({ "index": 0, "content_block": block })),
    ];
    let delta = |delta| event("content_block_delta", json!({ "index": 0, "delta": delta }));
    pieces.extend(deltas.into_iter().map(delta));
    let end = json!({ "stop_reason": reason, "stop_sequence": null });
    pieces.extend([
        event("content_block_stop", json!({ "index": 0 })),
        event("message_delta", json!({ "delta": end, "usage": { "output_tokens": tokens } })),
        event("message_stop", json!({})),
    ]);
    pieces
}

/// An event; its data repeats its name.
fn event(name: &str, mut data: Value) -> Bytes {
    data["type"] = name.into();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(text: &str) -> Value {
        json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
    }

    #[test]
    fn the_newest_words_choose_the_answer() {
        let result = json!({ "role": "user", "content": [{ "type": "tool_result" }] });
        let model = json!({ "role": "assistant", "content": [] });
        let said = |messages: Vec<Value>| {
            let (words, results) = newest(&json!({ "messages": messages }));
            say(&words, results)
        };
        let asked = |messages: Vec<Value>| said(messages).len();
        let one = text(1).len();
        assert_eq!(asked(vec![person("hello")]), one);
        assert_eq!(asked(vec![person("[now]\nstream 5")]), one + 4);
        let tools = |results: usize| {
            let mut messages = vec![person("tools 2")];
            for _ in 0..results {
                messages.extend([model.clone(), result.clone()]);
            }
            String::from_utf8(said(messages).concat()).unwrap()
        };
        assert!(tools(0).contains("toolu_0"));
        assert!(tools(1).contains("toolu_1"));
        assert!(tools(2).contains("end_turn"));
        let told = |text: &str| String::from_utf8(said(vec![person(text)]).concat()).unwrap();
        assert!(told("[now]\ndelegate agent-1").contains("delegate_task"));
        assert!(told("[now]\ntask").contains(r#""text":"result""#));
        assert!(told("[event task_done]\ntask\nResult:\nresult").contains(r#""text":"over""#));
    }
}
