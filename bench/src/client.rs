//! The load client: one WebSocket, the same words to floors and hive.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::model;

/// Where to connect to.
#[derive(Clone)]
pub struct Endpoint {
    pub url: String,
    pub token: Option<String>,
}

pub struct LoadClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    sent: u64,
    name: String,
}

/// A client for HTTP on this machine.
pub fn http() -> Result<reqwest::Client> {
    // The first one of the process stays. Nothing here speaks TLS; a client wants it all the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([]).tcp_nodelay(true);
    Ok(builder.build()?)
}

/// Longer than any turn over an instant model.
const PATIENCE: Duration = Duration::from_secs(60);

impl LoadClient {
    pub async fn connect(target: &Endpoint, stream: bool) -> Result<Self> {
        let address = target.url.replacen("http", "ws", 1);
        let query = if stream { "?stream=true" } else { "" };
        let mut request = format!("{address}/ws{query}").into_client_request()?;
        if let Some(token) = &target.token {
            let value = format!("Bearer {token}").parse()?;
            request.headers_mut().insert("authorization", value);
        }
        let connect = tokio_tungstenite::connect_async_with_config(request, None, true);
        let (socket, _) = connect.await.context("opening a socket")?;
        let mut client = Self { socket, sent: 0, name: String::new() };
        let hello = client.next().await?;
        client.name = hello["channel"].as_str().unwrap_or("floor").to_owned();
        Ok(client)
    }

    /// Sends words and waits for the answer; `session` keeps talks short where it is given.
    pub async fn turn(&mut self, words: &str, session: Option<&str>) -> Result<Duration> {
        let begun = Instant::now();
        self.send(words, session).await?;
        self.answer().await?;
        Ok(begun.elapsed())
    }

    /// Has `main` give a team a task, and waits until its result was read; how many turns that
    /// took. A result that comes early is read by the turn that gave the task.
    pub async fn delegate(&mut self, team: &str, session: &str) -> Result<usize> {
        self.send(&format!("delegate {team}"), Some(session)).await?;
        loop {
            let frame = self.next().await?;
            let text = frame["content"].as_str().unwrap_or_default();
            match frame["type"].as_str() {
                Some("response") if text.ends_with(model::OVER) => return Ok(2),
                Some("notification") if text.ends_with(model::OVER) => return Ok(3),
                Some("error") => bail!("the turn failed: {frame}"),
                _ => {}
            }
        }
    }

    pub async fn send(&mut self, words: &str, session: Option<&str>) -> Result<()> {
        self.sent += 1;
        let mut frame = json!({ "content": words, "id": format!("m{}", self.sent) });
        if let Some(session) = session {
            frame["session"] = json!(session);
        }
        self.raw(&frame).await
    }

    pub async fn raw(&mut self, frame: &Value) -> Result<()> {
        self.socket.send(Message::text(frame.to_string())).await?;
        Ok(())
    }

    /// Waits for the next `response`.
    pub async fn answer(&mut self) -> Result<()> {
        loop {
            let frame = self.next().await?;
            match frame["type"].as_str() {
                Some("response") => return Ok(()),
                Some("error") => bail!("the turn failed: {frame}"),
                _ => {}
            }
        }
    }

    pub async fn next(&mut self) -> Result<Value> {
        loop {
            let received = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match received.context("no frame came")?.context("the socket closed")?? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(frame) => bail!("the socket was closed: {frame:?}"),
                _ => {}
            }
        }
    }
}
