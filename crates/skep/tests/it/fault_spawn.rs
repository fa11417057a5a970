//! A hive that is killed, or loses its power, or whose disk fails, while it makes a team:
//! afterwards the team is there once and whole, or there is nothing of it and the call makes it
//! again.

use reqwest::Method;
use serde_json::json;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, http};

use crate::fault_sweep::{at_points, power_loss, settle};
use crate::org_spawn::{ALLOWED, agents, is_nowhere, result, rows};
use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

fn script(stage: &Stage) {
    stage.write("teams/main/config.yaml", ALLOWED);
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => {
            let order = json!({"name": "writers", "scope_accepts": ["books"], "init_context": "x"});
            Reply::call("spawn_team", order)
        }
        ("main", _) => {
            let made = result(request);
            Reply::say(made["status"].as_str().unwrap_or_else(|| made["error"].as_str().unwrap()))
        }
        _ => Reply::say("Ready."),
    });
}

async fn template() -> (Stage, u64, u64) {
    let stage = Stage::new().await;
    script(&stage);
    settle(&stage).await;
    let scene = scene(&stage).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    let begun = shim.count().unwrap();
    let item = play.item("main", "main", "write it").await;
    play.ended("main", &item).await;
    (stage, begun, shim.count().unwrap())
}

async fn scene(template: &Stage) -> Stage {
    let scene = template.again().await;
    script(&scene);
    scene
}

/// Where the message has come to.
async fn state(play: &Play) -> Option<String> {
    let page = play.api().get("/api/v1/inbox?agent=main").await.ok()?.good().ok()?;
    Some(page["items"][0]["state"].as_str().unwrap_or("none").to_owned())
}

async fn ended_at(template: &Stage, end: End) {
    let scene = scene(template).await;
    let shim = Shim::new(scene.home()).unwrap();
    shim.prepare(end).unwrap();
    if let Ok(hive) = scene.start().shim(&shim).listening().await {
        let mut play = scene.play(hive);
        let body = json!({"message": "write it", "session_key": "main"});
        let _ = play.api().post("/api/v1/agents/main/messages", &body).await;
        let ended = wait::until_async("the work, or the process, to end", PATIENCE, || async {
            state(&play).await.is_none_or(|state| state == "done" || state == "none").then_some(())
        });
        ended.await.unwrap();
        let _ = play.hive.kill().await;
    }
    let play = scene.up().await;
    if state(&play).await.as_deref() == Some("none") {
        play.item("main", "main", "write it").await;
    }
    let done = wait::until_async("the call to end", PATIENCE, || async {
        (state(&play).await.as_deref() == Some("done")).then_some(())
    });
    done.await.unwrap();
    let told = play.told("main", "main").await;
    assert!(told.last().unwrap().ends_with("queued"), "{end:?}: {told:?}");
    let ready = wait::until_async("the team to be ready", PATIENCE, || async {
        let path = "/api/v1/inbox?agent=writers";
        let page = play.api().get(path).await.unwrap().good().unwrap();
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == 1 && items[0]["state"] == "done").then_some(())
    });
    ready.await.unwrap_or_else(|error| panic!("{end:?}: {error:#}"));
    is_whole(&scene, &play, &format!("{end:?}")).await;
}

/// The team is there, once.
async fn is_whole(scene: &Stage, play: &Play, after: &str) {
    assert!(agents(play).await.contains(&"writers".to_owned()), "{after}");
    let counted = "SELECT (SELECT count(*) FROM agents WHERE name = 'writers'), \
                   (SELECT count(*) FROM agent_scope), \
                   (SELECT count(*) FROM org_ops WHERE ended_at IS NULL), \
                   (SELECT count(*) FROM items WHERE kind = 'bootstrap')";
    assert_eq!(rows(scene, counted), "1|1|0|1", "{after}");
    let staged = scene.home().join("run/staging");
    assert_eq!(std::fs::read_dir(staged).map_or(0, |entries| entries.count()), 0, "{after}");
    assert!(scene.home().join("teams/writers/team-rules/team-context.md").exists(), "{after}");
}

/// So many operations of the disk fail, from one on. The hive runs on.
async fn failed_at(template: &Stage, at: u64, operations: u64) {
    let after = format!("{operations} operations from {at} on fail");
    let scene = scene(template).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    shim.fail_from_now(at, operations).unwrap();
    let said = write_it(&play, "first").await;
    shim.heal().unwrap();
    let settled = wait::until_async("nothing half made", PATIENCE, || async {
        let open = rows(&scene, "SELECT count(*) FROM org_ops WHERE ended_at IS NULL");
        (open == "0").then_some(())
    });
    settled.await.unwrap();
    if said != "queued" {
        is_nowhere(&scene, &play, "writers").await;
        assert_eq!(write_it(&play, "second").await, "queued", "{after}: {said}");
    }
    is_whole(&scene, &play, &after).await;
}

/// Sends the message until it is taken; what is answered to it.
async fn write_it(play: &Play, key: &str) -> String {
    let path = "/api/v1/agents/main/messages";
    let body = json!({"message": "write it", "session_key": key});
    let sent = wait::until_async("the message to be taken", PATIENCE, || async {
        let request = play.api().request(Method::POST, path).header("Idempotency-Key", key);
        http::answer(request.json(&body)).await.unwrap().good().ok()
    });
    let sent = sent.await.unwrap();
    let ended = play.ended("main", sent["item_id"].as_str().unwrap()).await;
    ended["response"]["content"].as_str().unwrap_or("no answer").to_owned()
}

async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let (template, begun, whole) = template().await;
    let template = &template;
    at_points(points, begun + 1..whole + 1, |_, at| ended_at(template, end(at))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spawns_survive_kills_at_counted_operations() {
    sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spawns_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    sweep(points, power_loss).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spawns_leave_nothing_when_the_disk_fails() {
    let points = if skep_testkit::all() { 60 } else { 12 };
    let (template, begun, whole) = template().await;
    let template = &template;
    // One that fails, and so many that taking it back fails too.
    let operations = |point| if point % 2 == 0 { 1 } else { 8 };
    let run = |point, at| failed_at(template, at, operations(point));
    at_points(points, 1..whole - begun + 1, run).await;
}
