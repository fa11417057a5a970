//! A model vendor is asked over TLS, and only where its certificate is trusted (spec 11).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use skep_testkit::Reply;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::stage::Stage;

/// A key and a certificate for `localhost` that vouches for itself.
fn make_certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Takes TLS off and passes on to `model`; where it listens.
async fn tls_before(model: &str, folder: &Path) -> String {
    make_certificate(folder);
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let model = model.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, model) = (acceptor.clone(), model.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate leaves here.
                let Ok(mut outer) = acceptor.accept(socket).await else { return };
                let mut inner = TcpStream::connect(model).await.unwrap();
                let _ = copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn engine_a_vendor_is_asked_over_tls_where_its_certificate_is_trusted() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("over TLS"));
    let url = tls_before(&stage.model.base_url(), stage.folder()).await;
    stage.write(
        "providers.yaml",
        &format!(
            "profiles:\n  default: {{provider: anthropic, model: scripted, api_url: '{url}', \
             api_key: '${{RIG_KEY}}'}}\n"
        ),
    );
    let trusting = stage.start().env("SSL_CERT_FILE", stage.folder().join("cert.pem"));
    let mut play = stage.run(trusting).await;
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "over TLS");
    assert_eq!(stage.model.requests().len(), 1);
    play.hive.kill().await.unwrap();

    // The machine's own certificates do not vouch for it.
    let play = stage.up().await;
    let path = "/api/v1/providers?check=true";
    let checked = play.api().get(path).await.unwrap().good().unwrap();
    let reached = &checked["providers"][0]["reached"];
    assert_eq!(reached["ok"], false, "{checked}");
    let why = reached.to_string();
    assert!(why.contains("the certificate of localhost is not trusted here"), "{why}");
    assert_eq!(stage.model.requests().len(), 1);
}
