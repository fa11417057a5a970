//! TLS to hosts that the machine's certificates vouch for.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use skep_core::policy::host::Host;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Reads the machine's certificates, which takes some milliseconds. Fails where there are none.
pub(crate) fn load() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
        return Err(format!(
            "this machine has no certificates to trust{why}; install the package ca-certificates"
        ));
    }
    // The library's default cryptography takes ten times as long to build as `ring`.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The host proves that it is the one asked for; its address alone proves nothing.
pub(crate) async fn handshake(
    config: Arc<ClientConfig>,
    host: &Host,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let name = match host {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
            .map_err(|_| "its name cannot stand in a certificate".to_owned())?,
        Host::Address(address) => ServerName::from(*address),
    };
    let config = TlsConnector::from(config);
    config.connect(name, stream).await.map_err(|error| error.to_string())
}
