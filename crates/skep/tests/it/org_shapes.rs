//! Changes of the hive are asked for without waiting: the call has its answer at once, and the
//! decision and what came of it come into the conversation that asked.

use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::wait::PATIENCE;
use skep_testkit::{ModelRequest, Reply, WsClient};

use crate::org_tasks::{agent, configure};
use crate::stage::{Play, Stage};

/// Asks for a change once, and says what it hears of it.
fn wants(stage: &Stage) {
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (request.steps_done(), text.contains("[event approval_")) {
            (0, true) => Reply::say(&format!("heard: {}", text.lines().last().unwrap())),
            (0, false) => Reply::call("reshape", json!({"text": "a team"})),
            (..) => Reply::say(&said(request)),
        }
    });
}

fn said(request: &ModelRequest) -> String {
    let result = &request.last_tool_results()[0].text;
    match serde_json::from_str::<Value>(result) {
        Ok(answer) => answer["status"].as_str().unwrap().to_owned(),
        Err(_) => format!("it said: {result}"),
    }
}

async fn last_word(client: &mut WsClient) -> Value {
    client.find("the last word", |frame| frame["about"] == "m1").await.unwrap()
}

async fn approval(play: &Play, asked: &Value) -> Value {
    let path = format!("/api/v1/approvals/{}", asked["id"].as_str().unwrap());
    play.api().get(&path).await.unwrap().good().unwrap()
}

#[tokio::test]
async fn org_an_approved_change_runs_once_and_the_asker_hears_of_it() {
    let stage = Stage::new().await;
    wants(&stage);
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "make a team").await.unwrap();
    let answer = client.answer_to("m1").await.unwrap();
    assert_eq!(answer["content"], "awaiting_approval", "nobody waits");
    let asked = play.question().await;
    assert_eq!((&asked["kind"], &asked["tool"]), (&json!("shape"), &json!("reshape")));
    let questions = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    assert_eq!(questions, json!({"questions": [], "more": false}));
    assert_eq!(stage.effects.total().unwrap(), 0);
    // The question outlives the hive.
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(play.question().await, asked);
    let since = client.durable().keys().last().copied().unwrap();
    let target = play.target().resume(client.channel(), since);
    let mut client = WsClient::connect(&target).await.unwrap();
    play.answer(&asked, "approve").await.good().unwrap();
    let last = last_word(&mut client).await;
    assert_eq!(last["content"], "it said: done a team", "{last}");
    assert_eq!(stage.effects.total().unwrap(), 1);
    assert_eq!(play.answer(&asked, "approve").await.status, 409);
    assert!(approval(&play, &asked).await["decision"]["used"].is_i64());
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_denied_change_comes_back_with_the_note() {
    let stage = Stage::new().await;
    wants(&stage);
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "make a team").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let asked = play.question().await;
    let no = json!({"decision": "deny", "note": "not this week"});
    play.decision(&asked, no).await.good().unwrap();
    let last = last_word(&mut client).await;
    assert_eq!(last["content"], "heard: Note: not this week", "{last}");
    assert_eq!(stage.effects.total().unwrap(), 0);
}

#[tokio::test]
async fn org_a_change_nobody_decided_on_is_told_as_expired() {
    let stage = Stage::new().await;
    wants(&stage);
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "make a team").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let asked = play.question().await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    // A day later.
    let sql = "UPDATE approvals SET expires_at = asked_at; UPDATE tasks SET deadline = created_at";
    let database = stage.home().join("run/skep.db");
    assert!(Command::new("sqlite3").arg(database).arg(sql).status().unwrap().success());
    let play = stage.up().await;
    let since = client.durable().keys().last().copied().unwrap();
    let target = play.target().resume(client.channel(), since);
    let mut client = WsClient::connect(&target).await.unwrap();
    let last = last_word(&mut client).await;
    assert!(last["content"].as_str().unwrap().contains("That is not a no"), "{last}");
    assert_eq!(approval(&play, &asked).await["state"], "expired");
    // Asked again, a yes runs exactly that call.
    let path = format!("/api/v1/approvals/{}/reopen", asked["id"].as_str().unwrap());
    let open = play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
    play.answer(&open, "approve").await.good().unwrap();
    let ran = |frame: &Value| frame["content"] == "it said: done a team";
    client.find("what came of it", ran).await.unwrap();
    assert_eq!(stage.effects.total().unwrap(), 1);
}

/// A task stays open while a change that it wants is undecided, and ends with what came of it.
#[tokio::test]
async fn org_a_task_waits_for_the_change_it_asked_for() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event task_done") => {
                Reply::say(text.lines().last().unwrap())
            }
            ("main", 0) => {
                Reply::call("delegate_task", json!({"team": "research", "task": "grow"}))
            }
            ("main", _) => Reply::say("They work at it."),
            (_, 0) => Reply::call("reshape", json!({"text": "a team"})),
            _ => Reply::say(&said(request)),
        }
    });
    configure(&stage);
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "grow").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let asked = play.question().await;
    assert_eq!(asked["agent"], "research");
    play.answer(&asked, "approve").await.good().unwrap();
    let last = last_word(&mut client).await;
    assert_eq!(last["content"], "it said: done a team", "{last}");
    assert_eq!(stage.effects.total().unwrap(), 1);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// What was to be done is not wanted any more: neither is the change.
#[tokio::test]
async fn org_a_cancelled_task_withdraws_what_it_asked_for() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) if request.last_user_text().contains("[event") => Reply::say("well"),
        ("main", 0) => Reply::call("delegate_task", json!({"team": "research", "task": "grow"})),
        ("research", 0) => Reply::call("reshape", json!({"text": "a team"})),
        _ => Reply::say("well"),
    });
    configure(&stage);
    let play = stage.up().await;
    play.ask("main", "grow").await;
    let asked = play.question().await;
    let inbox = play.api().get("/api/v1/inbox?agent=research").await.unwrap().good().unwrap();
    let task = inbox["items"][0]["item_id"].as_str().unwrap();
    let path = format!("/api/v1/inbox/{task}/cancel");
    play.api().post(&path, &json!(null)).await.unwrap().good().unwrap();
    assert_eq!(approval(&play, &asked).await["state"], "withdrawn");
    assert_eq!(play.answer(&asked, "approve").await.status, 409);
    assert_eq!(stage.effects.total().unwrap(), 0);
}
