//! A web server on loopback that counts who comes, and a name server that a test can change.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use skep_core::BoxFuture;
use skep_core::policy::host::{HostName, WebAddress};
use skep_core::policy::network::NetworkRules;
use skep_guard::egress::{Egress, EgressHub, FetchError, FetchRequest, NameResolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Answer = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Answers every request with what the test says, as long as the client stays.
pub struct Site {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    pub async fn at(
        address: &str,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Site {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::default());
        let (counted, kept) = (Arc::clone(&connections), Arc::clone(&requests));
        let answer: Answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&answer), Arc::clone(&kept)));
            }
        });
        Site { address, connections, requests, task }
    }

    /// Where nobody may come.
    pub async fn sink(address: &str) -> Site {
        Self::at(address, |_| ok("sink")).await
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Heads of the requests so far, in lower case.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, answer: Answer, requests: Arc<Mutex<Vec<String>>>) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|it| it == b"\r\n\r\n") {
            match stream.read_buf(&mut read).await {
                Ok(count) if count > 0 => {}
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&read).to_lowercase();
        read.clear();
        requests.lock().unwrap().push(head.clone());
        if stream.write_all(answer(&head).as_bytes()).await.is_err() {
            return;
        }
    }
}

pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n")
}

/// Answers to a name in turn; the last one stays.
#[derive(Default)]
pub struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    /// `a,b` is one answer with two addresses.
    pub fn set(&self, name: &str, answers: &[&str]) {
        let read = |answer: &&str| answer.split(',').map(|it| it.parse().unwrap()).collect();
        let answers = answers.iter().map(read).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl NameResolver for Names {
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let found = answers.get_mut(name.as_str()).map(|answers| match answers.len() {
            0 | 1 => answers.first().cloned().unwrap_or_default(),
            _ => answers.remove(0),
        });
        let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        Box::pin(std::future::ready(found))
    }
}

/// A hub with a name server of its own.
pub struct Net {
    pub hub: EgressHub,
    pub names: Arc<Names>,
}

impl Net {
    pub fn new() -> Self {
        let names = Arc::<Names>::default();
        Self { hub: EgressHub::new(Arc::<Names>::clone(&names)), names }
    }

    /// The way out of agent 1 under these rules.
    pub fn under(&self, rules: serde_json::Value) -> Arc<Egress> {
        let rules: NetworkRules = serde_json::from_value(rules).unwrap();
        self.hub.of(1, &Arc::new(rules))
    }
}

/// The body of a page, or the code of its error.
pub async fn page(egress: &Egress, url: &str) -> Result<String, String> {
    let address = WebAddress::parse(url).map_err(|error| format!("no address: {error}"))?;
    let code = |error: FetchError| error.code().to_owned();
    let fetched = egress.fetch(FetchRequest::get(address)).await.map_err(code)?;
    Ok(String::from_utf8(fetched.read().await.map_err(code)?).unwrap())
}
