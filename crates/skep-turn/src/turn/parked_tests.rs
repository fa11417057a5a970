//! An engine whose turn waits for a person keeps its process: without a slot, for a while, and not
//! beyond a number of them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use skep_core::decision::Decision;
use skep_core::engine::ResumedTools;
use skep_core::event::{CancelReason, ItemState};
use skep_core::ids::{CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::policy::{Class, Effect};
use skep_core::settings::{AgentState, HiveSettings, Limits};
use skep_core::tool::ToolAnswer;
use skep_guard::clock;
use skep_store::inbox::{Accept, Accepted};
use skep_store::item_views::CancelItem;
use skep_store::lanes::WakeLanes;
use skep_store::leases::Lease;
use skep_store::waits::Decide;
use skep_testkit::{processes, wait};

use super::conformance::{
    PATIENCE, assert_gone, audits, drive, effects, end, folder, one_run, own, pair, session, stdio,
    usage,
};
use super::stdio_engine::StdioEngine;
use super::tests::{AHEAD, Bench, ToolBody, fake_clock};
use super::{TurnEnv, run};
use crate::snapshot::Offer;

/// Its processes now.
fn alive(bench: &Bench) -> Vec<u32> {
    processes::alive(folder(bench).to_str().unwrap())
}

/// How often it was started.
fn starts(bench: &Bench) -> String {
    std::fs::read_to_string(folder(bench).join("runs")).unwrap()
}

pub(super) fn change(env: &TurnEnv, how: impl FnOnce(&mut HiveSettings)) {
    let replaced = env.snapshot.replace(|now| {
        let (mut next, mut settings) = (now.clone(), HiveSettings::clone(&now.settings));
        how(&mut settings);
        next.settings = Arc::new(settings);
        Ok::<_, ()>(next)
    });
    replaced.unwrap();
}

/// A turn that waits, its engine, and what a person is asked.
async fn parked(bench: &Bench, runs: &[Vec<Value>]) -> (Arc<TurnEnv>, u32) {
    let env = bench.env(stdio(bench, runs), Effect::Ask).await;
    let lease = bench.accept().await;
    run(Arc::clone(&env), lease, None).await;
    assert_eq!((bench.item().await.state, effects(bench).len()), (ItemState::Waiting, 0));
    let alive = alive(bench);
    assert_eq!(alive.len(), 1);
    (env, alive[0])
}

async fn go_on(bench: &Bench, env: &Arc<TurnEnv>) -> Vec<String> {
    let lease = env.lanes.take(None, None).await.unwrap();
    drive(bench, env, lease).await;
    bench.rows().await
}

#[tokio::test]
async fn engine_conformance_a_parked_process_hears_what_was_decided() {
    let shell = own("x", json!({"started": "before", "asks": 2}));
    let ours = json!({"ours": {"id": "x", "name": "change", "arguments": {}}});
    let asks_first = json!({"ours": {"id": "x", "name": "change", "arguments": {}, "asks": 1}});
    for (call, tool) in [(shell, "shell"), (ours, "change"), (asks_first, "change")] {
        for approve in [true, false] {
            let bench = Bench::new().await;
            let (env, pid) = parked(&bench, &one_run(vec![call.clone()])).await;
            bench.decide(bench.question().await, approve).await;
            assert_eq!(alive(&bench), [pid]);
            let rows = go_on(&bench, &env).await;
            let said = if approve { "result " } else { "result approval_denied: " };
            assert!(rows[2].starts_with(said), "{call}: {rows:?}");
            assert_eq!((rows.len(), rows[3].as_str()), (4, "says all done"), "{call}: {rows:?}");
            assert_eq!(starts(&bench), "1", "{call}");
            let outcome = if approve { "ok" } else { "refused" };
            assert_eq!(audits(&bench).await, [pair(tool, outcome)], "{call}");
            let done = effects(&bench).len() + bench.ran().len();
            assert_eq!(done, usize::from(approve), "{call}");
            assert_eq!(bench.item().await.state, ItemState::Done);
        }
    }
}

#[tokio::test]
async fn engine_conformance_a_parked_process_asks_again_and_waits_again() {
    let bench = Bench::new().await;
    let runs = one_run(vec![own("x", json!({})), own("y", json!({"arguments": {"two": 2}}))]);
    let (env, pid) = parked(&bench, &runs).await;
    bench.decide(bench.question().await, true).await;
    let lease = env.lanes.take(None, None).await.unwrap();
    run(Arc::clone(&env), lease, None).await;
    assert_eq!((bench.item().await.state, alive(&bench)), (ItemState::Waiting, vec![pid]));
    bench.decide(bench.question().await, true).await;
    let rows = go_on(&bench, &env).await;
    assert_eq!((rows.len(), effects(&bench).len(), starts(&bench).as_str()), (6, 2, "1"));
}

#[tokio::test]
async fn engine_conformance_a_tool_that_waits_by_itself_is_given_the_decision() {
    let mut bench = Bench::new().await;
    bench.listed.push("wait".to_owned());
    let body: ToolBody = Arc::new(|context| {
        Box::pin(async move {
            match context.decision {
                Some(Decision::Tool(word)) => ToolAnswer::ok(word.to_string()),
                _ => ToolAnswer::Wait { reason: "a word".to_owned() },
            }
        })
    });
    let offer = Offer {
        tools: vec![bench.tool("wait", Class::Read, body)],
        hooks: Vec::new(),
        subagents: None,
    };
    let ours = json!({"ours": {"id": "x", "name": "wait", "arguments": {}}});
    let env = bench.env(stdio(&bench, &one_run(vec![ours])), Effect::Allow).await;
    env.snapshot.replace(|now| now.with_offer("wait", offer)).unwrap();
    let lease = bench.accept().await;
    run(Arc::clone(&env), lease, None).await;
    assert_eq!(bench.item().await.state, ItemState::Waiting);
    let (turn, call) = (TurnId::new("turn"), CallId::new("x"));
    let decision = Decision::Tool(json!("go"));
    bench.store.write(Decide { turn, call, decision, now: fake_clock() }).await.unwrap();
    let rows = go_on(&bench, &env).await;
    assert_eq!(rows[2..], ["result \"go\"", "says all done"]);
    assert_eq!(starts(&bench), "1");
}

/// Started again it asks anew, and finds the decision by tool and arguments.
#[tokio::test]
async fn engine_conformance_a_process_that_was_parked_too_long_or_died_is_started_again() {
    for dies in [false, true] {
        let bench = Bench::new().await;
        let first = vec![session(), own("x", json!({}))];
        let runs = [vec![first], one_run(vec![own("y", json!({}))])].concat();
        let (env, pid) = parked(&bench, &runs).await;
        match dies {
            true => {
                let mut kill = std::process::Command::new("kill");
                assert!(kill.args(["-9", &pid.to_string()]).status().unwrap().success());
            }
            false => {
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(599)).await;
                assert_eq!(alive(&bench), [pid]);
                tokio::time::advance(Duration::from_secs(2)).await;
                tokio::time::resume();
            }
        }
        assert_gone(&bench).await;
        assert_eq!(bench.item().await.state, ItemState::Waiting);
        bench.decide(bench.question().await, true).await;
        let rows = go_on(&bench, &env).await;
        assert_eq!((rows.len(), bench.item().await.state), (6, ItemState::Done), "{rows:?}");
        assert_eq!((effects(&bench).len(), starts(&bench).as_str()), (1, "2"));
        assert_eq!(audits(&bench).await, [pair("Shell", "cancelled"), pair("shell", "ok")]);
    }
}

#[tokio::test]
async fn engine_conformance_a_parked_process_hears_that_nobody_decided() {
    let bench = Bench::new().await;
    let (env, _) = parked(&bench, &one_run(vec![own("x", json!({}))])).await;
    AHEAD.set(bench.question().await.expires_at - clock::now_ms() + 1);
    bench.store.write(WakeLanes { now: fake_clock() }).await.unwrap();
    let rows = go_on(&bench, &env).await;
    assert!(rows[2].starts_with("result approval_expired: "), "{rows:?}");
    assert_eq!((rows[3].as_str(), starts(&bench).as_str()), ("says all done", "1"));
    assert_eq!(effects(&bench).len(), 0);
}

#[tokio::test]
async fn engine_conformance_a_parked_process_ends_with_its_turn_its_agent_and_the_hive() {
    for end in ["turn", "agent", "hive"] {
        let bench = Bench::new().await;
        let (env, _) = parked(&bench, &one_run(vec![own("x", json!({}))])).await;
        if end == "hive" {
            env.stop.cut.cancel();
            assert_gone(&bench).await;
            continue;
        }
        if end == "agent" {
            change(&env, |settings| settings.agents = Default::default());
            bench.decide(bench.question().await, true).await;
        } else {
            let item = ItemId::new("item");
            let cancel = CancelItem { item, reason: CancelReason::Stop, now: fake_clock() };
            bench.store.write(cancel).await.unwrap();
        }
        go_on(&bench, &env).await;
        let ended = if end == "agent" { ItemState::Failed } else { ItemState::Cancelled };
        assert_eq!((bench.item().await.state, effects(&bench).len()), (ended, 0), "{end}");
    }
}

/// A message of its own conversation.
fn message(bench: &Bench, item: &str) -> Accept {
    let mut message = bench.message(item, "do it");
    message.letter.session_key = SessionKey::new(item);
    message.take.as_mut().unwrap().session = SessionId::new(item);
    message
}

async fn lease(bench: &Bench, item: &str) -> Lease {
    match bench.store.write(message(bench, item)).await.unwrap() {
        Accepted::Started { lease } => *lease,
        _ => panic!("the turn did not begin with its message"),
    }
}

#[tokio::test]
async fn engine_conformance_a_parked_process_has_no_slot() {
    let bench = Bench::new().await;
    let waits = vec![session(), own("x", json!({}))];
    let runs = [vec![waits], one_run(Vec::new())].concat();
    let env = bench.env(stdio(&bench, &runs), Effect::Ask).await;
    let one = Limits { concurrent_turns: 1, ..Limits::default() };
    env.lanes.slots.resize(Limits::default().concurrent_turns, &one).await;
    let slot = env.lanes.slots.slot_for("operator").unwrap();
    assert!(env.lanes.slots.slot_for("operator").is_none());
    run(Arc::clone(&env), lease(&bench, "first").await, Some(slot)).await;
    let parked = alive(&bench);
    assert_eq!(parked.len(), 1);
    let slot = env.lanes.slots.slot_for("operator").unwrap();
    run(Arc::clone(&env), lease(&bench, "second").await, Some(slot)).await;
    let id = ItemId::new("second");
    let read = bench.store.read(async |conn| skep_store::watch::item_by_id(conn, &id).await);
    assert_eq!(read.await.unwrap().unwrap().state, ItemState::Done);
    wait::until_true("the second to end", PATIENCE, || alive(&bench) == parked).await.unwrap();
}

#[tokio::test]
async fn engine_conformance_beyond_the_limit_the_oldest_parked_process_ends() {
    let bench = Bench::new().await;
    let most = Limits::default().engine_processes;
    assert_eq!(most, 8);
    let waits = vec![session(), own("x", json!({}))];
    let mut runs = vec![waits; most + 1];
    runs.extend(one_run(vec![own("y", json!({}))]));
    let env = bench.env(stdio(&bench, &runs), Effect::Ask).await;
    let mut parked = Vec::new();
    for number in 0..=most {
        assert_eq!(alive(&bench).len(), number.min(most));
        run(Arc::clone(&env), lease(&bench, &format!("n{number}")).await, None).await;
        let new: Vec<u32> = alive(&bench).into_iter().filter(|pid| !parked.contains(pid)).collect();
        parked.extend(new);
    }
    processes::wait_gone(&parked[..1], PATIENCE).await.unwrap();
    let mut left = alive(&bench);
    left.sort_unstable();
    parked[1..].sort_unstable();
    assert_eq!(left, parked[1..]);
    // Its turn goes on all the same.
    let turn = TurnId::new("n0");
    let read =
        bench.store.read(async |conn| skep_store::approvals::open_of_turn(conn, &turn).await);
    let question = read.await.unwrap().remove(0);
    bench.decide(question, true).await;
    let lease = env.lanes.take(None, None).await.unwrap();
    run(Arc::clone(&env), lease, None).await;
    assert_eq!(effects(&bench).len(), 1);
}

#[tokio::test]
async fn engine_conformance_options_reach_the_engine_and_change_its_launch() {
    for changed in [false, true] {
        let bench = Bench::new().await;
        let tells = vec![json!({"session": "s2"}), json!({"tell_start": 1}), usage(), end()];
        let runs = [one_run(Vec::new()), vec![tells]].concat();
        let engine = StdioEngine { on_resume: ResumedTools::Same, ..stdio(&bench, &runs) };
        let env = bench.env(engine, Effect::Allow).await;
        let options = |value: u64| {
            change(&env, |settings| {
                let Some((_, AgentState::Active(agent))) = settings.agents.iter_mut().next() else {
                    panic!("no agent");
                };
                Arc::make_mut(agent).engine_options.insert("tools".to_owned(), value.into());
            });
        };
        options(1);
        drive(&bench, &env, bench.accept().await).await;
        options(if changed { 2 } else { 1 });
        let accepted = bench.store.write(bench.message("second", "and then")).await.unwrap();
        let Accepted::Started { lease } = accepted else { panic!("the turn did not begin") };
        drive(&bench, &env, *lease).await;
        let told = bench.rows().await.pop().unwrap();
        let tools = "tools change meet pause slow";
        let expected = match changed {
            false => format!("says session s1; {tools}; \"and then\"; options {{\"tools\":1}}"),
            true => format!(
                "says session none; {tools}; \"do it | all done | and then\"; \
                 options {{\"tools\":2}}"
            ),
        };
        assert_eq!(told, expected);
    }
}
