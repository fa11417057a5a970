//! A hive that is killed, or loses its power, or whose disk fails, while it removes a team: the
//! removal goes on, and nothing is left of the team.

use reqwest::Method;
use skep_testkit::Reply;
use skep_testkit::http::answer;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};

use crate::fault_sweep::{at_points, power_loss, settle};
use crate::org_spawn::{agents, rows};
use crate::org_tasks::configure;
use crate::stage::{Play, Stage};

const REMOVE: &str = "/api/v1/agents/research?cascade=true";

async fn template() -> (Stage, u64, u64) {
    let stage = Stage::new().await;
    configure(&stage);
    stage.model.answer_with(|_| Reply::say("well"));
    settle(&stage).await;
    let scene = scene(&stage).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    prepare(&play).await;
    let begun = shim.count().unwrap();
    remove(&play).await;
    (stage, begun, shim.count().unwrap())
}

async fn scene(template: &Stage) -> Stage {
    let scene = template.again().await;
    configure(&scene);
    scene.model.answer_with(|_| Reply::say("well"));
    scene
}

/// The team has a conversation.
async fn prepare(play: &Play) {
    play.ask("research", "hello").await;
}

async fn remove(play: &Play) {
    let _ = answer(play.api().request(Method::DELETE, REMOVE)).await;
}

async fn ended_at(template: &Stage, end: impl Fn(u64) -> End, offset: u64) {
    let scene = scene(template).await;
    let shim = Shim::new(scene.home()).unwrap();
    // A power loss only takes back what was written under it.
    shim.prepare(end(u64::MAX)).unwrap();
    let mut play = scene.run(scene.start().shim(&shim)).await;
    prepare(&play).await;
    shim.end_from_now(end(offset)).unwrap();
    remove(&play).await;
    let _ = play.hive.kill().await;
    let play = scene.up().await;
    if agents(&play).await.contains(&"research".to_owned()) {
        // Nothing was on record yet.
        assert!(scene.home().join("teams/library/config.yaml").exists(), "{offset}");
        remove(&play).await;
    }
    is_gone(&scene, &play, offset).await;
}

async fn is_gone(scene: &Stage, play: &Play, offset: u64) {
    let names = agents(play).await;
    assert_eq!(names, ["main", "plain", "press"], "{offset}");
    for name in ["research", "library"] {
        assert!(!scene.home().join("teams").join(name).exists(), "{offset}: {name}");
    }
    let removed = scene.home().join("run/removed");
    let left = std::fs::read_dir(removed).map_or(0, |entries| entries.count());
    assert_eq!(left, 0, "{offset}");
    let counted = "SELECT (SELECT count(*) FROM agents WHERE removed_at IS NULL), \
                   (SELECT count(*) FROM agents WHERE closing IS NOT NULL), \
                   (SELECT count(*) FROM org_ops WHERE ended_at IS NULL), \
                   (SELECT count(*) FROM items WHERE finished_at IS NULL)";
    assert_eq!(rows(scene, counted), "3|0|0|0", "{offset}");
}

/// So many operations of the disk fail, from one on. The hive runs on.
async fn failed_at(template: &Stage, offset: u64, operations: u64) {
    let scene = scene(template).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    prepare(&play).await;
    shim.fail_from_now(offset, operations).unwrap();
    remove(&play).await;
    shim.heal().unwrap();
    let settled = wait::until_async("nothing half removed", PATIENCE, || async {
        let open = rows(&scene, "SELECT count(*) FROM org_ops WHERE ended_at IS NULL");
        (open == "0").then_some(())
    });
    settled.await.unwrap();
    if agents(&play).await.contains(&"research".to_owned()) {
        // Nothing was on record yet.
        remove(&play).await;
    }
    is_gone(&scene, &play, offset).await;
}

async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let (template, begun, whole) = template().await;
    let template = &template;
    at_points(points, 1..whole - begun + 1, |_, at| ended_at(template, end, at)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_survive_kills_at_counted_operations() {
    sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    sweep(points, power_loss).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_go_on_when_the_disk_has_failed() {
    let points = if skep_testkit::all() { 60 } else { 12 };
    let (template, begun, whole) = template().await;
    let template = &template;
    let operations = |point| if point % 2 == 0 { 1 } else { 8 };
    let run = |point, at| failed_at(template, at, operations(point));
    at_points(points, 1..whole - begun + 1, run).await;
}
