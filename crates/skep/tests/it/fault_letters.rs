//! A hive that is killed, or loses its power, while agents ask, write and wait: every question is
//! answered once, every message is read once, and the person has their answer.

use serde_json::{Value, json};
use skep_testkit::shim::End;
use skep_testkit::{ModelRequest, Reply};

use crate::fault_sweep::{WorkOfTree, others_are_done, power_loss};
use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

/// `main` asks research and writes to press, waits for what press replies, and says it; later it
/// reads what research answers.
fn script(stage: &Stage) {
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match agent(request).as_str() {
            "main" => lead(request),
            "research" if request.steps_done() == 0 => {
                let (_, after) = text.split_once("[question ").unwrap();
                let id = after.split_once(' ').unwrap().0;
                Reply::new().tool("answer", json!({"id": id, "answer": "41"}))
            }
            "press" if request.steps_done() == 0 => {
                let (_, after) = text.split_once("[message ").unwrap();
                let id = after.split_once(' ').unwrap().0;
                let reply = json!({"to": "main", "body": "42", "in_reply_to": id});
                Reply::new().tool("send_message", reply)
            }
            _ => Reply::say("done"),
        }
    });
}

/// The answer may join the turn of the message at any step, or begin a turn of its own.
fn lead(request: &ModelRequest) -> Reply {
    let results = request.tool_results();
    match results.len() {
        0 => Reply::new()
            .tool("ask_operator", json!({"question": "how many?", "to": "research"}))
            .tool("send_message", json!({"to": "press", "body": "how many?"})),
        2 => Reply::new().tool("recv", json!({"wait_seconds": 180})),
        _ if request.body.to_string().contains("press says") => Reply::say("research has answered"),
        _ => {
            let read: Value = serde_json::from_str(&results[2].text).unwrap();
            let bodies: Vec<&str> = read["messages"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|message| message["body"].as_str())
                .collect();
            Reply::say(&format!("press says {}", bodies.join(" and ")))
        }
    }
}

/// Of `main`: the message, the reply of press, and the answer of research.
const WORK: WorkOfTree = WorkOfTree { message: "how many?", items: 3, script };

async fn check(_: &Stage, play: &Play, end: End) {
    let told = play.told("main", "main").await;
    // Read once, and neither lost nor doubled.
    let says = told.iter().filter(|row| row.ends_with("press says 42")).count();
    assert_eq!(says, 1, "{end:?}: {told:?}");
    let answers = told.iter().filter(|row| row.contains("[event question_answered")).count();
    assert_eq!(answers, 1, "{end:?}: {told:?}");
    others_are_done(play, end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_survive_kills_at_counted_operations() {
    WORK.sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill, check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    WORK.sweep(points, power_loss, check).await;
}
