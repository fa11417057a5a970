//! A hive that says what the test tells it to, over a real socket in a real home.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use clap::{Parser, Subcommand};
use serde_json::Value;
use skep_guard::socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::{approve, down, history, send, status};
use crate::Failure;
use crate::hive::Globals;

/// The commands of these tests; the tree of all is the program's.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Approve(approve::ApproveArgs),
    Down(down::DownArgs),
    #[command(subcommand)]
    History(history::HistoryCommand),
    Send(send::SendArgs),
    Status(status::StatusArgs),
}

pub enum Answer {
    Json(u16, Value),
    Events(&'static str),
    /// The connection ends without an answer.
    Cut,
}

pub struct Request {
    /// Method and path.
    pub line: String,
    pub headers: String,
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.headers.lines().find_map(|line| line.strip_prefix(prefix.as_str()))
    }
}

pub struct FakeHive {
    home: tempfile::TempDir,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl FakeHive {
    /// Gives these answers, one a request, and is gone after the last. From then on time is
    /// paused, so that whoever waits for the hive to come back does not really wait.
    pub fn start(answers: Vec<Answer>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let listener = socket::bind(&run).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            serve(listener, answers.into(), &seen).await;
            std::fs::remove_file(run.join(socket::SOCKET_NAME)).unwrap();
            tokio::time::pause();
        });
        Self { home, requests }
    }

    /// Runs a command against this hive.
    pub async fn skep(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut line: Vec<OsString> = vec!["skep".into(), "--home".into(), self.home.path().into()];
        line.extend(arguments.iter().map(Into::into));
        let Arguments { globals, command } = Arguments::try_parse_from(line).unwrap();
        match command {
            Command::Approve(command) => approve::run_approve(command, &globals).await,
            Command::Down(command) => down::run(command, &globals).await,
            Command::History(command) => history::run(command, &globals).await,
            Command::Send(command) => Box::pin(send::run(command, &globals)).await,
            Command::Status(command) => status::run(command, &globals).await,
        }
    }

    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

async fn serve(listener: UnixListener, mut answers: VecDeque<Answer>, seen: &Mutex<Vec<Request>>) {
    while let Some(answer) = answers.pop_front() {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        seen.lock().unwrap().push(request);
        let (status, kind, body) = match answer {
            Answer::Cut => continue,
            Answer::Json(status, body) => (status, "application/json", body.to_string()),
            Answer::Events(text) => (200, "text/event-stream", text.to_owned()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

async fn read_request(stream: &mut UnixStream) -> Request {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the request ended early");
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let (line, headers) = head.split_once("\r\n").unwrap();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return Request {
                line: line.trim_end_matches(" HTTP/1.1").to_owned(),
                headers: headers.to_owned(),
                body: serde_json::from_str(body).unwrap_or_default(),
            };
        }
    }
}
