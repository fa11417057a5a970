//! The HTTP client. It follows no redirect, knows no proxy and sends each request once.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::request::Builder;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error as LibraryError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use skep_core::policy::host::{HostError, WebAddress};
use tokio::time::Instant;

use super::connector::{Dial, DialError, HttpConnector, Trust};
use super::error::{EgressCause, EgressError};

/// A connection that nobody uses is closed after this time.
const IDLE: Duration = Duration::from_secs(90);
/// Idle connections that are kept for one host.
const IDLE_PER_HOST: usize = 32;

/// A clone shares the connections.
#[derive(Clone)]
pub struct HttpClient {
    inner: Client<HttpConnector, Full<Bytes>>,
}

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// Of the local socket.
    #[error("{why}")]
    Local { kind: io::ErrorKind, why: String },
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// After it was made.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl HttpError {
    /// Whether no connection was made: the request has reached nobody.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Egress(_) | Self::Local { .. } | Self::Unsendable(_))
    }

    /// What the kernel said, where no connection was made.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Egress(EgressError { cause: EgressCause::Unreachable { kind, .. }, .. })
            | Self::Local { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

impl HttpClient {
    pub(crate) fn new(dial: Arc<dyn Dial>, trust: Trust, patience: Duration) -> Self {
        let inner = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .build(HttpConnector { dial, trust, patience });
        Self { inner }
    }

    pub fn request(&self, method: Method, url: &str) -> HttpRequest {
        // In the one spelling of its host, as it is judged and dialled.
        let mut parts = Request::builder().method(method);
        let refusal = match WebAddress::of_operator(url) {
            Ok((address, login)) => {
                parts = parts.uri(address.as_str());
                if let Some(login) = login {
                    let basic = format!("Basic {}", BASE64_STANDARD.encode(login));
                    parts = parts.header(AUTHORIZATION, basic);
                }
                None
            }
            Err(error) => Some(error),
        };
        HttpRequest { client: self.clone(), parts, refusal, body: Bytes::new(), limit: None }
    }

    pub fn get(&self, url: &str) -> HttpRequest {
        self.request(Method::GET, url)
    }

    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<HttpResponse, HttpError> {
        let response = self.inner.request(request).await.map_err(|error| why(&error))?;
        Ok(HttpResponse { inner: response, limit: None })
    }
}

/// From the library's error to ours, which lies inside where no connection was made.
fn why(error: &LibraryError) -> HttpError {
    let mut cause: &dyn std::error::Error = error;
    loop {
        match cause.downcast_ref::<DialError>() {
            Some(DialError::Egress(error)) => return error.clone().into(),
            Some(DialError::Host(error)) => return HttpError::Unsendable(error.to_string()),
            Some(DialError::Local { kind, why }) => {
                return HttpError::Local { kind: *kind, why: why.clone() };
            }
            None => {}
        }
        match cause.source() {
            Some(below) => cause = below,
            None => return HttpError::Broken(cause.to_string()),
        }
    }
}

/// A request in the making.
pub struct HttpRequest {
    client: HttpClient,
    parts: Builder,
    refusal: Option<HostError>,
    body: Bytes,
    limit: Option<Duration>,
}

impl HttpRequest {
    #[must_use]
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName, Error: Into<http::Error>>,
        V: TryInto<HeaderValue, Error: Into<http::Error>>,
    {
        self.parts = self.parts.header(name, value);
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn json(self, value: &serde_json::Value) -> Self {
        self.header("content-type", "application/json").body(value.to_string())
    }

    /// For the whole of it, up to the last byte of the answer.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    pub async fn send(self) -> Result<HttpResponse, HttpError> {
        if let Some(refusal) = self.refusal {
            return Err(HttpError::Unsendable(refusal.to_string()));
        }
        let request = self.parts.body(Full::new(self.body));
        let request = request.map_err(|error| HttpError::Unsendable(error.to_string()))?;
        let limit = self.limit.map(|limit| Deadline { at: Instant::now() + limit, limit });
        let mut response = within(limit, self.client.send(request)).await?;
        response.limit = limit;
        Ok(response)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: Duration,
}

pub(super) async fn within<T>(
    deadline: Option<Deadline>,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    let Some(Deadline { at, limit }) = deadline else { return work.await };
    tokio::time::timeout_at(at, work).await.map_err(|_| HttpError::Timeout(limit))?
}

/// An answer whose body is still to come. Dropping it closes the connection.
pub struct HttpResponse {
    inner: http::Response<Incoming>,
    limit: Option<Deadline>,
}

/// What speaks after the answer `101 Switching Protocols`.
pub type HttpUpgrade = TokioIo<hyper::upgrade::Upgraded>;

impl HttpResponse {
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The next piece of the body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let body = self.inner.body_mut();
        within(self.limit, async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| HttpError::Broken(error.to_string()))?;
                // Trailers say nothing that anybody asks for.
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
            Ok(None)
        })
        .await
    }

    /// The whole body, of a server that is trusted to end it.
    pub async fn bytes(mut self) -> Result<Bytes, HttpError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.chunk().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }

    pub async fn upgrade(self) -> Result<HttpUpgrade, HttpError> {
        let upgraded = hyper::upgrade::on(self.inner).await;
        upgraded.map(TokioIo::new).map_err(|error| HttpError::Broken(error.to_string()))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}
