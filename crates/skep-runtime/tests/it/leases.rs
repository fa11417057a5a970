//! A turn belongs to the node that runs it, for as long as that says so.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skep_core::Millis;
use skep_core::ids::{AgentName, NodeName, Principal, SessionId, SessionKey, TurnId};
use skep_core::inbound::{Inbound, Source};
use skep_runtime::Hive;
use skep_store::inbox::NewTurn;
use skep_store::leases::{self, LEASE_MS, LostTurns, Recover, Take};
use skep_store::{OpenOptions, Store};

use crate::echo;

/// A hive of this name, with a turn that does not end.
async fn busy(run: &Path, node: &str) -> Hive {
    let hive = echo::hive_of(run, node).await;
    let inbound = Inbound {
        agent: AgentName::new("main"),
        session_key: SessionKey::new("main"),
        text: echo::HANG.to_owned(),
        attachments: Vec::new(),
        mode: None,
        think: None,
        principal: Principal::new("operator"),
        source: Source::Api { key: None },
    };
    hive.submit(inbound).await.unwrap();
    hive
}

/// The same store, as another node would open it.
async fn beside(run: &Path) -> Store {
    Store::open(OpenOptions::in_run_folder(run), |_| {}).await.unwrap()
}

async fn over(store: &Store) -> Option<Millis> {
    let other = NodeName::new("b");
    store.read(async |conn| leases::next_over(conn, &other).await).await.unwrap()
}

fn take(number: u32, now: Millis) -> Take {
    let slot = NewTurn {
        turn: TurnId(format!("turn{number}")),
        session: SessionId(format!("session{number}")),
        idle_ms: 1000,
        node: NodeName::new("b"),
    };
    Take { slot, only: None, admits: None, now }
}

/// The first node is this test in a process of its own.
#[tokio::test]
async fn another_node_takes_a_turn_when_its_lease_is_over_and_not_before() {
    const RUN: &str = "SKEP_TEST_RUN";
    if let Some(run) = std::env::var_os(RUN) {
        let _hive = busy(Path::new(&run), "a").await;
        println!("a turn runs");
        return std::future::pending().await;
    }
    let run = tempfile::tempdir().unwrap();
    let name = "leases::another_node_takes_a_turn_when_its_lease_is_over_and_not_before";
    let mut first = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(RUN, run.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(first.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("a turn runs")));

    let store = beside(run.path()).await;
    let until = over(&store).await.unwrap();
    let node = NodeName::new("b");
    let live = Recover { node: node.clone(), lost: LostTurns::AtStart, now: until - 1 };
    assert_eq!(store.write(live).await.unwrap(), 0);
    assert!(store.write(take(1, until - 1)).await.unwrap().is_none());

    first.kill().unwrap();
    first.wait().unwrap();
    let expired = Recover { node, lost: LostTurns::AtStart, now: until + LEASE_MS };
    assert_eq!(store.write(expired).await.unwrap(), 1);
    let lease = store.write(take(2, until + LEASE_MS)).await.unwrap().unwrap();
    assert!(lease.resumed && lease.token.0 == 2, "{lease:?}");
    assert_eq!(over(&store).await, None, "it is the second node's now");
    store.close().await;

    // The first one's name: what is its own is taken back at once, what is another's is not.
    let store = beside(run.path()).await;
    let now = until;
    let back = |node: &str| Recover { node: NodeName::new(node), lost: LostTurns::AtStart, now };
    assert_eq!(store.write(back("a")).await.unwrap(), 0);
    assert_eq!(store.write(back("b")).await.unwrap(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_node_that_lives_keeps_its_turns() {
    let run = tempfile::tempdir().unwrap();
    let hive = busy(run.path(), "a").await;
    let store = beside(run.path()).await;
    let until = over(&store).await.unwrap();
    // The wall clock does not stand still with this one.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while over(&store).await.unwrap() <= until {
        assert!(Instant::now() < deadline, "the lease is not renewed");
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    store.close().await;
    hive.drain(std::future::ready(())).await;
}
