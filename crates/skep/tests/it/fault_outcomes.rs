//! Calls whose outcome a crash left unknown: a person says what became of them, once, or has one
//! run again, exactly once and through the whole gate.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

/// A hive that was killed while a call with an effect ran, and is back with these settings; the
/// call.
async fn cut_off(stage: &Stage, settings: &str) -> (Play, Value) {
    let mut play = stage.up().await;
    let before = stage.effects.total().unwrap();
    stage.model.push(Reply::call("effect", json!({"text": "mail", "ms": 2000})));
    let item = play.item("main", "main", "act").await;
    wait::until_true("the effect", PATIENCE, || stage.effects.total().unwrap() > before)
        .await
        .unwrap();
    play.hive.kill().await.unwrap();
    stage.write("teams/main/config.yaml", settings);
    stage.model.push(Reply::say("I do not know what came of it"));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["state"], "done");
    let calls = unknown(&play).await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    (play, calls[0].clone())
}

const ALL: &str = "allowed_tools: ['*']\n";

async fn unknown(play: &Play) -> Vec<Value> {
    let list = play.api().get("/api/v1/calls/unknown").await.unwrap().good().unwrap();
    list["calls"].as_array().unwrap().clone()
}

fn path(call: &Value) -> String {
    let part = |key: &str| call[key].as_str().unwrap();
    format!("/api/v1/calls/unknown/{}/{}", part("turn"), part("call_id"))
}

#[tokio::test]
async fn fault_unknown_calls_are_resolved_once_and_that_is_on_record() {
    let stage = Stage::new().await;
    let (play, call) = cut_off(&stage, ALL).await;
    assert_eq!(call["tool"], "effect");
    assert_eq!(call["arguments"], json!({"text": "mail", "ms": 2000}));
    assert_eq!(call["session_key"], "main");
    let wrong = play.api().post(&path(&call), &json!({"outcome": "maybe"})).await.unwrap();
    assert!((400..500).contains(&wrong.status), "{}", wrong.status);
    let part = |key: &str| call[key].as_str().unwrap();
    let resolve = Start::new(&locate::skep().unwrap(), stage.home())
        .argument("calls")
        .argument("resolve")
        .argument(part("turn"))
        .argument(part("call_id"))
        .argument("did_not")
        .argument("--note")
        .argument("nothing in the outbox");
    let said = resolve.finish().await.unwrap();
    assert_eq!((said.code, said.stdout.trim()), (Some(0), "recorded"), "{}", said.stderr);
    let twice = play.api().post(&path(&call), &json!({"outcome": "run_again"})).await.unwrap();
    assert_eq!((twice.status, &twice.json["code"]), (409, &json!("already_resolved")));
    let said = twice.json["detail"].as_str().unwrap();
    assert_eq!(said, "this call was resolved before: did_not, by operator");
    let other = path(&call) + "-other";
    let none = play.api().post(&other, &json!({"outcome": "run_again"})).await.unwrap();
    assert_eq!(none.status, 404, "{}", none.text);
    let twice = play.api().post(&path(&call), &json!({"outcome": "happened"})).await.unwrap();
    assert_eq!((twice.status, &twice.json["code"]), (409, &json!("already_resolved")));
    assert_eq!(unknown(&play).await, Vec::<Value>::new());
    assert_eq!(play.state().await["unknown_calls"], json!([]));
    let rows = play.api().get("/api/v1/audit?kind=decision").await.unwrap().good().unwrap();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 1, "{rows}");
    let row = &rows["rows"][0];
    assert_eq!((&row["outcome"], &row["tool"]), (&json!("did_not"), &json!("effect")));
    assert_eq!(row["arguments"], json!({"note": "nothing in the outbox"}));
    let events = play.events().await;
    let told = events.iter().filter(|event| event["type"] == "call_resolved");
    let told: Vec<&Value> = told.map(|event| &event["outcome"]).collect();
    assert_eq!(told, ["did_not"]);
    let verdict = play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["ok"], true, "{verdict}");
}

#[tokio::test]
async fn fault_a_call_runs_again_exactly_once_and_its_session_learns_of_it() {
    let stage = Stage::new().await;
    let (play, call) = cut_off(&stage, ALL).await;
    // Asked for the next step, not for this call: it would have made another.
    stage.model.push(Reply::say("now I know"));
    let done = play.api().post(&path(&call), &json!({"outcome": "run_again"})).await.unwrap();
    let done = done.good().unwrap();
    let ended = play.ended("main", done["item"].as_str().unwrap()).await;
    assert_eq!(ended["response"]["content"], "now I know", "{ended}");
    assert_eq!(stage.effects.total().unwrap(), 2, "once before, and once again");
    let shown = stage.model.requests().pop().unwrap().last_tool_results().remove(0);
    assert_eq!(shown.text, "done mail");
    let twice = play.api().post(&path(&call), &json!({"outcome": "run_again"})).await.unwrap();
    assert_eq!(twice.status, 409);
    assert_eq!(stage.effects.total().unwrap(), 2);
    let rows = play.api().get("/api/v1/audit").await.unwrap().good().unwrap();
    let rows = rows["rows"].as_array().unwrap().iter();
    let rows: Vec<_> = rows.map(|row| [&row["kind"], &row["outcome"]]).collect();
    assert_eq!(rows, [["call", "ok"], ["decision", "run_again"], ["call", "unknown"]]);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn fault_a_call_that_runs_again_passes_the_whole_gate() {
    let stage = Stage::new().await;
    let (play, call) = cut_off(&stage, "allowed_tools: [look]\n").await;
    stage.model.push(Reply::say("it was refused"));
    let done = play.api().post(&path(&call), &json!({"outcome": "run_again"})).await.unwrap();
    let item = done.good().unwrap()["item"].as_str().unwrap().to_owned();
    assert_eq!(play.ended("main", &item).await["response"]["content"], "it was refused");
    assert_eq!(stage.effects.total().unwrap(), 1);
    let shown = stage.model.requests().pop().unwrap().last_tool_results().remove(0);
    assert!(shown.text.starts_with("not_listed: "), "{}", shown.text);
}

/// Ten people at once, each with another opinion: one counts, and at most one call more is made.
#[tokio::test]
async fn fault_a_call_resolved_by_many_at_once_is_resolved_by_one() {
    let stage = Stage::new().await;
    let (play, call) = cut_off(&stage, ALL).await;
    stage.model.answer_with(|_| Reply::say("seen"));
    let words = ["run_again", "happened", "did_not"];
    let answers = (0..12).map(|number| {
        let (api, path) = (play.api(), path(&call));
        let body = json!({"outcome": words[number % 3]});
        async move { (words[number % 3], api.post(&path, &body).await.unwrap().status) }
    });
    let answers = futures_util::future::join_all(answers).await;
    let won: Vec<_> = answers.iter().filter(|(_, status)| *status == 200).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|(_, status)| [200, 404, 409].contains(status)), "{answers:?}");
    let quiet = wait::until_async("quiet", PATIENCE, async || {
        (play.state().await["turns"] == json!([])).then_some(())
    });
    quiet.await.unwrap();
    let expected = if won[0].0 == "run_again" { 2 } else { 1 };
    let ran =
        wait::until_true("the effects", PATIENCE, || stage.effects.total().unwrap() == expected);
    ran.await.unwrap();
    let rows = play.api().get("/api/v1/audit?kind=decision").await.unwrap().good().unwrap();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 1, "{rows}");
}

/// What it was about may be gone: the person is told, and can still say what became of it.
#[tokio::test]
async fn fault_a_call_of_an_agent_that_is_gone_is_not_run_again() {
    let stage = Stage::new().await;
    let (play, call) = cut_off(&stage, ALL).await;
    stage.take_out("teams/main");
    let gone = wait::until_async("the agent is gone", PATIENCE, async || {
        let said = play.api().get("/api/v1/agents/main/policy").await.unwrap();
        (said.status != 200).then_some(())
    });
    gone.await.unwrap();
    let refused = play.api().post(&path(&call), &json!({"outcome": "run_again"})).await.unwrap();
    assert!([404, 409].contains(&refused.status), "{}", refused.text);
    assert_eq!(unknown(&play).await.len(), 1, "nothing was decided");
    let done = play.api().post(&path(&call), &json!({"outcome": "happened"})).await.unwrap();
    done.good().unwrap();
    assert_eq!(stage.effects.total().unwrap(), 1);
}
