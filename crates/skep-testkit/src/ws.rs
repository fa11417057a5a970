//! A WebSocket client for `/ws` that a test drives frame by frame.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, Request};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::wait::PATIENCE;

/// Frames with a `seq` of these kinds are replayed after a reconnect.
const DURABLE: &[&str] = &["ack", "response", "notification", "question", "approval", "error"];

/// Where and as whom to connect.
#[derive(Clone, Debug)]
pub struct WsTarget {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    pub token: Option<String>,
    /// Resume this channel…
    pub channel: Option<String>,
    /// …after this frame.
    pub since: Option<u64>,
    pub headers: Vec<(String, String)>,
    /// Further query parameters, as they stand in the address.
    pub query: Vec<String>,
    /// What the kernel keeps for a reader that does not read; as it likes where nothing is said.
    pub receive_bytes: Option<u32>,
}

/// The server did not open a WebSocket.
#[derive(Clone, Debug)]
pub struct Refused {
    /// None when there was no HTTP answer at all.
    pub status: Option<u16>,
    pub text: String,
}

pub struct WsClient {
    stream: WebSocketStream<TcpStream>,
    hello: Value,
    durable: BTreeMap<u64, Value>,
    close_code: Option<u16>,
}

impl WsTarget {
    pub fn new(url: &str, token: Option<&str>) -> Self {
        WsTarget {
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
            channel: None,
            since: None,
            headers: Vec::new(),
            query: Vec::new(),
            receive_bytes: None,
        }
    }

    pub fn resume(mut self, channel: &str, since: u64) -> Self {
        self.channel = Some(channel.to_owned());
        self.since = Some(since);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn query(mut self, parameter: &str) -> Self {
        self.query.push(parameter.to_owned());
        self
    }

    /// A reader whose kernel keeps little for it, and not more and more.
    pub fn receive_bytes(mut self, bytes: u32) -> Self {
        self.receive_bytes = Some(bytes);
        self
    }

    async fn dial(&self) -> std::io::Result<TcpStream> {
        let address = self.authority().parse().map_err(std::io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = self.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect(address).await
    }

    fn authority(&self) -> &str {
        self.url.split_once("://").map_or(self.url.as_str(), |(_, authority)| authority)
    }

    fn request(&self) -> Result<Request<()>> {
        let channel = self.channel.iter().map(|id| format!("channel={id}"));
        let since = self.since.iter().map(|seq| format!("since={seq}"));
        let query: Vec<String> = channel.chain(since).chain(self.query.clone()).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let address = format!("ws://{}/ws{mark}{}", self.authority(), query.join("&"));
        let mut request = address.into_client_request()?;
        let token =
            self.token.iter().map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
        for (name, value) in token.chain(self.headers.clone()) {
            let name = HeaderName::try_from(name)?;
            request.headers_mut().insert(name, HeaderValue::try_from(value)?);
        }
        Ok(request)
    }
}

impl WsClient {
    /// Connects and takes the `hello`.
    pub async fn connect(target: &WsTarget) -> Result<Self> {
        match Self::try_connect(target).await? {
            Ok(client) => Ok(client),
            Err(refused) => bail!("no WebSocket: {refused:?}"),
        }
    }

    /// Connects, or says how the server refused.
    pub async fn try_connect(target: &WsTarget) -> Result<Result<Self, Refused>> {
        let request = target.request()?;
        let opening = async {
            let tcp = target.dial().await.map_err(Error::Io)?;
            tcp.set_nodelay(true).map_err(Error::Io)?;
            tokio_tungstenite::client_async(request, tcp).await
        };
        let opened = tokio::time::timeout(PATIENCE, opening).await.context("opening /ws")?;
        let (stream, _) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(refused(&error))),
        };
        let (hello, durable) = (Value::Null, BTreeMap::new());
        let mut client = WsClient { stream, hello, durable, close_code: None };
        client.hello = client.next().await?.context("the socket closed before its hello")?;
        ensure!(client.hello["type"] == "hello", "first frame is {}", client.hello);
        Ok(Ok(client))
    }

    /// The first frame: `{channel, seq}`.
    pub fn hello(&self) -> &Value {
        &self.hello
    }

    pub fn channel(&self) -> &str {
        self.hello["channel"].as_str().unwrap_or_default()
    }

    pub async fn send(&mut self, frame: &Value) -> Result<()> {
        self.send_raw(Message::text(frame.to_string())).await
    }

    /// A message with an id that makes sending it again harmless.
    pub async fn say(&mut self, id: &str, content: &str) -> Result<()> {
        self.send(&json!({ "content": content, "id": id })).await
    }

    /// Anything: broken JSON, binary frames, pings.
    pub async fn send_raw(&mut self, message: Message) -> Result<()> {
        self.stream.send(message).await.context("sending a frame")
    }

    /// The next JSON frame; None when the socket is closed. Waits at most `PATIENCE`.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        self.next_within(PATIENCE).await
    }

    pub async fn next_within(&mut self, patience: Duration) -> Result<Option<Value>> {
        let waiting = tokio::time::timeout(patience, self.receive());
        waiting.await.with_context(|| format!("no frame came within {patience:?}"))?
    }

    /// As `next`, without a deadline; safe to drop and call again.
    pub async fn receive(&mut self) -> Result<Option<Value>> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text)
                        .with_context(|| format!("a frame is no JSON: {text}"))?;
                    self.keep(&frame)?;
                    return Ok(Some(frame));
                }
                Some(Ok(Message::Close(close))) => {
                    self.close_code = close.map(|close| close.code.into());
                }
                Some(Ok(Message::Binary(_))) => bail!("the server sent a binary frame"),
                Some(Ok(_)) => {}
                // A reset is an end like any other: the test looks at what came before.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }

    /// Skips frames until one of this type.
    pub async fn next_of(&mut self, kind: &str) -> Result<Value> {
        self.find(kind, |frame| frame["type"] == kind).await
    }

    /// Skips frames until the one that ends this message.
    pub async fn answer_to(&mut self, id: &str) -> Result<Value> {
        let ends = |frame: &Value| is_answer(frame) && replies_to(frame).any(|reply| reply == id);
        self.find(&format!("answer to {id}"), ends).await
    }

    /// Skips frames until one fits.
    pub async fn find(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let search = async {
            while let Some(frame) = self.receive().await? {
                if fits(&frame) {
                    return Ok(frame);
                }
            }
            bail!("the socket closed before: {what}")
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.with_context(|| format!("waited {PATIENCE:?} in vain for: {what}"))?
    }

    /// Every durable frame received on this socket, by seq.
    pub fn durable(&self) -> &BTreeMap<u64, Value> {
        &self.durable
    }

    /// The code of the close frame, once it has come.
    pub fn close_code(&self) -> Option<u16> {
        self.close_code
    }

    /// Reads to the end of the socket; gives the close code.
    pub async fn wait_closed(&mut self) -> Result<Option<u16>> {
        while self.next().await?.is_some() {}
        Ok(self.close_code)
    }

    /// A proper goodbye.
    pub async fn close(mut self) -> Result<()> {
        self.stream.close(None).await.context("closing the socket")
    }

    /// Vanishes with a reset, without a goodbye.
    pub fn reset(self) -> Result<()> {
        self.stream.get_ref().set_zero_linger().context("arming the reset")
    }

    fn keep(&mut self, frame: &Value) -> Result<()> {
        let Some(seq) = durable_seq(frame) else { return Ok(()) };
        let before = self.durable.insert(seq, frame.clone());
        ensure!(before.is_none(), "frame {seq} came twice on one socket");
        Ok(())
    }
}

/// The seq of a frame that is replayed after a reconnect.
pub fn durable_seq(frame: &Value) -> Option<u64> {
    let kind = frame["type"].as_str()?;
    DURABLE.contains(&kind).then(|| frame["seq"].as_u64()).flatten()
}

/// Whether this frame ends the messages it replies to.
pub fn is_answer(frame: &Value) -> bool {
    matches!(frame["type"].as_str(), Some("response" | "error")) && durable_seq(frame).is_some()
}

/// The message ids a frame stands for.
pub fn replies_to(frame: &Value) -> impl Iterator<Item = &str> {
    frame["in_reply_to"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn refused(error: &Error) -> Refused {
    let status = match error {
        Error::Http(response) => Some(response.status().as_u16()),
        _ => None,
    };
    Refused { status, text: error.to_string() }
}
