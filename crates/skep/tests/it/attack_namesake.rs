//! A new agent with the name of a removed one is another agent: whatever the removed one had, said,
//! was allowed or used is not its own, in the process that removed it and in the next.

use std::fs;
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::{self, Api, Events};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

const CTO: &str = "allowed_tools: ['*']\nbudgets: {tokens_per_day: 1000000}\npolicy:\n  \
                   - {effect: ask, tool: bash}\n";

fn sqlite(stage: &Stage, sql: &str) -> String {
    let database = stage.home().join("run/skep.db");
    let ran = Command::new("sqlite3").arg(database).arg(sql).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

async fn get(api: &Api, path: &str) -> Value {
    api.get(&format!("/api/v1/{path}")).await.unwrap().good().unwrap()
}

async fn post(play: &Play, path: &str, body: Value) -> Value {
    play.api().post(&format!("/api/v1/{path}"), &body).await.unwrap().good().unwrap()
}

/// A message with the same id each time.
async fn once(play: &Play) -> Value {
    let path = "/api/v1/agents/cto/messages?wait=true";
    let request = play.api().request(Method::POST, path).header("idempotency-key", "k1");
    let body = json!({"message": "the word is heron", "session_key": "main"});
    http::answer(request.json(&body)).await.unwrap().good().unwrap()
}

/// A write with the same key each time.
async fn granted(play: &Play) -> http::Answer {
    let request = play.api().request(Method::POST, "/api/v1/agents/cto/grants");
    let request = request.header("idempotency-key", "k2");
    http::answer(request.json(&json!({"tool": "bash", "minutes": 60}))).await.unwrap()
}

/// What one reads of the agent: each list, and how long it is.
async fn lists(api: &Api, agent: &str) -> Vec<(String, usize)> {
    let reads = [
        (format!("agents/{agent}/history?session_key=main&view=full"), "messages"),
        (format!("agents/{agent}/sessions"), "sessions"),
        (format!("search?q=heron&agent={agent}"), "hits"),
        (format!("inbox?agent={agent}"), "items"),
        (format!("approvals?agent={agent}"), "approvals"),
        (format!("usage?agent={agent}"), "rows"),
        (format!("audit?kind=call&agent={agent}"), "rows"),
    ];
    let mut lists = Vec::new();
    for (path, list) in reads {
        let read = get(api, &path).await;
        let rows = read[list].as_array().unwrap_or_else(|| panic!("{path}: {read}"));
        lists.push((path.replace(agent, "A"), rows.len()));
    }
    lists
}

/// What the day's calls of the agent used, as the ledger counts it.
async fn calls(play: &Play) -> Value {
    let budgets = get(&play.api(), "budgets").await;
    let mut agents = budgets["agents"].as_array().unwrap().iter();
    agents.find(|it| it["agent"] == "cto").unwrap()["calls"].clone()
}

/// The row of the agent is marked, as whoever removes one does; the same files are a new one.
async fn replaced(stage: &Stage, mut play: Play, restart: bool) -> Play {
    let remove = "UPDATE agents SET removed_at = 1 WHERE name = 'cto'";
    if restart {
        play.hive.terminate().unwrap();
        play.hive.wait(PATIENCE).await.unwrap();
        sqlite(stage, remove);
        return stage.up().await;
    }
    sqlite(stage, remove);
    stage.write("teams/cto/config.yaml", &format!("description: another\n{CTO}"));
    let applied = wait::until_async("the new agent", PATIENCE, async || {
        (calls(&play).await == 0).then_some(())
    });
    applied.await.unwrap();
    play
}

async fn nothing_is_inherited(restart: bool) {
    let stage = Stage::new().await;
    stage.write("teams/cto/config.yaml", CTO);
    let play = stage.up().await;
    let look = Reply::new().tool("look", json!({"ms": 0}));
    stage.model.push_all([look, Reply::say("a heron it is")]);
    let first = once(&play).await;
    stage.model.push(Reply::new().tool("bash", json!({"command": "echo ran > log"})));
    let waits = play.item("cto", "asks", "run it").await;
    play.until_state("cto", &waits, "waiting").await;
    let open = get(&play.api(), "approvals?state=open").await["approvals"][0].clone();
    let child = json!({"name": "child", "role": "agent", "agent": "cto"});
    let child = post(&play, "tokens", child).await["token"].as_str().unwrap().to_owned();
    let person = post(&play, "tokens", json!({"name": "anna", "role": "user"})).await;
    let person = person["token"].as_str().unwrap().to_owned();
    let grant = granted(&play).await.good().unwrap();
    assert_eq!(granted(&play).await.good().unwrap(), grant, "the same answer again");
    let had = lists(&play.api(), "cto").await;
    assert!(had.iter().all(|(_, rows)| *rows > 0), "{had:?}");
    assert_eq!(calls(&play).await, 3);
    let old = format!("id:{}", play.audit("agent=cto").await[0]["agent_id"]);
    let watched = play.api().events("/api/v1/events?agent=cto").await.unwrap();

    let play = replaced(&stage, play, restart).await;
    let (operator, child) = (play.api(), play.hive.api(Some(&child)).unwrap());
    for (path, rows) in lists(&operator, "cto").await {
        assert_eq!(rows, 0, "{path}");
    }
    assert_eq!(lists(&operator, &old).await, had, "it stays, by its id");
    assert_eq!(calls(&play).await, 0);
    assert_eq!(get(&operator, "agents/cto/policy").await["grants"], json!([]));
    let other = granted(&play).await;
    assert_eq!(other.json["code"], "id_reused", "the old one's answer is not its: {}", other.text);

    // Nothing is done for the removed one, and no rule is written for its namesake.
    let file = fs::read_to_string(stage.home().join("teams/cto/config.yaml")).unwrap();
    let always = json!({"decision": "approve", "scope": "always"});
    let refused = play.decision(&open, always).await;
    assert_eq!(refused.json["code"], "agent_failed", "{}", refused.text);
    play.answer(&open, "approve").await.good().unwrap();
    let ended = play.inbox_ended(&waits).await;
    assert_eq!(ended["error"]["code"], "agent_unavailable", "{ended}");
    assert!(!stage.home().join("teams/cto/work/log").exists());
    assert_eq!(fs::read_to_string(stage.home().join("teams/cto/config.yaml")).unwrap(), file);

    // The new one asks, answers an id that the old one had answered, and is not seen by its token.
    stage.model.push(Reply::say("a crane"));
    let again = once(&play).await;
    assert_ne!(again["item_id"], first["item_id"]);
    assert_eq!(again["response"]["content"], "a crane");
    assert_eq!(play.history("cto", "main").await.len(), 2);
    stage.model.push(Reply::new().tool("bash", json!({"command": "echo ran > log"})));
    let item = play.item("cto", "asks", "run it").await;
    play.until_state("cto", &item, "waiting").await;
    assert_eq!(get(&child, "agents").await["agents"], json!([]));
    assert_eq!(get(&child, "agents/cto/sessions").await["sessions"], json!([]));
    let page = get(&child, "agents/cto/history?session_key=main").await;
    assert_eq!(page["messages"], json!([]));
    assert_eq!(get(&child, "search?q=crane").await["hits"], json!([]));
    assert_eq!(get(&child, "search?q=heron&agent=cto").await["hits"], json!([]));
    assert_eq!(child.get("/v1/models/cto").await.unwrap().status, 404);

    // What the old one left is there for those who see everything, and for reading alone.
    let page = get(&operator, &format!("agents/{old}/history?session_key=main")).await;
    assert_eq!(page["messages"][0]["agentId"], "cto", "{page}");
    for api in [child, play.hive.api(Some(&person)).unwrap()] {
        let unseen = api.get(&format!("/api/v1/agents/{old}/history")).await.unwrap();
        assert_eq!(unseen.status, 404, "{}", unseen.text);
    }
    for path in ["messages", "sessions/x/fork"] {
        let path = format!("/api/v1/agents/{old}/{path}");
        let refused = operator.post(&path, &json!({"message": "hi"})).await.unwrap();
        assert!([400, 404].contains(&refused.status), "{path}: {}", refused.text);
    }
    let listed = Command::new(locate::skep().unwrap())
        .args(["audit", "list", "--agent", &old, "--home"])
        .arg(stage.home())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("look"), "{listed:?}");
    let verdict = get(&operator, "audit/verify").await;
    assert_eq!(verdict["ok"], true, "{verdict}");

    // Events of the name are the new one's; who had asked for the old one's hears of no other.
    let mut events = operator.events("/api/v1/events?agent=cto&since=0").await.unwrap();
    let mut texts = String::new();
    while !texts.contains("turn_waiting") {
        texts += &events.next_within(PATIENCE).await.unwrap().unwrap().data;
    }
    assert!(texts.contains(item.as_str()) && !texts.contains(waits.as_str()), "{texts}");
    if !restart {
        hears_nothing(&play, &item, watched).await;
    }
}

/// Who had asked for the events of the old one.
async fn hears_nothing(play: &Play, item: &str, mut watched: Events) {
    let mut texts = String::new();
    while !texts.contains("inbox_ended") {
        texts += &watched.next_within(PATIENCE).await.unwrap().unwrap().data;
    }
    play.stop("cto", "asks").await;
    play.ended("cto", item).await;
    let more = watched.next_within(Duration::from_millis(300)).await;
    let more = more.ok().flatten().map(|event| event.data).unwrap_or_default();
    assert!(!more.contains(item), "{more}");
}

#[tokio::test]
async fn attack_a_namesake_inherits_nothing_in_the_process_that_runs() {
    nothing_is_inherited(false).await;
}

#[tokio::test]
async fn attack_a_namesake_inherits_nothing_after_a_restart() {
    nothing_is_inherited(true).await;
}
