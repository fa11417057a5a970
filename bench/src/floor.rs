//! The floors: what the work costs at least. A: a WebSocket that passes the model's words on.
//! B: the same with the message durable before the model is asked and the answer durable before
//! it is sent, and one more commit per tool call.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client;
use crate::floor_store::FloorStore;

struct Floor {
    http: reqwest::Client,
    model: String,
    store: Option<FloorStore>,
    note: PathBuf,
}

pub async fn serve(model: String, folder: Option<PathBuf>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let folder_of_note = folder.clone().unwrap_or_else(std::env::temp_dir);
    let store = match &folder {
        Some(folder) => Some(FloorStore::open(&folder.join("floor.db"))?),
        None => None,
    };
    let http = client::http()?;
    let floor = Arc::new(Floor { http, model, store, note: folder_of_note.join("note.txt") });
    println!("listening on http://{}", listener.local_addr()?);
    let router = Router::new().route("/ws", get(upgrade)).with_state(floor);
    let listener = axum::serve::ListenerExt::tap_io(listener, |socket| {
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

#[derive(serde::Deserialize)]
struct Wants {
    #[serde(default)]
    stream: bool,
}

async fn upgrade(
    State(floor): State<Arc<Floor>>,
    Query(wants): Query<Wants>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(move |socket| async move {
        // A client that leaves ends its own connection, nothing else.
        let _ = talk(&floor, wants.stream, socket).await;
    })
}

async fn talk(floor: &Floor, stream: bool, mut socket: WebSocket) -> Result<()> {
    socket.send(frame(json!({ "type": "hello" }))).await?;
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text)?;
        let id = asked["id"].clone();
        let words = asked["content"].as_str().unwrap_or_default().to_owned();
        if let Some(store) = &floor.store {
            store.keep(words.clone()).await?;
        }
        let answer = turn(floor, stream, &mut socket, &words).await?;
        if let Some(store) = &floor.store {
            store.keep(answer.clone()).await?;
        }
        let response = json!({ "type": "response", "content": answer, "in_reply_to": [id] });
        socket.send(frame(response)).await?;
    }
    Ok(())
}

async fn turn(floor: &Floor, stream: bool, socket: &mut WebSocket, words: &str) -> Result<String> {
    let user = json!({ "role": "user", "content": [{ "type": "text", "text": words }] });
    let mut messages = vec![user];
    loop {
        let said = call(floor, stream, socket, &messages).await?;
        let Some(tool) = said.tool else { return Ok(said.text) };
        let text = tokio::fs::read_to_string(&floor.note).await.unwrap_or_default();
        if let Some(store) = &floor.store {
            store.keep(text.clone()).await?;
        }
        messages.push(json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": tool, "name": "read", "input": {} }] }));
        messages.push(json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": tool, "content": text }] }));
    }
}

struct Said {
    text: String,
    tool: Option<String>,
}

async fn call(
    floor: &Floor,
    stream: bool,
    socket: &mut WebSocket,
    messages: &[Value],
) -> Result<Said> {
    let body = json!({ "model": "instant", "max_tokens": 1024, "stream": true,
        "messages": messages });
    let request = floor.http.post(format!("{}/v1/messages", floor.model)).json(&body);
    let mut bytes = request.send().await?.error_for_status()?.bytes_stream();
    let mut rest: Vec<u8> = Vec::new();
    let mut said = Said { text: String::new(), tool: None };
    while let Some(piece) = bytes.next().await {
        rest.extend_from_slice(&piece?);
        while let Some(end) = find(&rest) {
            let event: Vec<u8> = rest.drain(..end + 2).collect();
            let Some(data) = data_of(&event) else { continue };
            let event: Value = serde_json::from_slice(data)?;
            if let Some(text) = event["delta"]["text"].as_str() {
                said.text.push_str(text);
                if stream {
                    socket.send(frame(json!({ "type": "delta", "text": text }))).await?;
                }
            }
            if event["content_block"]["type"] == "tool_use" {
                let id = event["content_block"]["id"].as_str().context("a call without id")?;
                said.tool = Some(id.to_owned());
            }
            if event["type"] == "message_stop" {
                return Ok(said);
            }
        }
    }
    bail!("the model's answer was cut")
}

fn find(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\n\n")
}

fn data_of(event: &[u8]) -> Option<&[u8]> {
    event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "))
}

fn frame(value: Value) -> Message {
    Message::Text(value.to_string().into())
}
