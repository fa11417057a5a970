//! A request that is written already, handed on with the profile's key, and its answer as it
//! comes. The key goes to the vendor alone: an answer that repeats it ends there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::Method;
use http::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use skep_core::engine::RetryCode;
use skep_core::provider::{ModelError, RawAnswer, RawAnswered, RawHeaders, RawRequest};
use skep_core::{BoxFuture, BoxStream};
use skep_guard::egress::{HttpRequest, HttpResponse};
use tokio::time::timeout;

use crate::answer::cut;
use crate::failure;
use crate::link::{Wire, WireLink};

/// Shorter ones are words that an answer may hold by chance.
const SECRET_BYTES: usize = 8;

pub(crate) fn forward<W: Wire>(
    link: Arc<WireLink<W>>,
    path: &'static str,
    request: RawRequest,
) -> BoxFuture<'static, RawAnswered> {
    Box::pin(async move {
        let request = build(&link, path, request)?;
        let answered = timeout(link.timeouts.first, request.send()).await.map_err(|_| silent())?;
        let response = answered.map_err(|error| failure::from_transport(&error))?;
        let secrets = Secrets::of(&link);
        let headers: RawHeaders = response
            .headers()
            .iter()
            .filter(|(_, value)| !secrets.stand_in(value.as_bytes()))
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect();
        let status = response.status().as_u16();
        Ok(RawAnswer { status, headers, body: body(response, link.timeouts.idle, secrets) })
    })
}

/// What the profile says replaces what the program says.
fn build<W: Wire>(
    link: &WireLink<W>,
    path: &str,
    request: RawRequest,
) -> Result<HttpRequest, ModelError> {
    let RawRequest { query, headers, body, .. } = request;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut post = link.client.request(Method::POST, &format!("{}{path}{query}", link.base));
    let key = link.key.expose_secret();
    let own = (!key.is_empty()).then(|| W::key_header(key));
    let is_ours = |name: &str| {
        own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
            || link.extra_headers.iter().any(|(extra, _)| extra.eq_ignore_ascii_case(name))
    };
    for (name, value) in headers.into_iter().filter(|(name, _)| !is_ours(name)) {
        post = post.header(name, value);
    }
    if let Some((name, value)) = own {
        let mut value = HeaderValue::from_str(&value).map_err(|_| ModelError::Auth {
            text: "the profile's key holds characters a key cannot have".to_owned(),
        })?;
        value.set_sensitive(true);
        post = post.header(name, value);
    }
    for (name, value) in &link.extra_headers {
        post = post.header(name, value.expose_secret());
    }
    Ok(post.body(body))
}

fn body(
    response: HttpResponse,
    idle: Duration,
    secrets: Secrets,
) -> BoxStream<'static, Result<Bytes, ModelError>> {
    let pieces = stream::unfold(Some((response, secrets)), move |open| async move {
        let (mut response, mut secrets) = open?;
        match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(piece))) if secrets.come_in(&piece) => {
                let text = "the model vendor repeats the key in its answer, which is cut there";
                Some((Err(failure::passing(RetryCode::Cut, text)), None))
            }
            Ok(Ok(Some(piece))) => Some((Ok(piece), Some((response, secrets)))),
            Ok(Ok(None)) => None,
            Ok(Err(_)) => Some((Err(cut()), None)),
            Err(_) => Some((Err(silent()), None)),
        }
    });
    pieces.boxed()
}

fn silent() -> ModelError {
    failure::passing(RetryCode::Timeout, "the model vendor stays silent")
}

/// What a request carried and an answer must not.
struct Secrets {
    values: Vec<SecretString>,
    /// The end of what came so far: a value may be cut in two.
    last: Vec<u8>,
}

impl Secrets {
    fn of<W>(link: &WireLink<W>) -> Self {
        let is_key = |name: &str| ["auth", "key", "token"].iter().any(|word| name.contains(word));
        let extra = link.extra_headers.iter();
        let extra = extra.filter(|(name, _)| is_key(&name.to_ascii_lowercase()));
        let values = std::iter::once(&link.key).chain(extra.map(|(_, value)| value));
        let values = values.filter(|value| value.expose_secret().len() >= SECRET_BYTES);
        Self { values: values.cloned().collect(), last: Vec::new() }
    }

    fn stand_in(&self, bytes: &[u8]) -> bool {
        let stands = |value: &SecretString| {
            memchr::memmem::find(bytes, value.expose_secret().as_bytes()).is_some()
        };
        self.values.iter().any(stands)
    }

    fn come_in(&mut self, piece: &[u8]) -> bool {
        let longest = self.values.iter().map(|value| value.expose_secret().len()).max();
        let Some(kept) = longest.map(|bytes| bytes - 1) else { return false };
        let edge = [&self.last[..], &piece[..piece.len().min(kept)]].concat();
        let found = self.stand_in(&edge) || self.stand_in(piece);
        self.last.extend_from_slice(&piece[piece.len().saturating_sub(kept)..]);
        self.last.drain(..self.last.len().saturating_sub(kept));
        found
    }
}

#[cfg(test)]
#[path = "raw_tests.rs"]
mod tests;
