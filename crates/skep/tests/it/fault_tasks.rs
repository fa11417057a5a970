//! A hive that is killed, or loses its power, while agents work for each other: every task ends
//! once, every effect happens once, and the person has their answer.

use serde_json::{Value, json};
use skep_testkit::shim::End;
use skep_testkit::{ModelRequest, Reply};

use crate::fault_sweep::{WorkOfTree, others_are_done, power_loss};
use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

/// `main` gives research work, which has an effect, and asks press; then it answers.
fn script(stage: &Stage) {
    stage.model.answer_with(|request| match agent(request).as_str() {
        "main" => lead(request),
        "research" if request.steps_done() == 0 => {
            Reply::new().tool("effect", json!({"text": "research"}))
        }
        _ => Reply::say("42"),
    });
}

/// The event may join the turn of the message at any step, or begin a turn of its own.
fn lead(request: &ModelRequest) -> Reply {
    let results = request.tool_results();
    match results.len() {
        0 => give(),
        1 => Reply::new().tool("query_team", json!({"team": "press", "query": "n?"})),
        _ if request.body.to_string().contains("press says") => Reply::say("research is done"),
        _ => Reply::say(&answer(&results[1].text)),
    }
}

fn give() -> Reply {
    Reply::new().tool("delegate_task", json!({"team": "research", "task": "find it"}))
}

fn answer(result: &str) -> String {
    let answer: Value = serde_json::from_str(result).unwrap();
    format!("press says {}", answer["answer"].as_str().unwrap_or("nothing"))
}

const WORK: WorkOfTree = WorkOfTree { message: "make a book", items: 2, script };

async fn check(scene: &Stage, play: &Play, end: End) {
    let told = play.told("main", "main").await;
    assert!(told.iter().any(|row| row.ends_with("press says 42")), "{end:?}: {told:?}");
    let events = told.iter().filter(|row| row.contains("[event task_done")).count();
    assert_eq!(events, 1, "{end:?}: {told:?}");
    others_are_done(play, end).await;
    assert!(scene.effects.total().unwrap() <= 1, "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_survive_kills_at_counted_operations() {
    WORK.sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill, check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    WORK.sweep(points, power_loss, check).await;
}
