//! Rows of sums that many commands of a batch add to.

use futures_util::future::join_all;
use skep_core::cause::Cause;
use skep_core::ids::*;
use skep_core::message::{Block, Body, Meta, StopReason, Usage};
use skep_core::settings::QueueMode;
use skep_store::Conn;
use skep_store::close::{Close, Outcome};
use skep_store::history::NewHistoryRow;
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::journal::Entry;
use skep_store::leases::Lease;

use crate::lab::{ENGINE, LabStore, furnished};

const TURNS: i64 = 24;

/// With a limit of one byte it is refused after it has written: its batch is run again apart.
fn message(number: i64, room: Option<u64>) -> Accept {
    let letter = Letter {
        item: ItemId(format!("i{number}")),
        message_id: MessageId(format!("i{number}")),
        agent: AgentId(1 + number % 2),
        agent_name: AgentName::new("ada"),
        session_key: SessionKey(format!("k{number}")),
        cause: Cause::Message,
        principal: Principal::new("token:a"),
        origin: None,
        channel: None,
        text: "hello".to_owned(),
        note: None,
        files: Vec::new(),
        skill: None,
        think: None,
        request: None,
        room,
        now: number,
    };
    let engine = ENGINE;
    let take = Some(NewTurn {
        turn: TurnId(format!("t{number}")),
        session: SessionId(format!("s{number}")),
        idle_ms: 1000,
        node: NodeName::new("n"),
    });
    Accept { letter, mode: QueueMode::Queue, engine, take, fresh: false }
}

fn answer(lease: &Lease) -> Close {
    let meta = Meta {
        profile: None,
        provider: "p".into(),
        model: "m".into(),
        api: "a".into(),
        usage: Usage::new(1, 2, 3, 4),
        stop_reason: StopReason::EndTurn,
    };
    let body = Body::assistant(vec![Block::text("yes")], Some(meta));
    let message = NewHistoryRow::new(format!("m-{}", lease.turn), body);
    Close {
        turn: lease.turn.clone(),
        token: lease.token,
        entries: vec![Entry::Assistant { message, calls: Vec::new() }],
        outcome: Outcome::Answered { text: "yes".into() },
        kept: Vec::new(),
        resumed: false,
        usage: Usage::default(),
        active_ms: 1,
        now: 100,
    }
}

async fn numbers<const N: usize>(store: &LabStore, sql: &'static str) -> Vec<[i64; N]> {
    let read = store.read(async |conn: &mut Conn| {
        let mut rows = Vec::new();
        for row in conn.rows(sql, &[]).await? {
            let mut columns = [0; N];
            for (at, column) in columns.iter_mut().enumerate() {
                *column = row.int(at)?;
            }
            rows.push(columns);
        }
        Ok(rows)
    });
    read.await.unwrap()
}

const COUNTERS: &str = "SELECT pending, running, turns FROM agents WHERE id < 3 ORDER BY id";
const USAGE: &str = "SELECT agent, calls, turns, input, output FROM usage_hours ORDER BY agent";

async fn told(store: &LabStore, refused: Option<i64>) -> Vec<Lease> {
    let room = |number| (Some(number) == refused).then_some(1);
    let accepts = (0..TURNS).map(|number| store.write(message(number, room(number))));
    let mut leases = Vec::new();
    for (number, done) in (0..).zip(join_all(accepts).await) {
        match done {
            Ok(Accepted::Started { lease }) => leases.push(*lease),
            Ok(_) => panic!("{number} did not begin"),
            Err(error) => assert_eq!(Some(number), refused, "{error}"),
        }
    }
    leases
}

#[tokio::test]
async fn the_sums_of_many_commands_are_those_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let leases = told(&store, None).await;
    let half = TURNS / 2;
    assert_eq!(numbers(&store, COUNTERS).await, [[0, half, half], [0, half, half]]);
    for done in join_all(leases.iter().map(|lease| store.write(answer(lease)))).await {
        done.unwrap();
    }
    assert_eq!(numbers(&store, COUNTERS).await, [[0, 0, 0], [0, 0, 0]]);
    let used = |agent| [agent, half, half, half, 2 * half];
    assert_eq!(numbers(&store, USAGE).await, [used(1), used(2)]);
}

#[tokio::test]
async fn a_refused_command_adds_nothing_and_takes_nothing_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let leases = told(&store, Some(7)).await;
    let half = TURNS / 2;
    assert_eq!(numbers(&store, COUNTERS).await, [[0, half, half], [0, half - 1, half - 1]]);
    // The second time a turn is closed its lease is gone.
    let twice = leases.iter().chain(&leases).map(|lease| store.write(answer(lease)));
    let closed = join_all(twice).await.iter().filter(|done| done.is_ok()).count();
    assert_eq!(closed, leases.len());
    assert_eq!(numbers(&store, COUNTERS).await, [[0, 0, 0], [0, 0, 0]]);
    assert_eq!(
        numbers(&store, USAGE).await,
        [[1, half, half, half, 2 * half], [2, half - 1, half - 1, half - 1, 2 * (half - 1)]]
    );
}
