//! Connections as the HTTP client asks for them: dialled by whoever decides where it may go, then
//! TLS where the address says https.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use skep_core::BoxFuture;
use skep_core::policy::host::{Host, HostError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::error::{EgressCause, EgressError};
use super::tls;

pub(crate) type DialFuture<'a> = BoxFuture<'a, Result<EgressSocket, DialError>>;

/// Opens the connection, or says why not.
pub(crate) trait Dial: Send + Sync + 'static {
    fn dial<'a>(&'a self, host: &'a Host, port: u16) -> DialFuture<'a>;
}

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Host(#[from] HostError),
    /// Of the local socket.
    #[error("{why}")]
    Local { kind: io::ErrorKind, why: String },
}

pub(crate) enum EgressSocket {
    Tcp(TcpStream),
    Local(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The certificates to trust, read when first needed.
#[derive(Clone, Default)]
pub(crate) struct Trust(Arc<OnceCell<Arc<ClientConfig>>>);

impl Trust {
    pub(crate) fn of(config: Arc<ClientConfig>) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(config))))
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let read = || async {
            let read = tokio::task::spawn_blocking(tls::load);
            read.await.unwrap_or_else(|error| Err(error.to_string()))
        };
        self.0.get_or_try_init(read).await.cloned()
    }
}

#[derive(Clone)]
pub(crate) struct HttpConnector {
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) trust: Trust,
    /// For TLS to be agreed on.
    pub(crate) patience: Duration,
}

impl HttpConnector {
    async fn connect(&self, uri: &Uri) -> Result<TokioIo<EgressSocket>, DialError> {
        let host = Host::parse(uri.host().unwrap_or_default())?;
        let is_https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let socket = self.dial.dial(&host, port).await?;
        let EgressSocket::Tcp(stream) = socket else { return Ok(TokioIo::new(socket)) };
        if !is_https {
            return Ok(TokioIo::new(EgressSocket::Tcp(stream)));
        }
        let failed = |cause| EgressError::new(&host, port, cause);
        let agreed = async {
            let config = self.trust.config().await?;
            tls::handshake(config, &host, stream).await
        };
        match tokio::time::timeout(self.patience, agreed).await {
            Ok(Ok(stream)) => Ok(TokioIo::new(EgressSocket::Tls(Box::new(stream)))),
            Ok(Err(why)) => Err(failed(EgressCause::Tls { why }).into()),
            Err(_) => Err(failed(EgressCause::Timeout { after: self.patience }).into()),
        }
    }
}

impl Service<Uri> for HttpConnector {
    type Response = TokioIo<EgressSocket>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let own = self.clone();
        Box::pin(async move { own.connect(&uri).await })
    }
}

impl Connection for EgressSocket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for EgressSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Local(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for EgressSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Local(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Local(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Local(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Local(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Local(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
