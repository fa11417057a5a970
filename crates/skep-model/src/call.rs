//! One call on the wire: send, follow the stream, watch the clock. Dropping it closes the
//! connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use secrecy::ExposeSecret;
use skep_core::BoxStream;
use skep_core::engine::RetryCode;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest};
use skep_guard::egress::HttpResponse;
use tokio::time::Instant;

use crate::answer::{Decode, Last};
use crate::body::{BodyPiece, ResponseBody};
use crate::failure::{self, VendorFailure};
use crate::link::{Wire, WireLink};
use crate::sse::SseEvent;

/// An explanation of an error is a few hundred bytes; a page of a proxy may be longer.
const ERROR_BODY_BYTES: usize = 64 * 1024;
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(2);
/// The most one answer may say: many times what any model is able to, and little enough to keep.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// And the most calls: each is a row, also where it does not run.
const ANSWER_CALLS: usize = 4096;
/// After the last event the end of the body usually comes at once; read, it lets the connection
/// serve the next call. Not waited for longer than this.
const DRAIN: Duration = Duration::from_millis(50);
/// When the model has told why it stopped, counts and a last word may follow. Some servers send
/// neither, and keep the connection.
const LAST_WORD: Duration = Duration::from_secs(5);
const DONE: &str = "[DONE]";
/// Events that only keep a connection open, whatever stands in them.
const KEEP_ALIVE: &[&str] = &["ping", "keepalive", "keep-alive", "heartbeat"];

pub(crate) fn open<W: Wire>(
    link: Arc<WireLink<W>>,
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
    link: Arc<WireLink<W>>,
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
    response: HttpResponse,
    body: ResponseBody,
    decoder: D,
    /// Bytes of what was said so far.
    said: usize,
    /// Calls so far.
    calls: usize,
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
                Ok(Err(failure)) => self.told(failure),
                Err(_) if self.is_whole_without_last_word() => continue,
                Err(_) => failure::passing(RetryCode::Timeout, "the model vendor stays silent"),
            };
            if !matches!(self.state, State::Over) {
                // Also drops the response, and with it the connection.
                self.state = State::Failed(failure);
            }
        }
    }

    /// The one way out for a vendor's words about a failure.
    fn told(&self, failure: VendorFailure) -> ModelError {
        failure.told(self.link.key.expose_secret(), || self.link.wire.render(&self.request))
    }

    /// Sends the request or reads one piece of the answer.
    async fn advance(&mut self) -> Result<(), VendorFailure> {
        match &mut self.state {
            State::Failed(_) | State::Over => Ok(()),
            State::Unsent => {
                let response = send(&self.link, &self.request).await?;
                self.state = State::Streaming(Box::new(Streaming {
                    response,
                    body: ResponseBody::default(),
                    decoder: W::Decoder::default(),
                    said: 0,
                    calls: 0,
                }));
                Ok(())
            }
            State::Streaming(streaming) => {
                let was_over = streaming.decoder.is_told_over();
                let waiting = self.ready.len();
                let read = match streaming.response.chunk().await {
                    Ok(Some(piece)) => streaming.read(&piece, &mut self.ready)?,
                    Ok(None) => streaming.finish(&mut self.ready)?,
                    Err(_) => streaming.close(Last::Byte, &mut self.ready)?,
                };
                let over = streaming.decoder.is_told_over();
                match read {
                    Read::End => self.drain().await,
                    // Pings after the end of an answer do not keep it from ending.
                    _ if over && was_over && self.ready.len() == waiting => {}
                    _ if over => {
                        let rest = LAST_WORD.min(self.link.timeouts.idle);
                        self.deadline = Instant::now() + rest;
                    }
                    Read::Nothing => {}
                    Read::Events => self.deadline = Instant::now() + self.link.timeouts.idle,
                }
                Ok(())
            }
        }
    }

    /// Silence after the model told why it stopped: nothing is missing.
    fn is_whole_without_last_word(&mut self) -> bool {
        let State::Streaming(streaming) = &mut self.state else { return false };
        let whole = streaming.decoder.is_told_over()
            && streaming.close(Last::Byte, &mut self.ready).is_ok();
        if whole {
            self.state = State::Over;
        }
        whole
    }

    async fn drain(&mut self) {
        if let State::Streaming(mut ended) = std::mem::replace(&mut self.state, State::Over) {
            drain(&mut ended.response).await;
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
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, VendorFailure> {
        let BodyPiece { events, fault } = self.body.push(piece);
        let read = self.take(&events, ready)?;
        match fault {
            Some(fault) if !matches!(read, Read::End) => Err(fault.into()),
            _ => Ok(read),
        }
    }

    /// The body ended well: its last event may lack its end.
    fn finish(&mut self, ready: &mut VecDeque<ModelEvent>) -> Result<Read, VendorFailure> {
        let BodyPiece { events, fault } = self.body.finish();
        match self.take(&events, ready) {
            Ok(Read::End) => return Ok(Read::End),
            // Half an event at the end of a whole answer takes nothing away from it.
            Err(error) if !self.decoder.is_told_over() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        match fault {
            Some(fault) if !self.decoder.is_told_over() => Err(fault.into()),
            _ => self.close(Last::Byte, ready),
        }
    }

    fn take(
        &mut self,
        events: &[SseEvent],
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, VendorFailure> {
        for event in events {
            if matches!(self.take_one(event, ready)?, Read::End) {
                return Ok(Read::End);
            }
        }
        Ok(if events.is_empty() { Read::Nothing } else { Read::Events })
    }

    fn take_one(
        &mut self,
        event: &SseEvent,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, VendorFailure> {
        let data = event.data.trim();
        if data.is_empty() || KEEP_ALIVE.contains(&event.name.as_str()) {
            return Ok(Read::Events);
        }
        if data == DONE {
            return self.close(Last::Word, ready);
        }
        if event.name == "error" {
            failure::in_named_event(data)?;
        }
        let mut decoded = Vec::new();
        self.decoder.read(event, &mut decoded)?;
        self.hand_out(decoded, ready)
    }

    fn close(
        &mut self,
        last: Last,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, VendorFailure> {
        let mut decoded = Vec::new();
        self.decoder.close(last, &mut decoded)?;
        self.hand_out(decoded, ready)
    }

    fn hand_out(
        &mut self,
        decoded: Vec<ModelEvent>,
        ready: &mut VecDeque<ModelEvent>,
    ) -> Result<Read, VendorFailure> {
        self.said += decoded.iter().map(weight).sum::<usize>();
        let is_call = |event: &&ModelEvent| matches!(event, ModelEvent::ToolCall { .. });
        self.calls += decoded.iter().filter(is_call).count();
        if self.said > ANSWER_BYTES {
            return Err(endless(&format!("is longer than {ANSWER_BYTES} bytes")));
        }
        if self.calls > ANSWER_CALLS {
            return Err(endless(&format!("holds more than {ANSWER_CALLS} tool calls")));
        }
        let ended = matches!(decoded.last(), Some(ModelEvent::End(_)));
        ready.extend(decoded);
        Ok(if ended { Read::End } else { Read::Events })
    }
}

/// Sends the request, once more where the server refuses a part that can be left out.
async fn send<W: Wire>(
    link: &WireLink<W>,
    request: &ModelRequest,
) -> Result<HttpResponse, VendorFailure> {
    let mut response = post(link, request).await?;
    if !response.status().is_success() {
        let mut body = error_body(&mut response).await;
        if response.status().is_client_error() && link.wire.concede(&body) {
            response = post(link, request).await?;
            if !response.status().is_success() {
                body = error_body(&mut response).await;
            }
        }
        if !response.status().is_success() {
            let (status, headers) = (response.status(), response.headers());
            return Err(failure::from_status(status, headers, &body, &request.model));
        }
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match kind.is_some_and(|kind| kind.starts_with("text/html")) {
        true => Err(failure::no_answer().into()),
        false => Ok(response),
    }
}

async fn post<W: Wire>(
    link: &WireLink<W>,
    request: &ModelRequest,
) -> Result<HttpResponse, ModelError> {
    let key = link.key.expose_secret();
    let mut post = link
        .client
        .request(Method::POST, &link.url)
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
    post.send().await.map_err(|error| failure::from_transport(&error))
}

async fn error_body(response: &mut HttpResponse) -> Vec<u8> {
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

async fn drain(response: &mut HttpResponse) {
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
        ModelEvent::ToolCall { name, arguments, .. } => name.len() + arguments.to_string().len(),
        ModelEvent::End(_) => 0,
    }
}

/// Asked again it would be as long.
fn endless(what: &str) -> VendorFailure {
    let text = format!("the model's answer has no end: it {what}");
    ModelError::Rejected { text }.into()
}
