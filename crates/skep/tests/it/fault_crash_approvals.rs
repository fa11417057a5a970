//! The hive ended at any file operation between a person's answer and the end of the call it was
//! about: the answer counts once or not at all, and the call runs once or is shown as unknown.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::Api;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::PATIENCE;

use crate::fault_crash_journal::Journal;
use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: 'effec*'}\n";

/// A question that waits in a hive that was stopped.
async fn waiting() -> (Stage, String, Value) {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    // Asked again for the step, it would want something else.
    stage.model.push(Reply::new().tool("effect", json!({"text": "shown"})));
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => Reply::new().tool("effect", json!({"text": "never shown"})),
        _ => Reply::say("done"),
    });
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    play.hive.kill().await.unwrap();
    (stage, item, asked)
}

/// Whether the answer was heard; a hive that ends meanwhile says nothing.
async fn answer(play: &Play, asked: &Value, scope: &str) -> Option<u16> {
    let body = json!({"decision": "approve", "scope": scope, "hash": asked["hash"]});
    let path = format!("/api/v1/approvals/{}/decision", asked["id"].as_str().unwrap());
    play.api().post(&path, &body).await.ok().map(|answer| answer.status)
}

async fn is_over(api: &Api, item: &str) -> bool {
    let path = format!("/api/v1/agents/main/messages/{item}");
    let Ok(found) = api.get(&path).await else { return true };
    ["done", "failed", "dead", "cancelled"].contains(&found.json["state"].as_str().unwrap_or(""))
}

/// Operations up to the answer, and up to the end of the turn.
async fn operations(scope: &str) -> (u64, u64) {
    let (stage, item, asked) = waiting().await;
    let shim = Shim::new(stage.home()).unwrap();
    let play = stage.run(stage.start().shim(&shim)).await;
    play.hive.wait_ready().await.unwrap();
    let before = shim.count().unwrap();
    assert_eq!(answer(&play, &asked, scope).await, Some(200));
    assert_eq!(play.ended("main", &item).await["response"]["content"], "done");
    (before, shim.count().unwrap())
}

async fn ended_at(scope: &str, end: End) {
    let (stage, item, asked) = waiting().await;
    let shim = Shim::new(stage.home()).unwrap();
    shim.prepare(end).unwrap();
    let mut heard = None;
    if let Ok(hive) = stage.start().shim(&shim).listening().await {
        let mut play = stage.play(hive);
        heard = answer(&play, &asked, scope).await;
        let api = play.api();
        let begun = Instant::now();
        while play.hive.is_running() && !is_over(&api, &item).await {
            assert!(begun.elapsed() < PATIENCE, "{end:?}: the turn does not end");
            tokio::task::yield_now().await;
        }
        if play.hive.is_running() {
            play.hive.kill().await.unwrap();
        }
    }
    let told = format!("{scope} {end:?}, heard {heard:?}");
    let play = stage.up().await;
    let open = play.questions().await;
    match open.as_slice() {
        // What was acknowledged is decided.
        [] => {}
        [again] => {
            assert_eq!((again, heard), (&asked, None), "{told}");
            assert_eq!(answer(&play, &asked, scope).await, Some(200), "{told}");
        }
        more => panic!("{told}: {more:?}"),
    }
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["response"]["content"], "done", "{told}: {ended}");
    let unknown = play.state().await["unknown_calls"].as_array().unwrap().len();
    let effects = stage.effects.total().unwrap();
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new(), "{told}");
    assert!(effects == 1 || unknown == 1, "{told}: {effects} effects, {unknown} unknown");
    let all = format!("{:?}", play.history("main", "main").await);
    assert!(!all.contains("never shown"), "{told}: the model was asked again for the step");
    let verdict = play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["ok"], true, "{told}: {verdict}");
    let policy = play.api().get("/api/v1/agents/main/policy").await.unwrap().good().unwrap();
    assert_eq!(policy["broken"], Value::Null, "{told}");
    let rules = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
    let allowing = rules.matches("effect: allow").count();
    let grants = policy["grants"].as_array().unwrap().len();
    let expected = match scope {
        "once" => (0, 0),
        "session" => (0, 1),
        _ => (1, 0),
    };
    // A rule may have been written for an answer that was not kept; then it was given again.
    match scope {
        "always" => assert!((1..=2).contains(&allowing) && grants == 0, "{told}: {rules}"),
        _ => assert_eq!((allowing, grants), expected, "{told}: {rules}"),
    }
    let mut play = play;
    play.hive.kill().await.unwrap();
    assert_eq!(Journal::of(stage.home()).left(), Vec::<&Value>::new(), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_answers_to_questions_survive_a_crash_at_any_point() {
    let points = if skep_testkit::all() { 60 } else { 8 };
    let sweep = async |scope: &'static str| {
        let (before, whole) = operations(scope).await;
        for point in 0..points {
            let at = before + 1 + point * (whole - before) / points;
            let end = match point % 3 {
                2 => End::PowerLoss { at, seed: point },
                _ => End::Kill(at),
            };
            ended_at(scope, end).await;
        }
        println!("{scope}: {points} points over operations {before} to {whole}");
    };
    tokio::join!(sweep("once"), sweep("session"), sweep("always"));
}
