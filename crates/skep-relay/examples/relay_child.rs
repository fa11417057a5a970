//! Runs a program behind the walls with the relay as its only network, to see what a genuine
//! engine makes of it. Lines of standard input go to it; what it says is printed.
//!
//! `relay_child anthropic|responses VENDOR MODEL WORKSPACE SHOWN [-t TOOL]… [-e NAME=VALUE]… --
//! PROGRAM…`; `{base}` and `{bearer}` in a value are those of the lease. The key is `KEY`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use skep_core::engine::Allowance;
use skep_core::ids::AgentName;
use skep_core::provider::{Provider, Providers};
use skep_core::relay::{ModelRelay, RelayLaunch, RelayTools, RelayTurn, RelayWire};
use skep_core::settings::{KnownModels, Profile, SandboxLevel, Timeouts};
use skep_guard::duplex::{DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};
use skep_model::{AnthropicProvider, OpenAiResponsesProvider, WireSettings};
use skep_relay::Relay;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let at = words.iter().position(|word| word == "--").unwrap();
    let (own, program) = (&words[..at], &words[at + 1..]);
    let [wire, vendor, model, workspace, shown, options @ ..] = own else { panic!("see above") };
    let of = |option: &str| {
        let pairs = options.chunks(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].clone()).collect::<Vec<_>>()
    };
    let wire = match wire.as_str() {
        "anthropic" => RelayWire::Anthropic,
        _ => RelayWire::Responses,
    };
    let lease = Relay::default().open(RelayLaunch {
        agent: AgentName("main".to_owned()),
        wire,
        allowed_tools: RelayTools {
            names: of("-t").into_iter().collect(),
            types: ["custom".to_owned()].into(),
            ..RelayTools::default()
        },
        level: SandboxLevel::Confined,
    });
    let (used, mut told) = mpsc::channel(64);
    let _turn = lease.turns.open(turn(wire, vendor, model, used));
    tokio::spawn(async move {
        while let Some(used) = told.recv().await {
            println!("used: {used:?}");
        }
    });
    let mut child = DuplexProgram::new(&program[0], program[1..].iter().map(Into::into).collect());
    for pair in of("-e") {
        let (name, value) = pair.split_once('=').unwrap();
        let value = value.replace("{base}", &lease.base_url).replace("{bearer}", &lease.bearer);
        child.environment.push((name.to_owned(), value));
    }
    let mut settings = Settings::new(Level::Confined, Vec::new());
    settings.limits.disk_floor_bytes = 0;
    let network = RoomNetwork::Service(lease.service.clone());
    let room = SandboxRoom { workspace: workspace.into(), read_only: vec![shown.into()], network };
    let records = DuplexRecords::new(std::env::temp_dir().join("relay_child"));
    let mut child = records.start("child", &Sandbox::new(settings), child, &room).await.unwrap();
    let sender = child.sender();
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lines() {
            if tokio::runtime::Handle::current().block_on(sender.send(line.unwrap())).is_err() {
                return;
            }
        }
    });
    while let Ok(Some(line)) = child.line().await {
        println!("said: {:.300}", String::from_utf8_lossy(&line));
        if String::from_utf8_lossy(&line).contains("\"type\":\"result\"") {
            break;
        }
    }
    let end = child.end().await.unwrap();
    println!("ended: {:?}", end.ending);
    println!("asked for: {:?}", end.contacts);
    println!("last words: {:.2000}", String::from_utf8_lossy(&end.last_words.bytes));
    std::process::exit(0);
}

fn turn(
    wire: RelayWire,
    vendor: &str,
    model: &str,
    used: mpsc::Sender<skep_core::relay::RelayUsage>,
) -> RelayTurn {
    let timeouts = Timeouts::default();
    let settings = WireSettings {
        base_url: vendor.to_owned(),
        key: std::env::var("KEY").unwrap_or_else(|_| "sk-0123456789abcdef".to_owned()).into(),
        timeouts,
        extra_headers: Vec::new(),
    };
    let provider: Arc<dyn Provider> = match wire {
        RelayWire::Anthropic => Arc::new(AnthropicProvider::new(settings).unwrap()),
        RelayWire::Responses => Arc::new(OpenAiResponsesProvider::new(settings).unwrap()),
    };
    let profile = Profile {
        name: "main".to_owned(),
        provider: "main".to_owned(),
        model: model.to_owned(),
        max_output_tokens: 4096,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: None,
        price: None,
        sees_images: true,
        known: KnownModels::NONE,
    };
    let providers = Providers::new(BTreeMap::from([("main".to_owned(), provider)]));
    RelayTurn { profile: Arc::new(profile), providers, allowance: Allowance::unbounded(), used }
}
