//! A small HTTP client for the doors: JSON over TCP with a bearer token, or over the unix socket.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use serde_json::Value;

use crate::wait::PATIENCE;

#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    token: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null when the body is no JSON.
    pub json: Value,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: Option<String>,
    pub id: Option<String>,
    pub data: String,
}

pub struct Events {
    stream: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Api {
    /// `base` is `http://127.0.0.1:PORT`.
    pub fn tcp(base: &str, token: Option<&str>) -> Result<Self> {
        let client = builder().build().context("building the HTTP client")?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Api { client, base, token: token.map(str::to_owned) })
    }

    /// Through a unix socket, without a token: the socket tells who we are.
    pub fn unix(socket: &Path) -> Result<Self> {
        let client = builder().unix_socket(socket).build().context("building the HTTP client")?;
        Ok(Api { client, base: "http://localhost".to_owned(), token: None })
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        answer(self.request(Method::DELETE, path)).await
    }

    /// For what the short forms cannot say: further headers, raw bodies.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Opens an event stream.
    pub async fn events(&self, path: &str) -> Result<Events> {
        let request = self.request(Method::GET, path).header("accept", "text/event-stream");
        Events::of(request).await.with_context(|| format!("opening {path}"))
    }
}

/// Sends a request; waits at most `PATIENCE` for the whole answer.
pub async fn answer(request: RequestBuilder) -> Result<Answer> {
    let response = request.timeout(PATIENCE).send().await.context("sending the request")?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.context("reading the answer")?;
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, headers, text, json })
}

impl Answer {
    /// The JSON body of a good answer, or an error that shows the bad one.
    pub fn good(self) -> Result<Value> {
        ensure!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        Ok(self.json)
    }
}

impl Events {
    /// The stream that this request is answered with.
    pub async fn of(request: RequestBuilder) -> Result<Self> {
        let response = tokio::time::timeout(PATIENCE, request.send()).await??;
        ensure!(response.status().is_success(), "answered {}", response.status());
        Ok(Self { stream: response.bytes_stream().boxed(), buffer: Vec::new() })
    }

    /// The next event, comments skipped; None at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        self.next_within(PATIENCE).await
    }

    pub async fn next_within(&mut self, patience: Duration) -> Result<Option<Event>> {
        let waiting = tokio::time::timeout(patience, self.receive());
        waiting.await.with_context(|| format!("no event came within {patience:?}"))?
    }

    async fn receive(&mut self) -> Result<Option<Event>> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8(block)?) {
                    return Ok(Some(event));
                }
            }
            match self.stream.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let values = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.map(|value| value.strip_prefix(' ').unwrap_or(value).to_owned()).collect::<Vec<_>>()
    };
    let data = field("data");
    if data.is_empty() {
        return None;
    }
    let (name, id) = (field("event").pop(), field("id").pop());
    Some(Event { name, id, data: data.join("\n") })
}

/// A client of what listens on this machine.
pub fn builder() -> ClientBuilder {
    // The first one of the process stays. Nothing here speaks TLS; a client wants it all the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Everything is on loopback: no certificates, no proxy, no connection kept between requests
    // (a pooled one would belong to the runtime of another test).
    Client::builder().no_proxy().pool_max_idle_per_host(0).tls_certs_only([])
}
