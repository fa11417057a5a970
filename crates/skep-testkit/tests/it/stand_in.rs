//! A tiny stand-in for the server's `/ws`: durable frames in memory, resume by `since`, idempotent
//! ids. It can be told to break each promise, so that the clients' checks can be seen to fail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What it does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    #[default]
    None,
    /// Closes the connection at every third message, before or after taking it.
    Drops,
    /// Acknowledges message 2 and forgets it.
    Loses,
    /// Answers message 2 twice.
    Repeats,
    /// Answers message 1 after message 2.
    Swaps,
    /// Leaves out a frame in the replay.
    Skips,
    /// Refuses message 2.
    Refuses,
    /// Says for message 2, the first time, that it does not know.
    Unsynced,
    /// Refuses message 2 and answers it.
    RefusesAndAnswers,
}

#[derive(Default)]
struct Channel {
    frames: Vec<Value>,
    taken: Vec<String>,
    held: Option<String>,
    received: usize,
    doubted: bool,
}

pub struct StandIn {
    pub url: String,
    server: JoinHandle<()>,
}

type Shared = Arc<(Lie, Mutex<Channel>)>;

impl StandIn {
    pub async fn start(lie: Lie) -> Self {
        let shared: Shared = Arc::new((lie, Mutex::default()));
        let router = Router::new().route("/ws", get(upgrade)).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        StandIn { url, server }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn upgrade(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    if token != Some("Bearer right") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if query.get("channel").is_some_and(|channel| channel != "ws:1") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let since = query.get("since").map_or(0, |since| since.parse().unwrap());
    upgrade.on_upgrade(move |socket| serve(socket, shared, since))
}

async fn serve(mut socket: WebSocket, shared: Shared, since: usize) {
    let replay: Vec<Value> = {
        let channel = shared.1.lock().unwrap();
        let skipped = usize::from(shared.0 == Lie::Skips && since > 0);
        channel.frames.iter().skip(since + skipped).cloned().collect()
    };
    let hello = json!({ "type": "hello", "channel": "ws:1", "seq": since });
    for frame in [hello].into_iter().chain(replay) {
        if socket.send(Message::text(frame.to_string())).await.is_err() {
            return;
        }
    }
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else {
            continue;
        };
        let Ok(frame) = serde_json::from_str::<Value>(&text) else {
            let error = json!({ "type": "error", "code": "bad_json", "error": "no JSON" });
            let _gone = socket.send(Message::text(error.to_string())).await;
            continue;
        };
        let (answers, stays) = take(&shared, frame["id"].as_str().unwrap());
        for frame in answers {
            if socket.send(Message::text(frame.to_string())).await.is_err() {
                return;
            }
        }
        if !stays {
            return;
        }
    }
}

/// The frames to send now, and whether the connection stays.
fn take(shared: &Shared, id: &str) -> (Vec<Value>, bool) {
    let lie = shared.0;
    let mut channel = shared.1.lock().unwrap();
    channel.received += 1;
    let (second, first) = (id.ends_with("-2"), id.ends_with("-1"));
    if lie == Lie::Drops && channel.received % 6 == 3 {
        return (Vec::new(), false);
    }
    if channel.taken.iter().any(|taken| taken == id) {
        // The same answer as before.
        return (vec![json!({ "type": "ack", "message_id": id, "state": "queued" })], true);
    }
    let doubt = lie == Lie::Unsynced && second && !channel.doubted;
    if doubt || (second && matches!(lie, Lie::Refuses | Lie::RefusesAndAnswers)) {
        channel.doubted = true;
        let code = if doubt { "store_unsynced" } else { "store_busy" };
        let mut out = vec![json!({ "type": "error", "code": code, "message_id": id })];
        if lie == Lie::RefusesAndAnswers {
            out.push(answer(&mut channel, id));
        }
        return (out, true);
    }
    channel.taken.push(id.to_owned());
    let mut out = vec![add(&mut channel, json!({ "type": "ack", "message_id": id }))];
    match lie {
        Lie::Loses if second => {}
        Lie::Swaps if first => channel.held = Some(id.to_owned()),
        _ => out.push(answer(&mut channel, id)),
    }
    if second && lie == Lie::Repeats {
        out.push(answer(&mut channel, id));
    }
    if second && let Some(held) = channel.held.take() {
        out.push(answer(&mut channel, &held));
    }
    if lie == Lie::Drops && channel.received.is_multiple_of(6) {
        return (Vec::new(), false);
    }
    if lie == Lie::Skips && second {
        return (Vec::new(), false);
    }
    (out, true)
}

fn answer(channel: &mut Channel, id: &str) -> Value {
    add(channel, json!({ "type": "response", "content": "yes", "in_reply_to": [id] }))
}

fn add(channel: &mut Channel, mut frame: Value) -> Value {
    let seq = channel.frames.len() + 1;
    frame["seq"] = json!(seq);
    frame["id"] = json!(format!("frame-{seq}"));
    channel.frames.push(frame.clone());
    frame
}
