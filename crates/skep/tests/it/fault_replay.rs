//! Clients that ask for every event there is and read nothing: whoever talks does not feel them,
//! and the memory they cost comes back.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use skep_testkit::http::Events;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, WsClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Play, Stage};
use crate::telling::read_events;

const SILENT: usize = 2000;
const EVENTS: u64 = 2000;
const TURNS: usize = 20;
/// Connections made at a time.
const AT_ONCE: usize = 64;
const MEBIBYTE: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Door {
    Sse,
    WebSocket,
}

impl Door {
    /// Asks for every event, reads the first line of the answer and then nothing more.
    async fn silent(self, play: &Play) -> TcpStream {
        let (path, upgrade, line) = match self {
            Self::Sse => ("/api/v1/events?since=0", "", "HTTP/1.1 200"),
            Self::WebSocket => {
                let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
                               Sec-WebSocket-Version: 13\r\n\
                               Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
                ("/ws", upgrade, "HTTP/1.1 101")
            }
        };
        let mut stream = asked(play, path, upgrade).await;
        let mut head = vec![0; line.len()];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&head), line);
        if let Self::WebSocket = self {
            let text = br#"{"type":"subscribe","since":0}"#;
            // A text frame under a mask of zeros, which changes nothing.
            let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
            frame.extend_from_slice(text);
            stream.write_all(&frame).await.unwrap();
        }
        stream
    }
}

/// A request whose answer nobody has read yet.
async fn asked(play: &Play, path: &str, headers: &str) -> TcpStream {
    let authority = play.hive.url().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let token = &play.token;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\
         {headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// How long turns and looks at its health took: the 95th of a hundred.
async fn served(play: &Play, name: &str) -> (Duration, Duration) {
    let (mut turns, mut looks) = (Vec::new(), Vec::new());
    let api = play.api();
    for number in 0..TURNS {
        let begun = Instant::now();
        let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
        let body = json!({"message": "go", "session_key": format!("{name}-{number}")});
        let ended = api.post(path, &body).await.unwrap().good().unwrap();
        assert_eq!(ended["state"], "done");
        turns.push(begun.elapsed());
        let begun = Instant::now();
        assert_eq!(api.get("/api/v1/health").await.unwrap().status, 200);
        looks.push(begun.elapsed());
    }
    turns.sort();
    looks.sort();
    (turns[TURNS * 95 / 100 - 1], looks[TURNS * 95 / 100 - 1])
}

/// Resident bytes of the hive.
fn resident(play: &Play) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", play.hive.process())).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The most it ever was.
fn peak(play: &Play) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", play.hive.process())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Durable events until there are as many as wanted.
async fn fill(play: &Play) {
    let mut client = play.ws().await;
    let mut number = 0;
    while play.state().await["seq"].as_u64().unwrap() < EVENTS {
        let ids: Vec<String> = (0..AT_ONCE).map(|at| format!("f{}", number + at)).collect();
        number += AT_ONCE;
        for (at, id) in ids.iter().enumerate() {
            let frame = json!({"content": "go", "id": id, "session": format!("s{at}")});
            client.send(&frame).await.unwrap();
        }
        for id in &ids {
            let there = |client: &WsClient| {
                let mut frames = client.durable().values();
                frames.any(|frame| skep_testkit::ws::replies_to(frame).any(|to| to == id))
            };
            if !there(&client) {
                client.answer_to(id).await.unwrap();
            }
        }
    }
}

/// Two that ask for every event too, and read later. They have a token of their own, so that they
/// wait for one page of the silent ones and not for all of them.
struct Later {
    stream: Events,
    socket: WsClient,
    seen: u64,
}

impl Later {
    async fn new(play: &Play) -> Self {
        let token = json!({"name": "later"});
        let token = play.api().post("/api/v1/tokens", &token).await.unwrap().good().unwrap();
        let token = token["token"].as_str();
        let api = play.hive.api(token).unwrap();
        let stream = api.events("/api/v1/events?since=0").await.unwrap();
        let mut socket = WsClient::connect(&play.hive.ws(token).unwrap()).await.unwrap();
        socket.send(&json!({"type": "subscribe", "since": 0})).await.unwrap();
        Self { stream, socket, seen: 0 }
    }

    /// Both get every event up to now, each once and in order.
    async fn read(&mut self, play: &Play) {
        let newest = play.state().await["seq"].as_u64().unwrap();
        let events = read_events(&mut self.stream, self.seen, newest).await;
        for event in events {
            let frame = loop {
                let frame = self.socket.next_of("event").await.unwrap();
                if frame["event"]["seq"].is_u64() {
                    break frame;
                }
            };
            assert_eq!(frame["event"], event);
        }
        self.seen = newest;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_replay_silent_clients_slow_nobody_and_their_memory_comes_back() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("fine"));
    let play = stage.up().await;
    fill(&play).await;
    let before = served(&play, "alone").await;
    for door in [Door::Sse, Door::WebSocket] {
        let mut later = Later::new(&play).await;
        let usual = resident(&play);
        let begun = Instant::now();
        let all = stream::iter(0..SILENT).map(|_| door.silent(&play)).buffer_unordered(AT_ONCE);
        let all: Vec<TcpStream> = all.collect().await;
        let connected = begun.elapsed();
        let (turn, health) = served(&play, &format!("{door:?}")).await;
        let most = peak(&play);
        later.read(&play).await;
        drop(all);
        let begun = Instant::now();
        let back = wait::until_true("the memory back", PATIENCE, || {
            resident(&play) <= usual + 64 * MEBIBYTE
        });
        back.await.unwrap();
        let took = begun.elapsed();
        // Before and after: a machine that has become slower is slower without them, too.
        let after = served(&play, &format!("{door:?} gone")).await;
        let alone = (before.0.max(after.0), before.1.max(after.1));
        eprintln!(
            "{door:?}: {SILENT} connected in {connected:?}; turn {turn:?} (alone {:?}), health \
             {health:?} (alone {:?}); {} MB before, {} MB at most, {} MB {:?} after",
            alone.0,
            alone.1,
            usual / MEBIBYTE,
            most / MEBIBYTE,
            resident(&play) / MEBIBYTE,
            took
        );
        // A build for tests on a machine with other work is slow without them, too; without pages
        // of their own a turn took 13 s and more.
        assert!(turn <= Duration::from_millis(100).max(alone.0 * 16), "{turn:?}, {alone:?}");
        assert!(health <= Duration::from_millis(20).max(alone.0 * 8), "{health:?}, {alone:?}");
        // Those that read go on with what happens.
        play.ask("main", "go").await;
        later.read(&play).await;
    }
}
