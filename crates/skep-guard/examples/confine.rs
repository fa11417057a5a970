//! What a network costs the start of a confined command: `confine measure [ROUNDS]` runs `true` in
//! turn without one, with one in which the hive answers, and with that of the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use skep_core::policy::network::{HostEntry, NetworkRules};
use skep_guard::egress::{EgressHub, SystemResolver};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings, ShellCommand};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 200;
/// The first ones fill caches.
const WARM: usize = 10;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure"] => ROUNDS,
        ["measure", rounds] => rounds.parse().expect("a number of rounds"),
        _ => panic!("usage: confine measure [ROUNDS]"),
    };
    let work = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(Settings::new(Level::Confined, Vec::new()));
    let hosts = ["example.org", "*.example.net", "example.com:8443"];
    let hosts = hosts.map(|entry| HostEntry::parse(entry).unwrap()).to_vec();
    let hub = EgressHub::new(Arc::new(SystemResolver::default()));
    let egress = hub.of(1, &Arc::new(NetworkRules { hosts, ..NetworkRules::default() }));
    let networks = [
        ("none", RoomNetwork::None),
        ("proxy", RoomNetwork::Proxy(egress)),
        ("full", RoomNetwork::Full),
    ];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..WARM + rounds {
        for (place, (_, network)) in networks.iter().enumerate() {
            let room = SandboxRoom {
                workspace: work.path().to_owned(),
                read_only: Vec::new(),
                network: network.clone(),
            };
            let command = ShellCommand {
                line: "true".to_owned(),
                timeout: Duration::from_secs(20),
                output_bytes: 1024,
            };
            let begun = Instant::now();
            sandbox.run(command, &room, &CancellationToken::new()).await.unwrap();
            if round >= WARM {
                times[place].push(begun.elapsed());
            }
        }
    }
    let mut medians = Vec::new();
    for ((name, _), times) in networks.iter().zip(&mut times) {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
        let shown = [10, 50, 90, 99].map(|part| format!("p{part} {:6.2} ms", at(part)));
        println!("{name:<6} {}", shown.join("  "));
        medians.push(at(50));
    }
    println!("proxy / none = {:.2}", medians[1] / medians[0]);
}
