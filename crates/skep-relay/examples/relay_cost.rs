//! What the relay adds to a request: latency and processor time, next to the same request made
//! directly. Client, relay and vendor share the process, so that the difference of the two is the
//! relay. `cargo run --release -p skep-relay --example relay_cost [REQUESTS [KIB]]`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skep_core::engine::Allowance;
use skep_core::ids::AgentName;
use skep_core::provider::{Provider, Providers};
use skep_core::relay::{ModelRelay, RelayLaunch, RelayTools, RelayTurn, RelayWire};
use skep_core::settings::{KnownModels, Profile, SandboxLevel, Timeouts};
use skep_model::{AnthropicProvider, WireSettings};
use skep_relay::Relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const ROUNDS: usize = 5;
const EVENTS: usize = 200;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let requests = arguments.next().unwrap_or(500);
    let kib = arguments.next().unwrap_or(60);
    let vendor = vendor().await;
    let (lease, profile, providers) = relay(&vendor);
    let (used, mut told) = mpsc::channel(64);
    tokio::spawn(async move { while told.recv().await.is_some() {} });
    let allowance = Allowance::unbounded();
    let _turn = lease.turns.open(RelayTurn { profile, providers, allowance, used });
    let relayed = lease.base_url.strip_prefix("http://").unwrap();
    let body = body(kib);
    println!("{requests} requests of {} KiB, {EVENTS} events each", body.len() >> 10);
    for round in 0..ROUNDS {
        let direct = measure(&vendor, &lease.bearer, &body, requests).await;
        let relay = measure(relayed, &lease.bearer, &body, requests).await;
        println!(
            "round {round}: p50 direct {:.3} ms, relayed {:.3} ms, added {:.3} ms; \
             CPU added {:.3} ms a request",
            direct.p50,
            relay.p50,
            relay.p50 - direct.p50,
            relay.cpu - direct.cpu,
        );
    }
}

struct Measured {
    p50: f64,
    cpu: f64,
}

async fn measure(address: &str, bearer: &str, body: &str, requests: usize) -> Measured {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut times = Vec::new();
    let mut cpu = Duration::ZERO;
    for number in 0..requests + requests / 10 {
        // The first tenth warms up.
        if number == requests / 10 {
            times.clear();
            cpu = used();
        }
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read(&mut stream).await;
        times.push(begun.elapsed());
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    let cpu = (used() - cpu).as_secs_f64() * 1000.0 / requests as f64;
    times.sort_unstable();
    Measured { p50: times[times.len() / 2].as_secs_f64() * 1000.0, cpu }
}

/// Processor time of all threads of this process.
fn used() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(|task| of(task.unwrap().path())).sum())
}

async fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
        let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if bytes.len() >= at + 4 + length.unwrap().parse::<usize>().unwrap() {
            return bytes;
        }
    }
}

async fn vendor() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer: Arc<str> = answer().into();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut bytes = Vec::with_capacity(1 << 20);
                loop {
                    match stream.read_buf(&mut bytes).await {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                    let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                        continue;
                    };
                    let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
                    let length =
                        head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let whole = at + 4 + length.unwrap().parse::<usize>().unwrap();
                    if bytes.len() >= whole {
                        bytes.drain(..whole);
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

fn answer() -> String {
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "model": "m",
        "usage": { "input_tokens": 9, "output_tokens": 1 } } });
    let delta = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "text_delta", "text": "a few words more " } });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
        "usage": { "output_tokens": 400 } });
    let body = event("message_start", start)
        + &event("content_block_delta", delta).repeat(EVENTS)
        + &event("message_delta", end)
        + &event("message_stop", json!({ "type": "message_stop" }));
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length";
    format!("{head}: {length}\r\n\r\n{body}")
}

/// Tools, a long system text and a conversation, as the programs send them.
fn body(kib: usize) -> String {
    let text = "The tool runs a command in a shell and returns what it says. ".repeat(8);
    let properties: Value = (0..6)
        .map(|number| (format!("p{number}"), json!({ "type": "string", "description": text })))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let tool = json!({ "name": "Bash", "description": text,
        "input_schema": { "type": "object", "properties": properties } });
    let said = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
    let called = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t",
        "name": "Bash", "input": { "command": "ls -la", "more": { "a": [1, 2, 3] } } }] });
    let tools = vec![tool; 6];
    let messages: Vec<Value> = [said, called].into_iter().cycle().take(kib * 2).collect();
    json!({ "model": "m", "max_tokens": 32000, "stream": true, "system": text.repeat(20),
        "tools": tools, "messages": messages })
    .to_string()
}

fn relay(vendor: &str) -> (skep_core::relay::RelayLease, Arc<Profile>, Providers) {
    let settings = WireSettings {
        base_url: format!("http://{vendor}"),
        key: "sk-0123456789abcdef".into(),
        timeouts: Timeouts::default(),
        extra_headers: Vec::new(),
    };
    let provider: Arc<dyn Provider> = Arc::new(AnthropicProvider::new(settings).unwrap());
    let profile = Profile {
        name: "main".to_owned(),
        provider: "anthropic".to_owned(),
        model: "m".to_owned(),
        max_output_tokens: 4096,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: None,
        price: None,
        sees_images: true,
        known: KnownModels::NONE,
    };
    let lease = Relay::default().open(RelayLaunch {
        agent: AgentName("main".to_owned()),
        wire: RelayWire::Anthropic,
        allowed_tools: RelayTools { names: ["Bash".to_owned()].into(), ..RelayTools::default() },
        level: SandboxLevel::Host,
    });
    let providers = Providers::new(BTreeMap::from([("main".to_owned(), provider)]));
    (lease, Arc::new(profile), providers)
}
