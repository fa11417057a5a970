//! A hive that is killed, or loses its power, while subagents work: each is called once, works in
//! one session, has its effect once, and its caller has its answer.

use serde_json::json;
use skep_testkit::shim::End;
use skep_testkit::{ModelRequest, Reply};

use crate::fault_sweep::{WorkOfTree, inbox, power_loss};
use crate::org_subagents::{role, write_subagent};
use crate::stage::{Play, Stage};

/// `main` calls two at once, one of which has an effect; then it answers.
fn script(stage: &Stage) {
    write_subagent(stage, "main", "reader");
    write_subagent(stage, "main", "critic");
    stage.model.answer_with(|request| match role(request).as_deref() {
        None => lead(request),
        Some("reader") if request.steps_done() == 0 => {
            Reply::new().tool("effect", json!({"text": "reader"}))
        }
        Some(name) => Reply::say(&format!("{name} is done")),
    });
}

fn lead(request: &ModelRequest) -> Reply {
    let results = request.tool_results();
    match results.len() {
        0 => Reply::new()
            .tool("reader", json!({"task": "read it"}))
            .tool("critic", json!({"task": "judge it"})),
        _ => Reply::say(&format!("{}, {}", results[0].text, results[1].text)),
    }
}

const WORK: WorkOfTree = WorkOfTree { message: "judge the book", items: 3, script };

async fn check(scene: &Stage, play: &Play, end: End) {
    let told = play.told("main", "main").await;
    let answer = "reader is done, critic is done";
    assert!(told.iter().any(|row| row.ends_with(answer)), "{end:?}: {told:?}");
    assert!(!told.iter().any(|row| row.contains("[event")), "{end:?}: {told:?}");
    for item in inbox(play, "main").await {
        assert_eq!(item["state"], "done", "{end:?}: {item}");
    }
    assert!(scene.effects.total().unwrap() <= 1, "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subagents_survive_kills_at_counted_operations() {
    WORK.sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill, check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subagents_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    WORK.sweep(points, power_loss, check).await;
}
