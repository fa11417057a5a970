//! Work: a page looks at a bounded part of the inbox, and finds what is open however old it is;
//! the times of a turn.

use skep_core::cause::Cause;
use skep_core::engine::FailureCode;
use skep_core::event::{CallState, ItemState};
use skep_core::ids::*;
use skep_core::message::{Block, Body};
use skep_core::settings::QueueMode;
use skep_core::task::{TaskKind, WorkKind};

use super::task_tests::{assign, give, two_agents, wait_for};
use super::{Story, meta, seen};
use crate::agents::{NewAgent, RegisterAgents};
use crate::close::Outcome;
use crate::history::{ModelTimes, NewHistoryRow};
use crate::journal::{Audit, Entry, Journal, NewCall};
use crate::leases::Lease;
use crate::outbox::OpenChannel;
use crate::work::{self, WINDOW, WorkFilter, WorkRows, WorkTally};
use crate::{Command, CommandSet, OpenOptions, Refusal, Run, Store, StoreOf, Tx, timing};

crate::commands! {
    enum Setup -> SetupOutcome, <Command as CommandSet>::SCHEMA;
    Apart,
}

/// Between the first items and the others there is more than two windows.
struct Apart;

impl Run for Apart {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        let apart = "UPDATE items SET ord = ord + 12000 WHERE ord > 2";
        tx.conn.run(apart, &[]).await?;
        Ok(())
    }
}

fn in_states(states: &[ItemState]) -> WorkFilter {
    WorkFilter { states: states.to_vec(), ..WorkFilter::default() }
}

async fn page(store: &Store, filter: &WorkFilter, after: Option<i64>, limit: u32) -> WorkRows {
    store.read(async |conn| work::page(conn, filter, after, limit).await).await.unwrap()
}

#[tokio::test]
async fn every_statement_about_work_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let (store, main, team) = two_agents(folder.path()).await;
    let mut story = Story { store: store.clone(), agent: main, made: 0 };
    let first = story.accept(None, true, QueueMode::Queue).await.unwrap();
    let task = give(&store, assign(&first, "a", TaskKind::Delegate)).await;
    say_and_look(&store, &first).await;
    wait_for(&store, &first, "q", async || {}).await;
    for states in [ItemState::ALL, &[], &[ItemState::Running], &[ItemState::Done]] {
        for agent in [None, Some(team)] {
            let filter = WorkFilter {
                agent,
                kind: Some(WorkKind::Any),
                from: Some(Principal::new("operator")),
                text: Some("HELLO".into()),
                ..in_states(states)
            };
            page(&store, &filter, None, 9).await;
            store.read(async |conn| work::counts(conn, &filter, 1).await).await.unwrap();
        }
    }
    let found = page(&store, &WorkFilter::default(), None, 9).await;
    let given = found.rows.iter().find(|row| row.item == task).unwrap();
    let giver = (TaskKind::Delegate, AgentName::new("main"));
    assert_eq!((given.task.clone(), given.open, given.state), (Some(giver), 0, ItemState::Pending));
    assert!(matches!(given.cause, Cause::Task { .. }));
    let parent = found.rows.last().unwrap();
    assert_eq!((&given.root, given.parent.as_ref()), (&parent.item, Some(&parent.item)));
    let read = store.read(async |conn| {
        let times = timing::of_turn(conn, &first.turn).await?.unwrap();
        assert_eq!(times.item, Some((parent.item.clone(), 2)));
        assert!(timing::of_turn(conn, &TurnId::new("no")).await?.is_none());
        assert_eq!(timing::approvals_of_chain(conn, &parent.item).await?, []);
        Ok(times)
    });
    let times = read.await.unwrap();
    let said: Vec<_> = times.rows.iter().filter_map(|row| row.times).collect();
    let expected = ModelTimes { began: 3, first: Some(4), ended: 5, tries: 2 };
    assert_eq!((said, times.cut), (vec![expected], false));
    let [looked, waits] = times.calls.as_slice() else { panic!("{:?}", times.calls) };
    assert_eq!((looked.started_at, looked.changed_at, looked.waited), (Some(6), 6, false));
    assert_eq!((waits.started_at, waits.state), (Some(9), CallState::Waiting));
    assert_eq!(times.took, [(CallId::new("look"), 1)]);
    seen::explain_all(folder.path(), &store, 20).await;
}

/// A model call that was timed, and a tool call of it.
async fn say_and_look(store: &Store, lease: &Lease) {
    let id = CallId::new("look");
    let asks = Block::ToolCall { id: id.clone(), name: "x".into(), arguments: ().into() };
    let times = Some(ModelTimes { began: 3, first: Some(4), ended: 5, tries: 2 });
    let body = Body::assistant(vec![asks], Some(meta()));
    let message = NewHistoryRow { times, ..NewHistoryRow::new("said".into(), body) };
    let tool = "x".to_owned();
    let new = NewCall { id: id.clone(), tool, retry_safe: true, decision: None, own: false };
    let audit = Audit {
        call: id.clone(),
        tool: "x".into(),
        arguments: ().into(),
        decision: String::new(),
        outcome: "ok",
        took_ms: 1,
        bytes: 0,
    };
    let result = Body::tool_result(id.clone(), "x", "seen".into(), false);
    let entries = vec![
        Entry::Assistant { message, calls: vec![new] },
        Entry::Started { call: id.clone() },
        Entry::Result {
            message: NewHistoryRow::new("result".into(), result),
            call: id,
            state: CallState::Done,
            audit: Some(Box::new(audit)),
        },
    ];
    let (turn, token) = (lease.turn.clone(), lease.token);
    let journal = Journal { turn, token, entries, steer: false, active_ms: 1, now: 6 };
    store.write(journal).await.unwrap();
}

#[tokio::test]
async fn what_is_open_is_found_at_once_and_what_has_ended_a_window_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let options = || OpenOptions::in_run_folder(folder.path());
    let store = Store::open(options(), |_| {}).await.unwrap();
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let agent = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let (channel, principal) = (ChannelId::new("ws:1"), Principal::new("operator"));
    store.write(OpenChannel { channel, principal, now: 1 }).await.unwrap();
    let mut story = Story { store: store.clone(), agent, made: 0 };
    // One that failed, one that waits for its turn, and then many that are done.
    let failed = story.accept(None, true, QueueMode::Queue).await.unwrap();
    let (state, code) = (ItemState::Failed, FailureCode::Dead);
    story.close(&failed, Outcome::Ended { state, code, text: "no".into() }).await;
    let ended = async |story: &mut Story| {
        let lease = story.accept(None, true, QueueMode::Queue).await.unwrap();
        story.close(&lease, Outcome::Answered { text: "yes".into() }).await;
    };
    for _ in 0..5 {
        ended(&mut story).await;
    }
    store.close().await;
    let setup = StoreOf::<Setup>::open(options(), |_| {}).await.unwrap();
    setup.write(Apart).await.unwrap();
    setup.close().await;
    let store = Store::open(options(), |_| {}).await.unwrap();
    story.store = store.clone();
    for _ in 0..2 {
        story.accept(None, false, QueueMode::Queue).await;
    }
    let bad = in_states(&[ItemState::Failed, ItemState::Dead]);
    let (mut found, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = page(&store, &bad, after, 2).await;
        found.extend(page.rows);
        pages += 1;
        let Some(next) = page.next else { break };
        assert!(after.is_none_or(|after| next < after && after - next <= WINDOW));
        after = Some(next);
    }
    assert_eq!((found.len(), found[0].error.as_deref()), (1, Some("no")));
    assert!(pages >= 3, "{pages}");
    let open = page(&store, &in_states(&[ItemState::Pending]), None, 9).await;
    assert_eq!((open.rows.len(), open.next), (2, None));
    // All of it in pages of two, each item once and newest first.
    let (mut ords, mut after) = (Vec::new(), None);
    loop {
        let page = page(&store, &in_states(ItemState::ALL), after, 2).await;
        ords.extend(page.rows.iter().map(|row| row.ord));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(ords.len(), 8);
    assert!(ords.is_sorted_by(|a, b| a > b), "{ords:?}");
    let counts = store.read(async |conn| work::counts(conn, &bad, 0).await).await.unwrap();
    assert_eq!((counts.pending, counts.ended.done, counts.ended.failed), (2, 4, 0));
    // Of one sender alone; these are all of one.
    for (sender, expected) in [("operator", counts), ("nobody", WorkTally::default())] {
        let own = WorkFilter { from: Some(Principal::new(sender)), ..bad.clone() };
        let own = store.read(async |conn| work::counts(conn, &own, 0).await).await.unwrap();
        assert_eq!(own, expected, "{sender}");
    }
}
