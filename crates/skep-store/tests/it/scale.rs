//! A thousand agents in a tree and ten thousand tasks that wait: the next one is found and ended at
//! the same cost as among a thousand, each team has its turn, and none runs two at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skep_core::ids::*;
use skep_core::message::Usage;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::close::{Close, Outcome};
use skep_store::inbox::NewTurn;
use skep_store::leases::{Lease, Take};

use crate::lab::{LabStore, Raw, Timed, furnished, open};

/// With `ada`, `ben` and `cy` a thousand agents: ten below `ada`, ten below each of these, and on.
const TEAMS: i64 = 1000 - 3;
const TIMES: usize = 200;
/// How much dearer the large one may be. The machine is shared, and noise only ever adds: one
/// quiet round is enough.
const ALLOWED: f64 = 1.5;
const ROUNDS: usize = 5;

/// So many tasks wait, ten of each request, each for another team.
async fn waiting(tasks: u32) -> (tempfile::TempDir, LabStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let place = |number: i64| NewAgent {
        parent: Some(match number {
            0..10 => AgentName::new("ada"),
            _ => AgentName(format!("team-{}", number / 10 - 1)),
        }),
        parallel_one: true,
        ..NewAgent::root(AgentName(format!("team-{number}")))
    };
    let agents = (0..TEAMS).map(place).collect();
    store.write(RegisterAgents { agents, now: 0 }).await.unwrap();
    let numbers = format!(
        "WITH RECURSIVE n (x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x + 1 < {tasks}) "
    );
    let team = format!("(4 + x % {TEAMS})");
    let raw = vec![
        format!(
            "{numbers} INSERT INTO lanes (agent, key, pending, ready_priority, ready_ord) SELECT \
             {team}, 'task:r' || (x / 10), 1, 2, x + 1 FROM n"
        ),
        format!(
            "{numbers} INSERT INTO items (id, ord, agent, lane, kind, cause, priority, message_id, \
             principal, body, ack, state, created_at, chain_root, hops) SELECT 'i' || x, x + 1, \
             l.agent, l.id, 'task', '{{\"call\":{{\"turn\":\"t\",\"call\":\"c\"}}}}', 2, 'i' || x, \
             'agent:ada', 'work', 'queued', 'pending', 0, 'r' || (x / 10), 1 FROM n JOIN lanes l \
             ON l.agent = {team} AND l.key = 'task:r' || (x / 10)"
        ),
        format!(
            "{numbers} INSERT INTO tasks (item, root, agent, from_agent, from_key, from_turn, \
             from_call, kind, created_at, deadline) SELECT 'i' || x, 'r' || (x / 10), {team}, 1, \
             'k', 't' || x, 'c', 'delegate', 0, 5000 FROM n"
        ),
        "UPDATE agents SET ready_priority = 2, pending = (SELECT count(*) FROM items WHERE agent \
         = agents.id) WHERE id IN (SELECT agent FROM items)"
            .to_owned(),
    ];
    store.write(Raw(raw)).await.unwrap();
    store.close().await;
    // The writer learns the highest `ord` when it opens.
    let store = open(folder.path()).await;
    (folder, store)
}

fn take(number: usize) -> Take {
    let (turn, session) = (TurnId(format!("t{number}")), SessionId(format!("s{number}")));
    let slot = NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") };
    Take { slot, only: None, admits: None, now: 1 }
}

fn answer(lease: &Lease) -> Close {
    Close {
        turn: lease.turn.clone(),
        token: lease.token,
        entries: Vec::new(),
        outcome: Outcome::Answered { text: "done".to_owned() },
        kept: Vec::new(),
        resumed: false,
        usage: Usage::default(),
        active_ms: 1,
        now: 20,
    }
}

type Took = Arc<Mutex<Vec<Duration>>>;

/// The median of what the statements of a command need among few and among many is alike.
async fn costs_the_same(what: &str, run: impl AsyncFn(usize, Took)) {
    let mut seen = Vec::new();
    loop {
        let took: [Took; 2] = Default::default();
        for _ in 0..TIMES {
            for (at, took) in took.iter().enumerate() {
                run(at, Arc::clone(took)).await;
            }
        }
        let [small, large] = took.map(|took| {
            let mut took = took.lock().unwrap().clone();
            took.sort();
            took[took.len() / 2]
        });
        seen.push(large.as_secs_f64() / small.as_secs_f64());
        println!("{what} among 1 000: {small:?}, among 10 000: {large:?}");
        if seen.last().is_some_and(|ratio| *ratio <= ALLOWED) {
            return;
        }
        assert!(seen.len() < ROUNDS, "{what} was dearer: {seen:?}");
    }
}

#[tokio::test]
async fn a_task_is_found_among_ten_thousand_as_among_a_thousand() {
    let ((_few, few), (_many, many)) = (waiting(1000).await, waiting(10_000).await);
    let stores = [&few, &many];
    costs_the_same("a take", async |at, took| {
        stores[at].write(Timed { command: take(0), took }).await.unwrap_err();
    })
    .await;
    let (first, other) = (few.write(take(0)).await.unwrap(), many.write(take(0)).await.unwrap());
    let begun = [first.unwrap(), other.unwrap()];
    costs_the_same("an end", async |at, took| {
        stores[at].write(Timed { command: answer(&begun[at]), took }).await.unwrap_err();
    })
    .await;
    // Each team begins one, in the order given, and no second one.
    let mut leases: Vec<Lease> = begun.into_iter().skip(1).map(|lease| *lease).collect();
    while let Some(lease) = many.write(take(leases.len())).await.unwrap() {
        leases.push(*lease);
    }
    let teams: BTreeSet<AgentId> = leases.iter().map(|lease| lease.agent).collect();
    assert_eq!((leases.len() as i64, teams.len() as i64), (TEAMS, TEAMS));
    let order: Vec<i64> = leases.iter().map(|lease| lease.agent.0).collect();
    assert!(order.is_sorted(), "{order:?}");
}
