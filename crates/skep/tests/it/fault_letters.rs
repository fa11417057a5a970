//! A hive that is killed, or loses its power, while agents ask, write and wait: every question is
//! answered once, every message is read once, and the person has their answer.

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply};

use crate::org_tasks::{agent, configure};
use crate::stage::{Play, Stage};

const SIDE_BY_SIDE: usize = 3;

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
    play.item("main", "main", "how many?").await;
    quiet(&play).await;
    (stage, begun, shim.count().unwrap())
}

async fn scene(template: &Stage) -> Stage {
    let scene = template.again().await;
    configure(&scene);
    script(&scene);
    scene
}

/// The message, the reply of press, and the answer of research.
fn is_done(items: &[Value]) -> bool {
    items.len() == 3 && items.iter().all(|item| !item["finished_at"].is_null())
}

async fn quiet(play: &Play) {
    let quiet = wait::until_async("all work to end", PATIENCE, || async {
        is_done(&inbox(play, "main").await).then_some(())
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
        let body = json!({"message": "how many?", "session_key": "main"});
        let _ = play.api().post(path, &body).await;
        let ended = wait::until_async("the work, or the process, to end", PATIENCE, || async {
            let page = play.api().get("/api/v1/inbox?agent=main").await;
            let page = page.and_then(|answer| answer.good());
            let done = |page: Value| is_done(page["items"].as_array().map_or(&[], Vec::as_slice));
            page.map_or(Some(()), |page| done(page).then_some(()))
        });
        ended.await.unwrap();
        let _ = play.hive.kill().await;
    }
    let play = scene.up().await;
    if inbox(&play, "main").await.is_empty() {
        play.item("main", "main", "how many?").await;
    }
    quiet(&play).await;
    let told = play.told("main", "main").await;
    // Read once, and neither lost nor doubled.
    let says = told.iter().filter(|row| row.ends_with("press says 42")).count();
    assert_eq!(says, 1, "{end:?}: {told:?}");
    let answers = told.iter().filter(|row| row.contains("[event question_answered")).count();
    assert_eq!(answers, 1, "{end:?}: {told:?}");
    for agent in ["research", "press"] {
        let ended = wait::until_async("what others were told to end", PATIENCE, || async {
            let items = inbox(&play, agent).await;
            items.iter().all(|item| !item["finished_at"].is_null()).then_some(items)
        });
        let items = ended.await.unwrap();
        assert_eq!(items.len(), 1, "{end:?}: {items:?}");
        assert_eq!(items[0]["state"], "done", "{end:?}: {items:?}");
    }
    assert_eq!(scene.model.refusals(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_survive_kills_at_counted_operations() {
    sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_survive_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 6 };
    sweep(points, |at| End::PowerLoss { at, seed: if at % 2 == 0 { 0 } else { at } }).await;
}
