//! Work as people read it: who gave what to whom, in which state, and how long it took.

use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::Api;
use skep_testkit::wait::{self, PATIENCE};

use crate::org_spawn::rows;
use crate::org_tasks::{agent, said, team};
use crate::stage::{Play, Stage};

async fn get(api: &Api, path: &str) -> Value {
    api.get(&format!("/api/v1/{path}")).await.unwrap().good().unwrap()
}

fn items(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    let word = |item: &Value, key: &str| item[key].as_str().unwrap_or("-").to_owned();
    let line = |item: &Value| {
        ["from", "agent", "task", "kind", "state"].map(|key| word(item, key)).join(" ")
    };
    items.map(line).collect()
}

#[tokio::test]
async fn org_work_is_listed_by_state_agent_and_kind() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event") => Reply::say("One is done."),
            ("main", 0) => Reply::new()
                .tool("delegate_task", json!({"team": "research", "task": "Find the colour"}))
                .tool("delegate_task", json!({"team": "press", "task": "print it"})),
            ("main", _) => Reply::say("They work at it."),
            ("press", _) => Reply::unauthorized(),
            (name, _) => Reply::new().gate("work").text(&format!("{name} has done it")),
        }
    });
    let play = team(&stage).await;
    let asked = play.ask("main", "make a book").await;
    let (api, root) = (play.api(), asked["item_id"].as_str().unwrap());
    let failed = wait::until_async("press to fail", PATIENCE, async || {
        let page = get(&api, "work?state=failed").await;
        (!items(&page).is_empty()).then_some(page)
    });
    assert_eq!(items(&failed.await.unwrap()), ["main press delegate task failed"]);
    let me = get(&api, "session").await["name"].as_str().unwrap().to_owned();
    let quiet = "SELECT count(*) FROM items WHERE kind = 'event' AND finished_at IS NULL";
    wait::until("main to hear of it", PATIENCE, || (rows(&stage, quiet) == "0").then_some(()))
        .await
        .unwrap();
    let message = format!("{me} main - message done");
    let running = "main research delegate task running".to_owned();
    let over = "main press delegate task failed".to_owned();
    let table: &[(&str, &[&String])] = &[
        ("work", &[&over, &running, &message]),
        ("work?kind=task", &[&over, &running]),
        ("work?kind=message", &[&message]),
        ("work?state=running", &[&running]),
        ("work?state=running,done", &[&running, &message]),
        ("work?agent=press", &[&over]),
        ("work?q=FIND%20the", &[&running]),
        ("work?mine=true", &[&message]),
        ("work?kind=reminder", &[]),
    ];
    for (path, expected) in table {
        let page = get(&api, path).await;
        let mut expected: Vec<String> = expected.iter().map(|line| (*line).clone()).collect();
        // Both were given in one commit.
        let (mut found, next) = (items(&page), &page["next"]);
        found.sort();
        expected.sort();
        assert_eq!((found, next), (expected, &Value::Null), "{path}");
    }
    let all = get(&api, "work?kind=any&since=0").await;
    assert!(items(&all).iter().any(|line| line.contains(" event ")), "{all}");
    let counts = &all["counts"];
    assert_eq!((&counts["running"], &counts["failed"]), (&json!(1), &json!(1)), "{counts}");
    for item in get(&api, "work?kind=task").await["items"].as_array().unwrap() {
        assert_eq!((&item["root"], &item["parent"]), (&json!(root), &json!(root)), "{item}");
    }
    pages(&api).await;
    let refused = api.get("/api/v1/work?state=asleep").await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("unknown_state")));
    // A command of the terminal says the same.
    let list = said(&stage, &["task", "list", "--kind", "task", "--state", "failed"]).await;
    let heads: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads, ["id", "kind", "agent", "from", "state", "when", "message"]);
    let row: Vec<&str> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[1..5], ["delegate", "press", "main", "failed"]);
    stage.model.gate("work").open();
}

/// Each item is on one page, newest first.
async fn pages(api: &Api) {
    let (mut path, mut seen) = ("work?limit=1".to_owned(), Vec::new());
    loop {
        let page = get(api, &path).await;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 1, "{page}");
        seen.extend(items.iter().map(|item| item["ord"].as_i64().unwrap()));
        match page["next"].as_i64() {
            Some(next) => path = format!("work?limit=1&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 3);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
}

/// What a user sent is theirs; the rest of the hive is not shown to them.
#[tokio::test]
async fn org_work_of_others_is_not_shown_to_a_user() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("yes"));
    let play = stage.up().await;
    play.ask("main", "mine").await;
    let made = play.api().post("/api/v1/tokens", &json!({"name": "Dora", "role": "user"})).await;
    let made = made.unwrap().good().unwrap();
    let dora = play.hive.api(made["token"].as_str()).unwrap();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    dora.post(path, &json!({"message": "hers"})).await.unwrap().good().unwrap();
    let page = get(&dora, "work?since=0").await;
    let previews: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|item| &item["preview"]).collect();
    assert_eq!(previews, ["hers"], "{page}");
    assert_eq!(page["counts"]["done"], 1, "{page}");
    let all = get(&play.api(), "work").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let turn = all["items"][1]["turn"].as_str().unwrap();
    let refused = dora.get(&format!("/api/v1/turns/{turn}/timing")).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (404, &json!("unknown_turn")));
}

const SLOW: Duration = Duration::from_millis(300);

#[tokio::test]
async fn org_the_time_of_a_turn_is_known_step_by_step() {
    let stage = Stage::new().await;
    let asks = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
    stage.write("teams/main/config.yaml", asks);
    stage.model.push(Reply::call("read", json!({"file_path": "none.md"})).delay_first(SLOW));
    stage.model.push(Reply::call("bash", json!({"command": "sleep 0.2"})).delay_first(SLOW));
    stage.model.push(Reply::say("done"));
    let play = stage.up().await;
    let item = play.item("main", "main", "do it").await;
    play.until_state("main", &item, "waiting").await;
    let asked = play.question().await;
    let turn = asked["turn"].as_str().unwrap().to_owned();
    let path = format!("turns/{turn}/timing");
    let waits = get(&play.api(), &path).await;
    let last = waits["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["name"]), (&json!("wait"), &json!("bash")), "{waits}");
    assert_eq!((&last["until"], &last["approval"]), (&Value::Null, &asked["id"]), "{waits}");
    tokio::time::sleep(SLOW).await;
    play.answer(&asked, "approve").await.good().unwrap();
    play.ended("main", &item).await;
    let timing = get(&play.api(), &path).await;
    let rows = timing["rows"].as_array().unwrap();
    let of = |row: &Value, key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key}: {row}"));
    let took = |row: &Value| of(row, "until") - of(row, "from");
    // What came in and what took it up may stand in one millisecond.
    let steps: Vec<&Value> = rows.iter().filter(|row| row["name"] != "queue").collect();
    let kinds: Vec<String> = steps
        .iter()
        .map(|row| format!("{} {}", row["kind"].as_str().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [
            "model scripted",
            "tool read",
            "model scripted",
            "wait bash",
            "tool bash",
            "model scripted"
        ],
        "{timing}"
    );
    let [first, read, second, wait, bash, third] = steps[..] else { panic!("{timing}") };
    // The turn may hear late that a call begins, by what else it has to do.
    let slow = i64::try_from(SLOW.as_millis()).unwrap() / 2;
    assert!(took(first) >= slow && took(second) >= slow, "{timing}");
    assert!(of(first, "first") - of(first, "from") >= slow, "{first}");
    assert!(took(wait) >= slow && took(bash) >= 190, "{timing}");
    assert_eq!((&read["failed"], &bash["failed"]), (&json!(true), &Value::Null), "{timing}");
    assert_eq!((&read["detail"], &bash["detail"]), (&json!("none.md"), &json!("sleep 0.2")));
    assert!(wait["detail"].as_str().unwrap().starts_with("approved by "), "{wait}");
    assert!(third["usage"]["output"].is_i64() && timing["model_calls"] == 3, "{timing}");
    // Nothing begins before what led to it is over.
    for (before, after) in steps.iter().zip(&steps[1..]) {
        assert!(of(before, "until") <= of(after, "from") + 1, "{before} {after}");
    }
    assert!(of(&timing, "started_at") <= of(first, "from"), "{timing}");
    assert!(of(third, "until") <= of(&timing, "ended_at"), "{timing}");
    let shown = said(&stage, &["task", "timing", &item]).await;
    assert!(shown.contains("3 model calls"), "{shown}");
    let lines = ["wait", "sleep 0.2", "none.md", "first word after"];
    assert!(lines.iter().all(|line| shown.contains(line)), "{shown}");
    let chain = get(&play.api(), &format!("inbox/{item}")).await;
    let approval = &chain["approvals"][0];
    assert_eq!((&approval["tool"], &approval["state"]), (&json!("bash"), &json!("approved")));
}

/// What failed is a row too, with why.
#[tokio::test]
async fn org_the_time_of_a_turn_names_model_calls_that_failed() {
    let stage = Stage::new().await;
    stage.model.push(Reply::call("read", json!({"file_path": "none.md"})));
    stage.model.push(Reply::unauthorized());
    stage.model.push(Reply::unauthorized());
    let play = stage.up().await;
    for (calls, kinds) in
        [(2, vec!["model scripted", "tool read", "model model"]), (1, vec!["model model"])]
    {
        let item = play.item("main", "main", "do it").await;
        play.ended("main", &item).await;
        let timing = of_item(&play, &item).await;
        let rows = timing["rows"].as_array().unwrap();
        let rows: Vec<&Value> = rows.iter().filter(|row| row["name"] != "queue").collect();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let found: Vec<String> =
            rows.iter().map(|row| format!("{} {}", word(row, "kind"), word(row, "name"))).collect();
        assert_eq!(found, kinds, "{timing}");
        let last = rows.last().unwrap();
        let told = (&last["failed"], &last["detail"], &last["until"]);
        assert_eq!(told, (&json!(true), &json!("provider_auth"), &timing["ended_at"]), "{timing}");
        assert_eq!(timing["model_calls"], calls, "{timing}");
        let shown = said(&stage, &["task", "timing", &item]).await;
        assert!(shown.contains("model failed") && !shown.contains('?'), "{shown}");
    }
}

/// A turn that goes on shows the model call under way, and a call that waits for another agent.
#[tokio::test]
async fn org_the_time_of_a_running_turn_goes_on() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::call("query_team", json!({"team": "research", "query": "which?"})),
        ("main", _) => Reply::say("blue"),
        _ => Reply::new().gate("answer").text("blue"),
    });
    let play = team(&stage).await;
    let item = play.item("main", "main", "which colour?").await;
    let asked = wait::until_async("research to be asked", PATIENCE, async || {
        let page = get(&play.api(), "work?agent=research&state=running").await;
        page["items"][0]["turn"].as_str().map(str::to_owned)
    });
    let below = asked.await.unwrap();
    let asking = wait::until_async("the model to be asked", PATIENCE, async || {
        let timing = get(&play.api(), &format!("turns/{below}/timing")).await;
        let row = timing["rows"].as_array().unwrap().last().cloned();
        row.filter(|row| row["kind"] == "model")
    });
    assert_eq!(asking.await.unwrap()["until"], Value::Null);
    let timing = of_item(&play, &item).await;
    let last = timing["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["name"]), (&json!("wait"), &json!("query_team")), "{timing}");
    assert_eq!((&last["until"], &timing["state"]), (&Value::Null, &json!("waiting")), "{timing}");
    stage.model.gate("answer").open();
    play.ended("main", &item).await;
    let timing = of_item(&play, &item).await;
    let rows = timing["rows"].as_array().unwrap();
    let waited = rows.iter().find(|row| row["name"] == "query_team").unwrap();
    assert_eq!((&waited["kind"], waited["until"].is_i64()), (&json!("wait"), true), "{timing}");
}

async fn of_item(play: &Play, item: &str) -> Value {
    let shown = get(&play.api(), &format!("inbox/{item}")).await;
    get(&play.api(), &format!("turns/{}/timing", shown["turn"].as_str().unwrap())).await
}
