//! A hive that is killed, or loses its power, while agents work for each other: every task ends
//! once, every effect happens once, and the person has their answer.

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply};

use crate::org_tasks::{agent, configure};
use crate::stage::{Play, Stage};

/// Points of a sweep that run side by side: most of a point is waiting for the disk.
const SIDE_BY_SIDE: usize = 3;

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

/// A home with the tree in it, and how many operations a start and the work take.
async fn template() -> (Stage, u64, u64) {
    let stage = Stage::new().await;
    configure(&stage);
    let mut first = stage.up().await;
    first.hive.terminate().unwrap();
    let ended = first.hive.wait(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", first.hive.stderr());
    drop(first);
    let scene = scene(&stage).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    let begun = shim.count().unwrap();
    play.item("main", "main", "make a book").await;
    quiet(&play).await;
    (stage, begun, shim.count().unwrap())
}

async fn scene(template: &Stage) -> Stage {
    let scene = template.again().await;
    configure(&scene);
    script(&scene);
    scene
}

/// Waits until nothing is to be done, and nothing was lost.
async fn quiet(play: &Play) {
    let quiet = wait::until_async("all work to end", PATIENCE, || async {
        let items = inbox(play, "main").await;
        let open = items.iter().any(|item| item["finished_at"].is_null());
        // The message, and the event that tells of research.
        (items.len() == 2 && !open).then_some(())
    });
    quiet.await.unwrap();
}

async fn inbox(play: &Play, agent: &str) -> Vec<Value> {
    let path = format!("/api/v1/inbox?agent={agent}");
    let page = play.api().get(&path).await.unwrap().good().unwrap();
    page["items"].as_array().unwrap().clone()
}

async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let (template, begun, whole) = template().await;
    let template = &template;
    let at = |point: u64| begun + 1 + point * (whole - begun) / points;
    let ran = stream::iter(0..points).map(|point| ended_at(template, end(at(point))));
    ran.buffer_unordered(SIDE_BY_SIDE).collect::<Vec<()>>().await;
}

async fn ended_at(template: &Stage, end: End) {
    let scene = scene(template).await;
    let shim = Shim::new(scene.home()).unwrap();
    shim.prepare(end).unwrap();
    if let Ok(hive) = scene.start().shim(&shim).listening().await {
        let mut play = scene.play(hive);
        let path = "/api/v1/agents/main/messages";
        let body = json!({"message": "make a book", "session_key": "main"});
        let _ = play.api().post(path, &body).await;
        let ended = wait::until_async("the work, or the process, to end", PATIENCE, || async {
            let busy = play.api().get("/api/v1/inbox?agent=main").await;
            let busy = busy.and_then(|answer| answer.good());
            let done = |page: Value| {
                let items = page["items"].as_array().cloned().unwrap_or_default();
                items.len() == 2 && items.iter().all(|item| !item["finished_at"].is_null())
            };
            busy.map_or(Some(()), |page| done(page).then_some(()))
        });
        ended.await.unwrap();
        let _ = play.hive.kill().await;
    }
    let play = scene.up().await;
    if inbox(&play, "main").await.is_empty() {
        play.item("main", "main", "make a book").await;
    }
    quiet(&play).await;
    let told = play.told("main", "main").await;
    assert!(told.iter().any(|row| row.ends_with("press says 42")), "{end:?}: {told:?}");
    let events = told.iter().filter(|row| row.contains("[event task_done")).count();
    assert_eq!(events, 1, "{end:?}: {told:?}");
    for team in ["research", "press"] {
        let items = inbox(&play, team).await;
        assert_eq!(items.len(), 1, "{end:?}: {items:?}");
        assert_eq!(items[0]["state"], "done", "{end:?}: {items:?}");
    }
    assert!(scene.effects.total().unwrap() <= 1, "{end:?}");
    assert_eq!(scene.model.refusals(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_survive_kills_at_counted_operations() {
    sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    sweep(points, |at| End::PowerLoss { at, seed: if at % 2 == 0 { 0 } else { at } }).await;
}
