//! One process with its relay, a vendor behind it, and a client that says exactly what it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skep_core::budget::Over;
use skep_core::engine::{Allowance, FailureCode, Hold, Settlement};
use skep_core::ids::AgentName;
use skep_core::money::Price;
use skep_core::provider::{ModelRequest, Provider, Providers};
use skep_core::relay::{
    ModelRelay, RelayLaunch, RelayLease, RelayTools, RelayTurn, RelayTurnGuard, RelayUsage,
    RelayWire,
};
use skep_core::settings::{KnownModels, Profile, SandboxLevel, Timeouts};
use skep_model::{AnthropicProvider, OpenAiResponsesProvider, WireSettings};
use skep_relay::Relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

pub const KEY: &str = "sk-real-key-0123456789abcdef";
pub const MODEL: &str = "test-model";
pub const WIRES: [RelayWire; 2] = [RelayWire::Anthropic, RelayWire::Responses];

/// A process on the machine's own loopback.
pub struct Scene {
    pub wire: RelayWire,
    pub lease: RelayLease,
    pub books: Arc<Mutex<Vec<Settlement>>>,
    /// What the budget was asked.
    pub asked: Arc<Mutex<Vec<Arc<ModelRequest>>>>,
    profile: Arc<Profile>,
    providers: Providers,
}

/// A turn that is open.
pub struct Open {
    pub used: mpsc::Receiver<RelayUsage>,
    pub guard: RelayTurnGuard,
}

pub fn path(wire: RelayWire) -> &'static str {
    match wire {
        RelayWire::Anthropic => "/v1/messages",
        RelayWire::Responses => "/v1/responses",
    }
}

pub fn body(wire: RelayWire) -> Value {
    match wire {
        RelayWire::Anthropic => json!({
            "model": MODEL, "max_tokens": 64, "stream": true,
            "tools": [{ "name": "Bash", "description": "d", "input_schema": { "type": "object" } }],
            "messages": [{ "role": "user", "content": "Grüße \u{1f41d}" }],
        }),
        RelayWire::Responses => json!({
            "model": MODEL, "stream": true, "store": false,
            "tools": [{ "type": "function", "name": "Bash", "parameters": { "type": "object" } }],
            "input": [{ "role": "user", "content": "Grüße \u{1f41d}" }],
        }),
    }
}

fn tools() -> RelayTools {
    let names = ["Bash".to_owned()].into();
    RelayTools { names, prefixes: vec!["mcp__skep__".to_owned()], ..RelayTools::default() }
}

impl Scene {
    /// In front of a vendor at this address, without a path.
    pub fn new(wire: RelayWire, vendor: &str) -> Self {
        Self::at(wire, vendor, SandboxLevel::Host)
    }

    pub fn at(wire: RelayWire, vendor: &str, level: SandboxLevel) -> Self {
        let (provider, base_url) = match wire {
            RelayWire::Anthropic => ("anthropic", vendor.to_owned()),
            RelayWire::Responses => ("openai-responses", format!("{vendor}/v1")),
        };
        let timeouts = Timeouts { first: Duration::from_secs(20), ..Timeouts::default() };
        let settings =
            WireSettings { base_url, key: KEY.into(), timeouts, extra_headers: Vec::new() };
        let vendor: Arc<dyn Provider> = match wire {
            RelayWire::Anthropic => Arc::new(AnthropicProvider::new(settings).unwrap()),
            RelayWire::Responses => Arc::new(OpenAiResponsesProvider::new(settings).unwrap()),
        };
        let profile = Profile {
            name: "main".to_owned(),
            provider: provider.to_owned(),
            model: MODEL.to_owned(),
            max_output_tokens: 4096,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: None,
            price: None::<Price>,
            sees_images: true,
            known: KnownModels::NONE,
        };
        let agent = AgentName("main".to_owned());
        let launch = RelayLaunch { agent, wire, allowed_tools: tools(), level };
        Self {
            wire,
            lease: Relay::default().open(launch),
            books: Arc::default(),
            asked: Arc::default(),
            profile: Arc::new(profile),
            providers: Providers::new(BTreeMap::from([("main".to_owned(), vendor)])),
        }
    }

    pub fn open(&self) -> Open {
        let (books, asked) = (Arc::clone(&self.books), Arc::clone(&self.asked));
        let allowance = Allowance::new(move |_, request| {
            asked.lock().unwrap().push(Arc::clone(request));
            let books = Arc::clone(&books);
            let hold = Hold::new(move |ended| books.lock().unwrap().push(ended));
            Box::pin(async { Ok(hold) })
        });
        self.open_with(allowance)
    }

    pub fn open_over_budget(&self) -> Open {
        self.open_with(Allowance::new(|_, _| {
            let text = "the day's limit of 1.00 USD is reached".to_owned();
            let over = Over { code: FailureCode::LimitCost, text, by_holds: false };
            Box::pin(async { Err(over) })
        }))
    }

    fn open_with(&self, allowance: Allowance) -> Open {
        let (sender, used) = mpsc::channel(64);
        let (profile, providers) = (Arc::clone(&self.profile), self.providers.clone());
        let turn = RelayTurn { profile, providers, allowance, used: sender };
        Open { used, guard: self.lease.turns.open(turn) }
    }

    /// The head of a request of this process, with the length of its body.
    pub fn head(&self, length: usize) -> String {
        format!("{}Content-Length: {length}\r\n\r\n", self.lines())
    }

    /// The same without its end.
    pub fn lines(&self) -> String {
        format!(
            "POST {} HTTP/1.1\r\nHost: model.skep\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nanthropic-version: 2023-06-01\r\n\
             Connection: close\r\n",
            path(self.wire),
            self.lease.bearer
        )
    }

    pub async fn ask(&self, body: &str) -> Answer {
        self.say(format!("{}{body}", self.head(body.len())).as_bytes()).await
    }

    /// Says these bytes and hears the answer to its end.
    pub async fn say(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        // Whoever is refused early is not listened to until the end.
        let _ = stream.write_all(bytes).await;
        hear(&mut stream).await
    }

    pub async fn connect(&self) -> TcpStream {
        let address = self.lease.base_url.strip_prefix("http://").unwrap();
        TcpStream::connect(address).await.unwrap()
    }

    pub fn books(&self) -> Vec<Settlement> {
        self.books.lock().unwrap().clone()
    }
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// It came to its end and did not break off.
    pub whole: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    }
}

pub async fn hear(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await.is_ok();
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: bytes.split_off(at + 4), whole: ended };
    if answer.header("transfer-encoding").as_deref() == Some("chunked") {
        (answer.body, answer.whole) = joined(&answer.body);
    } else if let Some(length) = answer.header("content-length") {
        answer.whole = answer.body.len().to_string() == length;
    }
    answer
}

fn joined(mut chunks: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = chunks.windows(2).position(|two| two == b"\r\n") {
        let length = str::from_utf8(&chunks[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 2 + length + 2..];
    }
    (body, false)
}
