//! Clients for addresses that the operator wrote, and for the local socket of a hive.
//!
//! Such an address is dialled as written, also on this machine. No redirect is followed and no
//! proxy is taken from the environment, so nothing goes where the configuration does not say.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_core::policy::host::{Host, HostError, WebAddress};
use tokio::net::{TcpStream, UnixStream};

use crate::egress::{
    Dial, DialError, DialFuture, EgressCause, EgressError, EgressSocket, HttpClient, NameResolver,
    SystemResolver, Trust, connect_to, load_certificates,
};
use crate::socket;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot prepare the HTTP client: {0}")]
    Certificates(String),
    #[error("cannot use this address: {0}")]
    Address(#[from] HostError),
    #[error("cannot open {path}: {source}")]
    Directory { path: String, source: io::Error },
}

/// A client for one operator-written base address. Time limits besides `connect` are the
/// caller's: only it knows when an answer counts as begun.
pub fn client(base_url: &str, connect: Duration) -> Result<HttpClient, ClientError> {
    let (base, _) = WebAddress::of_operator(base_url)?;
    // Reading the machine's certificates fails where there are none; plain HTTP needs none.
    let trust = match base.is_https() {
        true => Trust::of(load_certificates().map_err(ClientError::Certificates)?),
        false => Trust::default(),
    };
    let dial = OperatorDial { resolver: SystemResolver::default(), patience: connect };
    Ok(HttpClient::new(Arc::new(dial), trust, connect))
}

/// A client of the local socket of a running hive. Any host name in the URL reaches the socket.
pub fn local_client(run: &Path) -> Result<HttpClient, ClientError> {
    let directory = socket::open_directory(run)
        .map_err(|source| ClientError::Directory { path: run.display().to_string(), source })?;
    let dial = LocalDial { directory };
    Ok(HttpClient::new(Arc::new(dial), Trust::default(), Duration::ZERO))
}

struct OperatorDial {
    resolver: SystemResolver,
    /// For the name and the connection together.
    patience: Duration,
}

impl OperatorDial {
    async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, EgressError> {
        let failed = |cause| EgressError::new(host, port, cause);
        let made = async {
            let addresses: Vec<IpAddr> = match host {
                Host::Address(address) => vec![*address],
                Host::Name(name) => {
                    EgressError::unless_found(host, port, self.resolver.resolve(name).await)?
                }
            };
            connect_to(host, &addresses, port).await
        };
        let late = |_| failed(EgressCause::Timeout { after: self.patience });
        tokio::time::timeout(self.patience, made).await.map_err(late)?
    }
}

impl Dial for OperatorDial {
    fn dial<'a>(&'a self, host: &'a Host, port: u16) -> DialFuture<'a> {
        Box::pin(async move { Ok(EgressSocket::Tcp(self.connect(host, port).await?)) })
    }
}

struct LocalDial {
    /// The socket's path goes through this handle.
    directory: OwnedFd,
}

impl Dial for LocalDial {
    fn dial<'a>(&'a self, _: &'a Host, _: u16) -> DialFuture<'a> {
        Box::pin(async move {
            let opened = UnixStream::connect(socket::short_path(&self.directory)).await;
            opened
                .map(EgressSocket::Local)
                .map_err(|error| DialError::Local { kind: error.kind(), why: error.to_string() })
        })
    }
}
