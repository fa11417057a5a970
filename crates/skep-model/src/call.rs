//! One call on the wire: send, follow the stream, watch the clock. Dropping it closes the
//! connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, StatusCode};
use secrecy::ExposeSecret;
use skep_core::BoxStream;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest};
use tokio::time::Instant;

use crate::answer::Decode;
use crate::failure;
use crate::link::{Link, Wire};
use crate::sse::Parser;

/// An explanation of an error is a few hundred bytes; a page of a proxy may be longer.
const ERROR_BODY_BYTES: usize = 64 * 1024;
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(2);
/// The most one answer may say: many times what any model is able to, and little enough to keep.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
const CALL_BYTES: usize = 16 * 1024;
/// After the last event the end of the body usually comes at once; read, it lets the connection
/// serve the next call. Not waited for longer than this.
const DRAIN: Duration = Duration::from_millis(50);

pub(crate) fn open<W: Wire>(
    link: Arc<Link<W>>,
    request: Arc<ModelRequest>,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let call = Call {
        deadline: Instant::now() + link.timeouts.first,
        link,
        request,
        state: State::Unsent,
        ready: VecDeque::new(),
    };
    let next = |mut call: Call<W>| async move { call.next().await.map(|item| (item, call)) };
    // `fuse`: polling again after the end stays harmless.
    stream::unfold(call, next).fuse().boxed()
}

struct Call<W: Wire> {
    link: Arc<Link<W>>,
    request: Arc<ModelRequest>,
    state: State<W::Decoder>,
    /// Events already decoded, to be handed out one by one.
    ready: VecDeque<ModelEvent>,
    /// When silence becomes a fault. Moved by complete events only: a trickle of bytes does not
    /// keep a call alive.
    deadline: Instant,
}

enum State<D> {
    Unsent,
    Streaming(Box<Streaming<D>>),
    /// Told once everything before it was handed out.
    Failed(ModelError),
    Over,
}

struct Streaming<D> {
    response: Response,
    parser: Parser,
    decoder: D,
    /// Bytes of what was said so far.
    said: usize,
}

impl<W: Wire> Call<W> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return None,
                State::Failed(error) => return Some(Err(error)),
                active => self.state = active,
            }
            let deadline = self.deadline;
            let failure = match tokio::time::timeout_at(deadline, self.advance()).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(_) => failure::passing("the model vendor stays silent"),
            };
            if !matches!(self.state, State::Over) {
                // Also drops the response, and with it the connection.
                self.state = State::Failed(failure);
            }
        }
    }

    /// Sends the request or reads one piece of the answer.
    async fn advance(&mut self) -> Result<(), ModelError> {
        match &mut self.state {
            State::Failed(_) | State::Over => Ok(()),
            State::Unsent => {
                let response = send(&self.link, &self.request).await?;
                self.state = State::Streaming(Box::new(Streaming {
                    response,
                    parser: Parser::default(),
                    decoder: W::Decoder::default(),
                    said: 0,
                }));
                Ok(())
            }
            State::Streaming(streaming) => {
                let piece = streaming.response.chunk().await.map_err(|_| cut())?;
                // A body that ended well without its last event is cut off all the same.
                let piece = piece.ok_or_else(cut)?;
                let key = self.link.key.expose_secret();
                let read = streaming.read(&piece, key, &mut self.ready)?;
                match read {
                    Read::Nothing => {}
                    Read::Events => self.deadline = Instant::now() + self.link.timeouts.idle,
                    Read::End => {
                        if let State::Streaming(mut ended) =
                            std::mem::replace(&mut self.state, State::Over)
                        {
                            drain(&mut ended.response).await;
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

enum Read {
    /// No event became complete.
    Nothing,
    Events,
    End,
}

impl<D: Decode> Streaming<D> {
    /// Decodes a piece; what came before a fault in it is handed out all the same.
    fn read(
        &mut self,
        piece: &[u8],
        key: &str,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, ModelError> {
        let mut events = Vec::new();
        let parsed = self.parser.push(piece, &mut events);
        for event in &events {
            let mut decoded = Vec::new();
            self.decoder.read(&event.data, key, &mut decoded)?;
            self.said += decoded.iter().map(weight).sum::<usize>();
            if self.said > ANSWER_BYTES {
                return Err(endless());
            }
            let ended = matches!(decoded.last(), Some(ModelEvent::End(_)));
            ready.extend(decoded);
            if ended {
                return Ok(Read::End);
            }
        }
        parsed.map_err(|error| {
            failure::passing(format!("the model vendor's answer makes no sense: {error}"))
        })?;
        Ok(if events.is_empty() { Read::Nothing } else { Read::Events })
    }
}

async fn send<W: Wire>(link: &Link<W>, request: &ModelRequest) -> Result<Response, ModelError> {
    let key = link.key.expose_secret();
    let mut post = link
        .client
        .post(&link.url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(link.wire.render(request));
    for (name, value) in W::HEADERS {
        post = post.header(*name, *value);
    }
    if !key.is_empty() {
        let (name, value) = W::key_header(key);
        let mut value = HeaderValue::from_str(&value).map_err(|_| ModelError::Auth {
            text: "the profile's key holds characters a key cannot have".to_owned(),
        })?;
        value.set_sensitive(true);
        post = post.header(name, value);
    }
    for (name, value) in &link.extra_headers {
        post = post.header(name, value.expose_secret());
    }
    let sent = post.send().await;
    let mut response = sent.map_err(|error| failure::from_transport(&error))?;
    if response.status() != StatusCode::OK {
        let body = error_body(&mut response).await;
        return Err(failure::from_status(response.status(), response.headers(), &body, key));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Err(failure::passing(
            "the model address answers with something else than events; check the profile's \
             api_url",
        ));
    }
    Ok(response)
}

async fn error_body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() >= ERROR_BODY_BYTES {
                break;
            }
        }
    };
    // A body that breaks off or stalls only takes away the explanation: the status has said it.
    let _ = tokio::time::timeout(ERROR_BODY_PATIENCE, read).await;
    body
}

async fn drain(response: &mut Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // Too slow costs a new connection next time, nothing else.
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

/// What an event adds to the message that is kept.
fn weight(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text)
        | ModelEvent::Thinking(text)
        | ModelEvent::Signature(text)
        | ModelEvent::RedactedThinking(text) => text.len(),
        // Also one without arguments is a row, a run and an answer.
        ModelEvent::ToolCall { name, arguments, .. } => {
            name.len() + arguments.to_string().len() + CALL_BYTES
        }
        ModelEvent::End(_) => 0,
    }
}

/// Asked again it would be as long.
fn endless() -> ModelError {
    let text = format!("the model's answer has no end: it is longer than {ANSWER_BYTES} bytes");
    ModelError::Rejected { text }
}

fn cut() -> ModelError {
    failure::passing("the model vendor's answer was cut off")
}
