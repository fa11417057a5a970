//! The only maker of HTTP clients.
//!
//! Addresses written by the operator are dialled as written: no redirects are followed and no
//! proxy is taken from the environment, so nothing goes where the configuration does not say.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use crate::socket;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot prepare the HTTP client: {}", root_cause(.0))]
    Build(#[from] reqwest::Error),
    #[error("cannot open {path}: {source}")]
    Directory { path: String, source: io::Error },
}

/// A client for one operator-written base address. Time limits besides `connect` are the
/// caller's: only it knows when an answer counts as begun.
pub fn client(base_url: &str, connect: Duration) -> Result<Client, ClientError> {
    let builder = plain_builder().connect_timeout(connect).tcp_nodelay(true);
    let builder =
        if base_url.starts_with("https:") { builder } else { without_certificates(builder) };
    Ok(builder.build()?)
}

/// A client of the local socket of a running hive. Any host name in the URL reaches the socket.
#[derive(Debug, Clone)]
pub struct LocalClient {
    client: Client,
    // The socket's path goes through this handle: it must stay open as long as the client.
    _directory: std::sync::Arc<OwnedFd>,
}

impl LocalClient {
    pub fn new(run: &Path) -> Result<Self, ClientError> {
        let directory = socket::open_directory(run)
            .map_err(|source| ClientError::Directory { path: run.display().to_string(), source })?;
        let builder = without_certificates(plain_builder());
        let client = builder.unix_socket(socket::short_path(&directory)).build()?;
        Ok(Self { client, _directory: std::sync::Arc::new(directory) })
    }

    pub fn http(&self) -> &Client {
        &self.client
    }
}

/// The library says "builder error"; what is wrong, such as missing certificates, lies below it.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

fn plain_builder() -> ClientBuilder {
    install_crypto();
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
}

/// TLS takes its cryptography from `ring`: the library's own default builds ten times as long.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Refused where the process has a provider already, which then stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Loading the machine's certificates fails where there are none; plain HTTP needs none.
fn without_certificates(builder: ClientBuilder) -> ClientBuilder {
    builder.tls_certs_only([])
}
