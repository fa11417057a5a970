//! What every engine does, whatever it is made of. `native` is driven by a model that follows a
//! script; `stdio` is a process with a loop, sessions and tools of its own. What both can is asked
//! of both; an adapter of another engine adds itself to `Subject`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use skep_core::BoxStream;
use skep_core::engine::{Engine, ResumedTools, RetryCode, Rewrite, SteerMode};
use skep_core::event::{CancelReason, ItemState};
use skep_core::hook::{Before, Hook};
use skep_core::ids::{CallId, ItemId, TurnId};
use skep_core::message::{Role, StopReason};
use skep_core::policy::Effect;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider, Providers};
use skep_core::retry::RetryPolicy;
use skep_engine::{NativeEngine, Timing};
use skep_store::inbox::Accepted;
use skep_store::leases::Lease;
use skep_store::{audit, watch};
use skep_testkit::{processes, wait};

use super::parked_engines::change;
use super::stdio_engine::StdioEngine;
use super::tests::{Bench, meta};
use super::{TurnEnv, run};

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Native,
    Stdio,
}

const ALL: [Subject; 2] = [Subject::Native, Subject::Stdio];

/// What a model does in one answer.
#[derive(Clone, Copy, Debug)]
enum Act {
    Say(&'static str),
    /// Asks for a tool of ours.
    Call(&'static str, &'static str),
    /// Says what the newest message is.
    Hear,
    /// The answer breaks off; of an engine that is a process, the process ends.
    Die,
}

impl Subject {
    /// The engine, whose model gives these answers one after the other.
    fn engine(self, bench: &mut Bench, answers: &[&[Act]]) -> Arc<dyn Engine> {
        match self {
            Self::Native => {
                let answers = answers.iter().map(|answer| answer.to_vec()).collect();
                let model: Arc<dyn Provider> = Arc::new(PlayedModel(Mutex::new(answers)));
                bench.providers = Providers::new(BTreeMap::from([("default".to_owned(), model)]));
                let policy =
                    RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
                Arc::new(NativeEngine::new(Timing { policy, ..Timing::default() }))
            }
            Self::Stdio => {
                let mut runs = vec![vec![json!({"session": "s1"})]];
                for answer in answers {
                    let mut steps = steps_of(answer);
                    let dies = answer.iter().any(|act| matches!(act, Act::Die));
                    runs.last_mut().unwrap().append(&mut steps);
                    if dies {
                        runs.push(vec![json!({"session": "s2"})]);
                    }
                }
                runs.last_mut().unwrap().push(end());
                Arc::new(stdio(bench, &runs))
            }
        }
    }
}

fn steps_of(answer: &[Act]) -> Vec<Value> {
    let mut steps = vec![json!({"say": {"type": "call"}})];
    let mut calls = Vec::new();
    for act in answer {
        match act {
            Act::Say(text) => steps.push(json!({"say": {"type": "text", "text": text}})),
            Act::Call(id, name) => {
                let call = json!({"id": id, "name": name, "arguments": {}, "announced": false});
                let mut told = call.clone();
                told["type"] = "tool_call".into();
                steps.push(json!({ "say": told }));
                calls.push(json!({ "ours": call }));
            }
            Act::Hear => steps.push(json!({"hear": 1})),
            Act::Die => steps.push(json!({"die": "at once"})),
        }
    }
    steps.push(usage());
    steps.append(&mut calls);
    steps
}

struct PlayedModel(Mutex<VecDeque<Vec<Act>>>);

impl Provider for PlayedModel {
    fn id(&self) -> &str {
        "played"
    }

    fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = self.0.lock().unwrap().pop_front().unwrap();
        let newest = request.messages.iter().rev().find(|row| row.body.role == Role::User).unwrap();
        let calls = answer.iter().any(|act| matches!(act, Act::Call(..)));
        let reason = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
        let mut items: Vec<_> = answer
            .into_iter()
            .map(|act| match act {
                Act::Say(text) => Ok(ModelEvent::Text(text.to_owned())),
                Act::Call(id, name) => Ok(ModelEvent::ToolCall {
                    id: CallId::new(id),
                    name: name.to_owned(),
                    arguments: json!({}),
                }),
                Act::Hear => Ok(ModelEvent::Text(format!("heard {}", newest.body.plain_text()))),
                Act::Die => Err(ModelError::Passing {
                    code: RetryCode::Cut,
                    text: "gone".to_owned(),
                    retry_after: None,
                }),
            })
            .collect();
        items.push(Ok(ModelEvent::End(meta(reason))));
        futures_util::stream::iter(items).boxed()
    }
}

/// A process that plays these runs, one at each start.
pub(super) fn stdio(bench: &Bench, runs: &[Vec<Value>]) -> StdioEngine {
    let folder = folder(bench);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("script.json"), json!(runs).to_string()).unwrap();
    let _ = std::fs::remove_file(folder.join("runs"));
    StdioEngine {
        folder,
        steer: Some(SteerMode::Any),
        interrupts: true,
        rewrite: Some(Rewrite),
        on_resume: ResumedTools::Same,
    }
}

pub(super) fn folder(bench: &Bench) -> PathBuf {
    bench.folder.path().join("engine")
}

fn say(text: &str) -> Value {
    json!({"say": {"type": "text", "text": text}})
}

pub(super) fn usage() -> Value {
    json!({"say": {"type": "usage", "input": 5}})
}

pub(super) fn end() -> Value {
    json!({"say": {"type": "end", "how": "finished"}})
}

pub(super) fn session() -> Value {
    json!({"session": "s1"})
}

/// A call of the engine's own tool `Shell`, and what is odd about it.
pub(super) fn own(id: &str, odd: Value) -> Value {
    let mut call = json!({"id": id, "name": "Shell", "arguments": {}, "key": "shell",
                          "class": "write"});
    for (key, value) in odd.as_object().into_iter().flatten() {
        call[key] = value.clone();
    }
    json!({ "own": call })
}

/// One run that does these and then says that all is done.
pub(super) fn one_run(steps: Vec<Value>) -> Vec<Vec<Value>> {
    let ends = vec![say("all done"), usage(), end()];
    vec![[vec![session()], steps, ends].concat()]
}

/// Runs the turn and whatever goes on of it by itself.
pub(super) async fn drive(bench: &Bench, env: &Arc<TurnEnv>, lease: Lease) {
    let mut lease = lease;
    for _ in 0..5 {
        run(Arc::clone(env), lease, None).await;
        match env.lanes.take(None, None).await {
            Some(next) => lease = next,
            None => return assert_gone(bench).await,
        }
    }
    panic!("the turn does not end");
}

/// A turn that is over, or waits without its engine, leaves no process behind.
pub(super) async fn assert_gone(bench: &Bench) {
    let mark = folder(bench).to_str().unwrap().to_owned();
    let gone = || {
        let records = std::fs::read_dir(folder(bench).join("children"));
        processes::alive(&mark).is_empty() && records.map_or(0, Iterator::count) == 0
    };
    wait::until_true("the end of the engine and its record", PATIENCE, gone).await.unwrap();
}

async fn answer(subject: Subject, bench: &mut Bench, answers: &[&[Act]]) {
    let engine = subject.engine(bench, answers);
    let env = bench.env_of(engine, Effect::Allow).await;
    let lease = bench.accept().await;
    drive(bench, &env, lease).await;
}

/// Lets a process do what the steps say, and gives the rows.
async fn play(bench: &Bench, engine: StdioEngine, effect: Effect) -> Vec<String> {
    let env = bench.env(engine, effect).await;
    let lease = bench.accept().await;
    drive(bench, &env, lease).await;
    bench.rows().await
}

pub(super) fn effects(bench: &Bench) -> Vec<String> {
    let text = std::fs::read_to_string(folder(bench).join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn wait_for_effect(bench: &Bench) {
    wait::until_true("an effect", PATIENCE, || !effects(bench).is_empty()).await.unwrap();
}

/// Tool and outcome of every audit row of a call, oldest first.
pub(super) async fn audits(bench: &Bench) -> Vec<(String, String)> {
    let wanted = audit::Wanted::default();
    let read = bench.store.read(async |conn| audit::page(conn, &wanted, None, 100).await);
    let rows = read.await.unwrap().rows.into_iter().rev();
    let calls = rows.filter_map(|(row, _)| Some((row.tool?, row.outcome)));
    calls.filter(|(_, outcome)| outcome != "approved" && outcome != "denied").collect()
}

pub(super) fn pair(tool: &str, outcome: &str) -> (String, String) {
    (tool.to_owned(), outcome.to_owned())
}

async fn state_of(bench: &Bench, item: &str) -> (ItemState, Option<String>) {
    let id = ItemId::new(item);
    let read = bench.store.read(async |conn| watch::item_by_id(conn, &id).await);
    let item = read.await.unwrap().unwrap();
    (item.state, item.error.map(|(code, _)| code))
}

#[tokio::test]
async fn engine_conformance_an_announced_call_runs_once() {
    for subject in ALL {
        let mut bench = Bench::new().await;
        let answers: &[&[Act]] =
            &[&[Act::Say("I see"), Act::Call("a", "change")], &[Act::Say("all done")]];
        answer(subject, &mut bench, answers).await;
        let rows = ["asks do it", "calls change", "result changed", "says all done"];
        assert_eq!(bench.rows().await, rows, "{subject:?}");
        assert_eq!(bench.ran(), ["a"]);
        assert_eq!(audits(&bench).await, [pair("change", "ok")]);
        assert_eq!(bench.item().await.answer.as_deref(), Some("all done"));
    }
}

#[tokio::test]
async fn engine_conformance_a_call_that_was_not_announced_is_on_record_before_it_runs() {
    let bench = Bench::new().await;
    let call = json!({"id": "a", "name": "change", "arguments": {}, "announced": false});
    let steps = vec![json!({"say": {"type": "call"}}), say("I just do it"), json!({"ours": call})];
    let rows = play(&bench, stdio(&bench, &one_run(steps)), Effect::Allow).await;
    assert_eq!(rows, ["asks do it", "calls change", "result changed", "says all done"]);
    assert_eq!((bench.ran().len(), audits(&bench).await), (1, vec![pair("change", "ok")]));
}

#[tokio::test]
async fn engine_conformance_started_is_our_permission_and_not_the_engines_word() {
    for announced in [true, false] {
        let bench = Bench::new().await;
        let odd = json!({"started": "before", "announced": announced});
        let runs = one_run(vec![own("x", odd.clone())]);
        let rows = play(&bench, stdio(&bench, &runs), Effect::Allow).await;
        assert_eq!(rows, ["asks do it", "calls Shell", "result done", "says all done"]);
        assert_eq!((effects(&bench).len(), audits(&bench).await), (1, vec![pair("shell", "ok")]));

        let bench = Bench::new().await;
        let rows = play(&bench, stdio(&bench, &one_run(vec![own("x", odd)])), Effect::Deny).await;
        assert!(rows[2].starts_with("result policy_deny: "), "{rows:?}");
        assert_eq!((effects(&bench).len(), rows[3].as_str()), (0, "says all done"));
        assert_eq!(audits(&bench).await, [pair("shell", "refused")]);
    }
}

fn counting(hook: impl Fn(Value) -> Before + Send + Sync + 'static) -> (Hook, Arc<AtomicUsize>) {
    let (looks, hook) = (Arc::new(AtomicUsize::new(0)), Arc::new(hook));
    let counted = Arc::clone(&looks);
    let hook = Hook {
        before: Some(Arc::new(move |call| {
            counted.fetch_add(1, Ordering::Relaxed);
            let wish = hook(call.arguments);
            Box::pin(async move { Ok(wish) })
        })),
        ..Hook::new("counting")
    };
    (hook, looks)
}

#[tokio::test]
async fn engine_conformance_a_call_is_examined_once_however_often_it_is_asked_for() {
    let mut bench = Bench::new().await;
    let (hook, looks) = counting(|_| Before::Go);
    bench.hooks = vec![hook];
    let ours = json!({"ours": {"id": "b", "name": "change", "arguments": {}, "asks": 2}});
    // Two calls without an id are two, in their order.
    let steps = vec![own("x", json!({"asks": 2})), ours, own("", json!({})), own("", json!({}))];
    let rows = play(&bench, stdio(&bench, &one_run(steps)), Effect::Allow).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4);
    assert_eq!((effects(&bench).len(), bench.ran().len()), (3, 1));
    let expected = ["shell", "change", "shell", "shell"].map(|tool| pair(tool, "ok"));
    assert_eq!(audits(&bench).await, expected);
    assert_eq!(rows.len(), 10, "{rows:?}");
}

#[tokio::test]
async fn engine_conformance_a_call_that_waits_runs_once_with_what_was_decided() {
    for approve in [true, false] {
        let bench = Bench::new().await;
        // Started again it asks anew, under another id and twice.
        let again = own("y", json!({"asks": 2}));
        let first = vec![session(), own("x", json!({"started": "before"}))];
        let runs = [vec![first], one_run(vec![again])].concat();
        let env = bench.env(stdio(&bench, &runs), Effect::Ask).await;
        change(&env, |settings| settings.limits.park = Duration::ZERO);
        let lease = bench.accept().await;
        drive(&bench, &env, lease).await;
        assert_eq!(bench.item().await.state, ItemState::Waiting);
        let question = bench.question().await;
        assert_eq!((question.tool.as_str(), effects(&bench).len()), ("shell", 0));
        bench.decide(question, approve).await;
        let lease = env.lanes.take(None, None).await.unwrap();
        drive(&bench, &env, lease).await;
        let rows = bench.rows().await;
        assert_eq!((bench.item().await.state, rows.len()), (ItemState::Done, 6), "{rows:?}");
        let outcome = if approve { "ok" } else { "refused" };
        assert_eq!(audits(&bench).await, [pair("Shell", "cancelled"), pair("shell", outcome)]);
        assert_eq!(effects(&bench).len(), usize::from(approve));
        assert_eq!(rows[4].starts_with("result approval_denied: "), !approve, "{rows:?}");
    }
}

#[tokio::test]
async fn engine_conformance_a_call_of_ours_that_waits_runs_once() {
    for subject in ALL {
        let mut bench = Bench::new().await;
        let call: &[Act] = &[Act::Call("a", "change")];
        let answers: &[&[Act]] = match subject {
            Subject::Native => &[call, &[Act::Say("all done")]],
            // It ends while it waits, and asks anew.
            Subject::Stdio => &[call, &[Act::Die], call, &[Act::Say("all done")]],
        };
        let engine = subject.engine(&mut bench, answers);
        let env = bench.env_of(engine, Effect::Ask).await;
        change(&env, |settings| settings.limits.park = Duration::ZERO);
        let lease = bench.accept().await;
        drive(&bench, &env, lease).await;
        assert_eq!(bench.item().await.state, ItemState::Waiting, "{subject:?}");
        let question = bench.question().await;
        bench.decide(question, true).await;
        let lease = env.lanes.take(None, None).await.unwrap();
        drive(&bench, &env, lease).await;
        let rows = bench.rows().await;
        let ends = ["calls change", "result changed", "says all done"];
        assert_eq!(rows[rows.len() - 3..], ends, "{subject:?}: {rows:?}");
        assert_eq!((bench.ran().len(), bench.item().await.state), (1, ItemState::Done));
    }
}

#[tokio::test]
async fn engine_conformance_changed_arguments_are_taken_or_asked_for() {
    let safe = || json!({"safe": true});
    let mut bench = Bench::new().await;
    bench.hooks = vec![counting(move |_| Before::Rewrite(json!({"safe": true}))).0];
    play(&bench, stdio(&bench, &one_run(vec![own("x", json!({}))])), Effect::Allow).await;
    assert_eq!(effects(&bench), [format!("Shell {}", safe())]);

    let mut bench = Bench::new().await;
    bench.hooks = vec![counting(move |_| Before::Rewrite(json!({"safe": true}))).0];
    let steps = vec![own("x", json!({})), own("y", json!({"arguments": safe()}))];
    let engine = StdioEngine { rewrite: None, ..stdio(&bench, &one_run(steps)) };
    let rows = play(&bench, engine, Effect::Allow).await;
    assert!(rows[2].starts_with("result changed_arguments: "), "{rows:?}");
    assert!(rows[2].ends_with("Call again with {\"safe\":true}"), "{rows:?}");
    assert_eq!(effects(&bench), [format!("Shell {}", safe())]);
    assert_eq!(audits(&bench).await, [pair("shell", "refused"), pair("shell", "ok")]);
}

#[tokio::test]
async fn engine_conformance_a_message_joins_the_turn() {
    for subject in ALL {
        let mut bench = Bench::new().await;
        let engine = subject.engine(&mut bench, &[&[Act::Call("a", "pause")], &[Act::Hear]]);
        let env = bench.env_of(engine, Effect::Allow).await;
        let lease = bench.accept().await;
        let turn = tokio::spawn(run(Arc::clone(&env), lease, None));
        bench.began.notified().await;
        bench.store.write(bench.message("second", "and this")).await.unwrap();
        bench.go.notify_one();
        turn.await.unwrap();
        let rows = ["calls pause", "result paused", "asks and this", "says heard and this"];
        assert_eq!(bench.rows().await[1..], rows, "{subject:?}");
        assert_eq!(state_of(&bench, "second").await, (ItemState::Done, None));
    }
}

#[tokio::test]
async fn engine_conformance_messages_join_at_a_tool_and_are_answered_as_one() {
    let bench = Bench::new().await;
    // Two messages, one answer; the result of the tool comes after them.
    let result = json!({"say": {"type": "result", "id": "x", "text": "done", "is_error": false}});
    let steps = vec![own("x", json!({"silent": true})), json!({"hear": 2}), result];
    let steps = [steps, vec![usage(), end()]].concat();
    let runs = vec![[vec![session()], steps].concat()];
    let engine = StdioEngine { steer: Some(SteerMode::AtTool), ..stdio(&bench, &runs) };
    let env = bench.env(engine, Effect::Allow).await;
    let lease = bench.accept().await;
    let turn = tokio::spawn(run(Arc::clone(&env), lease, None));
    wait_for_effect(&bench).await;
    for item in ["one", "two"] {
        bench.store.write(bench.message(item, item)).await.unwrap();
    }
    turn.await.unwrap();
    assert_eq!(bench.item().await.answer.as_deref(), Some("heard one and two"));
    for item in ["one", "two"] {
        assert_eq!(state_of(&bench, item).await, (ItemState::Done, None));
    }
}

#[tokio::test]
async fn engine_conformance_a_cancel_ends_a_tool_of_ours() {
    for subject in ALL {
        let mut bench = Bench::new().await;
        let engine = subject.engine(&mut bench, &[&[Act::Call("a", "slow")]]);
        let env = bench.env_of(engine, Effect::Allow).await;
        let lease = bench.accept().await;
        let turn = tokio::spawn(run(Arc::clone(&env), lease, None));
        bench.began.notified().await;
        assert!(env.lanes.registry.cancel(&TurnId::new("turn"), CancelReason::Stop));
        turn.await.unwrap();
        let rows = ["asks do it", "calls slow", "result told to end"];
        assert_eq!(bench.rows().await, rows, "{subject:?}");
        assert_eq!(bench.item().await.state, ItemState::Cancelled);
        assert_gone(&bench).await;
    }
}

#[tokio::test]
async fn engine_conformance_an_interrupted_call_is_unknown_whatever_the_engine_says() {
    for interrupts in [true, false] {
        let bench = Bench::new().await;
        let runs = one_run(vec![own("x", json!({"lies": true}))]);
        let engine = StdioEngine { interrupts, ..stdio(&bench, &runs) };
        let env = bench.env(engine, Effect::Allow).await;
        let lease = bench.accept().await;
        let turn = tokio::spawn(run(Arc::clone(&env), lease, None));
        wait_for_effect(&bench).await;
        assert!(env.lanes.registry.cancel(&TurnId::new("turn"), CancelReason::Stop));
        turn.await.unwrap();
        let rows = bench.rows().await;
        assert!(rows[2].starts_with("result outcome unknown: "), "{rows:?}");
        assert_eq!((rows.len(), audits(&bench).await), (3, vec![pair("shell", "unknown")]));
        assert_eq!(bench.item().await.state, ItemState::Cancelled);
        assert_gone(&bench).await;
    }
}

#[tokio::test]
async fn engine_conformance_death_in_any_phase_loses_nothing_and_repeats_nothing() {
    let phases: [&[Act]; 3] =
        [&[Act::Die], &[Act::Say("half"), Act::Die], &[Act::Call("a", "change"), Act::Die]];
    for subject in ALL {
        for phase in phases {
            let mut bench = Bench::new().await;
            answer(subject, &mut bench, &[phase, &[Act::Say("all done")]]).await;
            let rows = bench.rows().await;
            let (last, state) = (rows.last().unwrap().as_str(), bench.item().await.state);
            assert_eq!((last, state), ("says all done", ItemState::Done), "{subject:?} {phase:?}");
            assert!(bench.ran().is_empty(), "{subject:?} {phase:?}");
        }
    }
    let die = || json!({"die": "at once"});
    let told = |session: &str, rest: &str| {
        format!("says session {session}; tools change meet pause slow; {rest}")
    };
    let interrupted = "\"You were interrupted. Go on with what you were asked for.\"";
    let unknown = "look before you repeat one: Shell.\"";
    // What it did before it died; effects; what it is told then, and how that ends.
    let table = [
        (vec![die()], 0, told("none", "\"do it\""), ""),
        (vec![session(), die()], 0, told("s1", interrupted), ""),
        (
            vec![session(), say("half"), json!({"die": "half a line"})],
            0,
            told("s1", interrupted),
            "",
        ),
        (vec![session(), own("x", json!({"dies": true}))], 1, told("s1", "\"You were"), unknown),
        (vec![session(), own("x", json!({})), die()], 1, told("s1", interrupted), ""),
    ];
    for (first, done, begins, ends) in table {
        let bench = Bench::new().await;
        let second = vec![session(), json!({"tell_start": 1}), usage(), end()];
        let rows = play(&bench, stdio(&bench, &[first.clone(), second]), Effect::Allow).await;
        let last = rows.last().unwrap();
        assert!(last.starts_with(&begins) && last.ends_with(ends), "{first:?}: {rows:?}");
        assert_eq!(effects(&bench).len(), done, "{first:?}");
        let lost = rows.iter().filter(|row| row.starts_with("result outcome unknown: "));
        assert_eq!(lost.count(), usize::from(!ends.is_empty()), "{first:?}: {rows:?}");
        assert_eq!(bench.item().await.state, ItemState::Done, "{first:?}");
    }
}

/// A first turn in the session `s1`; then a second one, whose engine tells what it is started with.
async fn second_turn(
    bench: &mut Bench,
    on_resume: ResumedTools,
    change: impl Fn(&mut Bench),
) -> String {
    let tells = vec![json!({"session": "s2"}), json!({"tell_start": 1}), usage(), end()];
    let stale = vec![json!({"session": "s2"})];
    let runs = [one_run(Vec::new()), vec![tells.clone()]].concat();
    let engine = StdioEngine { on_resume, ..stdio(bench, &runs) };
    let env = bench.env(engine.clone(), Effect::Allow).await;
    let lease = bench.accept().await;
    drive(bench, &env, lease).await;
    change(bench);
    if !folder(bench).join("sessions/s1").exists() {
        let runs = [one_run(Vec::new()), vec![stale, tells]].concat();
        std::fs::write(folder(bench).join("script.json"), json!(runs).to_string()).unwrap();
    }
    let env = bench.env(engine, Effect::Allow).await;
    let accepted = bench.store.write(bench.message("second", "and then")).await.unwrap();
    let Accepted::Started { lease } = accepted else { panic!("the turn did not begin") };
    drive(bench, &env, *lease).await;
    bench.rows().await.pop().unwrap()
}

#[tokio::test]
async fn engine_conformance_a_session_goes_on_or_is_built_anew() {
    let tools = "tools change meet pause slow";
    let kept = format!("says session s1; {tools}; \"and then\"");
    let anew = format!("says session none; {tools}; \"do it | all done | and then\"");
    let same = ResumedTools::Same;
    let mut bench = Bench::new().await;
    assert_eq!(second_turn(&mut bench, same, |_| ()).await, kept);

    let mut bench = Bench::new().await;
    let forget =
        |bench: &mut Bench| std::fs::remove_file(folder(bench).join("sessions/s1")).unwrap();
    assert_eq!(second_turn(&mut bench, same, forget).await, anew);

    let fewer = |bench: &mut Bench| bench.listed.retain(|tool| tool != "pause");
    let mut bench = Bench::new().await;
    assert_eq!(second_turn(&mut bench, same, fewer).await, anew.replace(" pause", ""));
    let mut bench = Bench::new().await;
    let told = second_turn(&mut bench, ResumedTools::Changed, fewer).await;
    assert_eq!(told, kept.replace(" pause", ""));
}

#[tokio::test]
async fn engine_conformance_what_nobody_permitted_ends_the_turn() {
    let unasked = json!({"asks": 0});
    let started = json!({"asks": 0, "started": "before", "silent": true});
    let disobeys = json!({"disobeys": true});
    for (odd, effect) in
        [(unasked, Effect::Allow), (started, Effect::Allow), (disobeys, Effect::Deny)]
    {
        let bench = Bench::new().await;
        let runs = one_run(vec![own("x", odd.clone())]);
        let rows = play(&bench, stdio(&bench, &runs), effect).await;
        let ended = (ItemState::Failed, Some("engine_ungated".to_owned()));
        assert_eq!(state_of(&bench, "item").await, ended, "{odd}: {rows:?}");
        let audits = audits(&bench).await;
        assert!(audits.contains(&pair("Shell", "ungated")), "{odd}: {audits:?}");
    }
}
