//! Sizes do not matter: the time of statements without their commit, the median of 200, the
//! sizes interleaved. The plans of the statements are asserted beside the crate's own code.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skep_core::cause::Cause;
use skep_core::ids::*;
use skep_core::message::View;
use skep_core::settings::QueueMode;
use skep_store::history::{self, Rows};
use skep_store::inbox::{Accept, Letter, NewTurn};
use skep_store::leases::Take;

use crate::lab::{ENGINE, LabStore, Raw, Timed, furnished, open};

const MANY: u32 = 100_000;
const TIMES: usize = 200;
/// How much dearer the large one may be.
const ALLOWED: f64 = 1.5;
/// Fifty rows against ten, of reads alone and not optimised: less than each row its share. At the
/// door it is 1.5, see `history_page` of `bench/`.
const FIVE_TIMES_THE_ROWS: f64 = 4.0;
/// The machine is shared, and noise only ever adds: one quiet round is enough.
const ROUNDS: usize = 5;

/// A home with `items` waiting in `lanes` of `agents`.
async fn crowded(agents: u32, lanes: u32, items: u32) -> (tempfile::TempDir, LabStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let numbers = |top: u32| {
        format!("WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {top}) ")
    };
    let raw = vec![
        numbers(agents) + "INSERT INTO agents (name, created_at) SELECT 'agent-' || x, 0 FROM n",
        numbers(lanes)
            + &format!(
                "INSERT INTO lanes (agent, key) SELECT 4 + x % {agents}, 'key-' || x FROM n"
            ),
        numbers(items)
            + &format!(
                "INSERT INTO items (id, ord, agent, lane, kind, priority, message_id, \
                 principal, body, ack, state, created_at) SELECT 'item-' || x, x, l.agent, \
                 l.id, 'message', 2, 'item-' || x, 'operator', 'hello, this is a message', \
                 'queued', 'pending', 0 FROM n JOIN lanes l ON l.id = 1 + x % {lanes}"
            ),
        "UPDATE lanes SET ready_priority = 2, (pending, ready_ord) = (SELECT count(*), min(ord) \
         FROM items WHERE lane = lanes.id AND state = 'pending' AND turn IS NULL)"
            .to_owned(),
        "UPDATE agents SET ready_priority = 2, pending = (SELECT count(*) FROM items \
         WHERE agent = agents.id) WHERE id > 3"
            .to_owned(),
    ];
    store.write(Raw(raw)).await.unwrap();
    store.close().await;
    // The writer learns the highest `ord` when it opens.
    let store = open(folder.path()).await;
    (folder, store)
}

fn take() -> Take {
    let (turn, session) = (TurnId::new("turn"), SessionId::new("session"));
    let slot = NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") };
    Take { slot, only: None, admits: None, now: 1 }
}

/// Into the busiest lane of the first agent.
fn accept(agents: u32) -> Accept {
    let letter = Letter {
        item: ItemId::new("new"),
        message_id: MessageId::new("new"),
        agent: AgentId(4),
        agent_name: AgentName::new("agent-1"),
        session_key: SessionKey(format!("key-{agents}")),
        cause: Cause::Message,
        principal: Principal::new("operator"),
        origin: None,
        channel: None,
        text: "hello".to_owned(),
        note: None,
        files: Vec::new(),
        skill: None,
        think: None,
        request: None,
        room: None,
        now: 1,
    };
    let engine = ENGINE;
    Accept { letter, mode: QueueMode::Queue, engine, take: None, fresh: false }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// How much dearer the dearest of the others is than the first.
fn ratio(times: Vec<Vec<Duration>>) -> f64 {
    let medians: Vec<f64> = times.into_iter().map(|times| median(times).as_secs_f64()).collect();
    medians[1..].iter().fold(0.0_f64, |worst, time| worst.max(time / medians[0]))
}

#[tokio::test]
async fn taking_and_accepting_cost_the_same_however_much_waits() {
    let homes = [crowded(1, 1, 10).await, crowded(1, 1, MANY).await, crowded(20, 1000, MANY).await];
    let mut ratios = Vec::new();
    while ratios.len() < ROUNDS {
        let times = || [(); 3].map(|()| Arc::new(Mutex::new(Vec::new())));
        let (taken, accepted) = (times(), times());
        for _ in 0..TIMES {
            for (n, (_, store)) in homes.iter().enumerate() {
                let took = Arc::clone(&taken[n]);
                store.write(Timed { command: take(), took }).await.unwrap_err();
                let took = Arc::clone(&accepted[n]);
                let command = accept([1, 1, 20][n]);
                store.write(Timed { command, took }).await.unwrap_err();
            }
        }
        let [taken, accepted] = [taken, accepted]
            .map(|times| ratio(times.iter().map(|times| times.lock().unwrap().clone()).collect()));
        ratios.push((taken, accepted));
        if taken <= ALLOWED && accepted <= ALLOWED {
            // What was measured is what it should be: the first item of the first agent.
            for (_, store) in &homes {
                let lease = store.write(take()).await.unwrap().unwrap();
                assert_eq!((lease.agent, lease.first.is_some()), (AgentId(4), true));
            }
            return;
        }
    }
    panic!("taking and accepting were dearer: {ratios:?}");
}

/// A home with sessions of ten, of fifty and of `MANY` messages.
async fn talkative() -> (tempfile::TempDir, LabStore) {
    let (folder, store) = crowded(1, 1, 1).await;
    let mut raw = Vec::new();
    for (session, top) in [("ten", 10), ("fifty", 50), ("many", MANY)] {
        raw.push(format!(
            "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq) \
             VALUES ('{session}', 4, '{session}', 0, 0, {top})"
        ));
        raw.push(format!(
            "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, \
             first_seq, started_at, changed_at, ended_at) \
             VALUES ('{session}', 1, 4, '{session}', 2, 1, 1, 'ended', 1, 0, 0, 0)"
        ));
        raw.push(format!(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {top}) \
             INSERT INTO history (session, seq, id, turn, at, spoken, body) SELECT \
             '{session}', x, '{session}-' || x, '{session}', 0, 1, \
             '{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"hello\"}}]}}' FROM n"
        ));
    }
    store.write(Raw(raw)).await.unwrap();
    (folder, store)
}

async fn page(store: &LabStore, session: &str, view: View, limit: u32) -> Duration {
    let (agent, session) = (AgentName::new("agent-1"), SessionId::new(session));
    let read = store.read(async |conn| {
        let begun = Instant::now();
        let rows = history::page(conn, &agent, &session, view, None, limit).await?;
        let took = begun.elapsed();
        assert_eq!(rows.len(), limit as usize);
        Ok(took)
    });
    read.await.unwrap()
}

/// The same number of rows out of a short and out of a long session.
#[tokio::test]
async fn the_newest_page_costs_the_same_however_long_the_session() {
    let (_folder, store) = talkative().await;
    for (view, short, limit) in
        [(View::Full, "ten", 10), (View::Full, "fifty", 50), (View::Simple, "fifty", 50)]
    {
        let mut ratios = Vec::new();
        while ratios.last().is_none_or(|ratio| *ratio > ALLOWED) {
            assert!(ratios.len() < ROUNDS, "{view:?}, {limit} rows were dearer: {ratios:?}");
            let mut times = vec![Vec::new(), Vec::new()];
            for _ in 0..TIMES {
                times[0].push(page(&store, short, view, limit).await);
                times[1].push(page(&store, "many", view, limit).await);
            }
            ratios.push(ratio(times));
        }
    }
}

/// The whole read, as the door asks for it: fifty rows of the long session against the fifty, and
/// against the ten, that there are in a short one.
#[tokio::test]
async fn the_newest_fifty_of_a_long_session_cost_about_what_a_short_one_does() {
    let (_folder, store) = talkative().await;
    let read = async |session: &str, rows: usize| {
        let (agent, session) = (AgentName::new("agent-1"), SessionId::new(session));
        let begun = Instant::now();
        let read = store.read(async |conn| {
            history::lines(conn, &agent, &session, Rows::Before(i64::MAX), 50).await
        });
        let lines = read.await.unwrap();
        let took = begun.elapsed();
        assert_eq!(lines.seqs().count(), rows);
        took
    };
    for (short, rows, allowed) in [("fifty", 50, ALLOWED), ("ten", 10, FIVE_TIMES_THE_ROWS)] {
        let mut ratios = Vec::new();
        while ratios.last().is_none_or(|ratio| *ratio > allowed) {
            assert!(ratios.len() < ROUNDS, "against {rows}, fifty were dearer: {ratios:?}");
            let mut times = vec![Vec::new(), Vec::new()];
            for _ in 0..TIMES {
                times[0].push(read(short, rows).await);
                times[1].push(read("many", 50).await);
            }
            ratios.push(ratio(times));
        }
        println!("newest 50 of {MANY} against {rows}: {:.2}", ratios.last().unwrap());
    }
}
