//! A web server on loopback that serves the files of a folder over http and https, as much of a
//! repository, a package index and a registry as their clients ask for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub struct FilesSite {
    folder: tempfile::TempDir,
    pub http: u16,
    pub https: u16,
}

impl FilesSite {
    /// A certificate for `name`, and files for the clients of the tests.
    pub async fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        certificates(folder.path(), name);
        repository(folder.path());
        packages(folder.path());
        fs::write(folder.path().join("hello"), "hello from the site").unwrap();
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (http, https) =
            (plain.local_addr().unwrap().port(), secure.local_addr().unwrap().port());
        let root = folder.path().to_owned();
        tokio::spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                tokio::spawn(serve(stream, root.clone()));
            }
        });
        let (root, acceptor) = (folder.path().to_owned(), acceptor(folder.path()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = secure.accept().await {
                let (acceptor, root) = (acceptor.clone(), root.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, root).await;
                    }
                });
            }
        });
        Self { folder, http, https }
    }

    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, root: PathBuf) {
    let mut bytes = Vec::new();
    loop {
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => continue,
                _ => return,
            }
        };
        let head = String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
        let path = head.split([' ', '?']).nth(1).unwrap().trim_matches('/');
        let mut file = root.join(path);
        if file.is_dir() {
            file.push("index.html");
        }
        let kind = if path.starts_with("simple") { "text/html" } else { "application/json" };
        let (status, content) = match fs::read(&file) {
            Ok(content) => ("200 OK", content),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        let whole = [head.into_bytes(), content].concat();
        if stream.write_all(&whole).await.is_err() {
            return;
        }
    }
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{program} {arguments:?}: {ran:?}");
}

fn certificates(folder: &Path, name: &str) {
    let key = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let own = ["-days", "2", "-subj", "/CN=Test", "-keyout", "ca.key", "-out", "ca.pem"];
    run(folder, "openssl", &[&key[..], &own].concat());
    let (subject, other) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
    let leaf = ["-days", "2", "-subj", &subject, "-keyout", "leaf.key", "-out", "leaf.pem"];
    let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", &other];
    let ends = ["-addext", "basicConstraints=critical,CA:FALSE"];
    run(folder, "openssl", &[&key[..], &leaf, &signed, &ends].concat());
}

fn acceptor(folder: &Path) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(folder.join("leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("leaf.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// `repo.git`, which can be cloned from plain files.
fn repository(folder: &Path) {
    let work = folder.join("repo");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("file"), "from the repository").unwrap();
    run(&work, "git", &["init", "-q"]);
    run(&work, "git", &["add", "file"]);
    let who = ["-c", "user.name=Test", "-c", "user.email=test@allowed.test"];
    run(&work, "git", &[&who[..], &["commit", "-q", "-m", "first"]].concat());
    run(folder, "git", &["clone", "-q", "--bare", "repo", "repo.git"]);
    run(&folder.join("repo.git"), "git", &["update-server-info"]);
}

/// `demo` for pip below `simple`, and for npm.
fn packages(folder: &Path) {
    let index = folder.join("simple/demo");
    fs::create_dir_all(&index).unwrap();
    let wheel = "import zipfile\n\
        with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as wheel:\n\
        \x20 info = 'demo-1.0.dist-info/'\n\
        \x20 wheel.writestr('demo.py', 'print(1)')\n\
        \x20 about = 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n'\n\
        \x20 wheel.writestr(info + 'METADATA', about)\n\
        \x20 wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')\n\
        \x20 wheel.writestr(info + 'RECORD', '')\n";
    run(&index, "python3", &["-c", wheel]);
    let link = "<a href=\"demo-1.0-py3-none-any.whl\">demo-1.0-py3-none-any.whl</a>";
    fs::write(index.join("index.html"), link).unwrap();
    let registry = r#"{"name":"demo","dist-tags":{"latest":"1.2.3"},
        "versions":{"1.2.3":{"name":"demo","version":"1.2.3","dist":{"tarball":"x"}}}}"#;
    fs::write(folder.join("demo"), registry).unwrap();
}
