//! What the model is sent: a request begins with all of the one before it, and is small.

use std::path::Path;

use serde_json::{Value, json};
use skep_testkit::{ModelRequest, Reply};

use crate::stage::Stage;

/// Tools, system and messages as they were serialised, on any wire, without cache marks and
/// without the end that closes the list of messages.
pub fn prefix(request: &ModelRequest) -> String {
    const PARTS: [&str; 5] = ["tools", "system", "instructions", "messages", "input"];
    let fields = request.body.as_object().unwrap();
    let names = fields.keys().map(String::as_str).filter(|name| PARTS.contains(name));
    let names: Vec<&str> = names.collect();
    let expected = PARTS.into_iter().filter(|part| names.contains(part));
    assert_eq!(names, expected.collect::<Vec<_>>(), "the cache sees them in this order");
    let parts: Vec<Value> = names.iter().map(|part| unmarked(&request.body[part])).collect();
    let text = Value::Array(parts).to_string();
    text.strip_suffix("]]").unwrap().to_owned()
}

fn unmarked(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(unmarked).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(kept.map(|(name, value)| (name.clone(), unmarked(value))).collect())
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn engine_request_begins_with_all_of_the_one_before_it() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    stage.write("teams/main/work/notes.md", "some notes\n");
    for turn in 0..20 {
        match turn {
            // A steered message joins after the results.
            3 => {
                stage.model.push(Reply::new().gate("go").tool("look", json!({"text": "steer"})));
                stage.model.push(Reply::say("both"));
                let item = play.item("main", "main", "turn 3").await;
                stage.model.gate("go").wait_arrived(1).await.unwrap();
                play.tell("main", "main", "steered into turn 3").await;
                stage.model.gate("go").release();
                assert_eq!(play.ended("main", &item).await["state"], "done");
                continue;
            }
            // A turn that is stopped in the middle keeps its half answer.
            6 => {
                let half = Reply::new().thinking("hm").open_text().delta("half").gate("half");
                stage.model.push(half);
                let item = play.item("main", "main", "turn 6").await;
                stage.model.gate("half").wait_arrived(1).await.unwrap();
                assert!(play.stop("main", "main").await);
                assert_eq!(play.ended("main", &item).await["state"], "cancelled");
                continue;
            }
            // A turn that fails leaves its question without an answer.
            9 => {
                stage.model.push(Reply::unauthorized());
                assert_eq!(play.ask("main", "turn 9").await["state"], "failed");
                continue;
            }
            12 => {
                play.hive.kill().await.unwrap();
                play = stage.up().await;
            }
            _ => {}
        }
        let calls = Reply::new()
            .thinking(&format!("thought {turn}"))
            .text("I look.")
            .tool("look", json!({"text": "slow", "ms": 30}))
            .tool("look", json!({"ms": 0, "text": "quick"}))
            .tool("read", json!({"file_path": "notes.md"}));
        stage.model.push(calls);
        stage
            .model
            .push(Reply::new().redacted_thinking("b64==").tool("nope", json!({"z": 1, "a": 2})));
        stage.model.push(Reply::say(&format!("answer {turn}")));
        assert_eq!(play.ask("main", &format!("turn {turn}")).await["state"], "done");
    }
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    let requests = stage.model.requests();
    assert_eq!(requests.len(), 17 * 3 + 2 + 1 + 1);
    for pair in requests.windows(2) {
        let (before, after) = (prefix(&pair[0]), prefix(&pair[1]));
        assert!(
            after.starts_with(&before),
            "request {} does not begin with request {}:\n{before}\n{after}",
            pair[1].number,
            pair[0].number
        );
    }
    // Results stand in the order of their calls, though the quick one was there first.
    let results = requests[1].last_tool_results();
    let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts[..2], ["looked at slow", "looked at quick"]);
}

/// A restart in the middle of a turn asks with the same bytes as the process before it did.
#[tokio::test]
async fn engine_request_after_a_crash_is_the_same_again() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().thinking("t").tool("effect", json!({"text": "b", "ms": 1})));
    stage.model.push(Reply::new().open_text().delta("half").gate("half"));
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("whole"));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "whole");
    let requests = stage.model.requests();
    assert_eq!(requests.len(), 3, "the step on record is not asked for again");
    assert_eq!(requests[1].raw, requests[2].raw);
    assert_eq!(stage.effects.total().unwrap(), 1);
    assert_eq!(play.told("main", "main").await.len(), 4);
}

#[tokio::test]
async fn engine_ping_is_small() {
    let stage = Stage::new().await;
    let six = "allowed_tools: [read, write, edit, glob, grep, bash]\n";
    stage.write("teams/main/config.yaml", six);
    stage.model.push(Reply::say("pong"));
    let play = stage.up().await;
    // As `skep send main ping --wait` does.
    let door = play.hive.socket_api().unwrap();
    let path = "/api/v1/agents/main/messages?wait=true";
    let answer = door.post(path, &json!({"message": "ping"})).await.unwrap().good().unwrap();
    assert_eq!(answer["response"]["content"], "pong");
    let request = &stage.model.requests()[0];
    println!("the request for ping has {} bytes", request.raw.len());
    assert!(request.raw.len() <= 8000, "{} bytes", request.raw.len());
    insta::assert_snapshot!(masked(request, stage.home()));
}

/// The request with what differs from run to run left out.
fn masked(request: &ModelRequest, home: &Path) -> String {
    let text = serde_json::to_string_pretty(&request.body).unwrap();
    let text = text.replace(home.to_str().unwrap(), "HOME");
    let at = text.find("\"[20").unwrap() + 2;
    let after = at + text[at..].find(" UTC").unwrap();
    format!("{}TIME{}", &text[..at], &text[after..])
}
