//! Whatever ends a turn ends its model request and every process it started, within 5 s.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use skep_testkit::model::Ending;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, processes};

use crate::stage::{Play, Stage};

const LIMIT: Duration = Duration::from_secs(5);

/// A turn of this session that has started processes with the mark; its item.
async fn with_children(stage: &Stage, play: &Play, mark: &str) -> String {
    let spawn = Reply::new().text("I start.").tool("spawn", json!({"text": mark}));
    stage.model.push(spawn);
    let item = play.item("main", "main", "start them").await;
    // The shell, a grandchild in its group, and one in a session of its own.
    let all_there = || processes::alive(mark).len() >= 3;
    wait::until_true("child, grandchild and the one apart", PATIENCE, all_there).await.unwrap();
    item
}

async fn all_gone(mark: &str, begun: Instant) {
    let gone = || processes::alive(mark).is_empty();
    let left = LIMIT.saturating_sub(begun.elapsed());
    wait::until_true(&format!("the end of {mark}"), left, gone).await.unwrap();
}

/// A word not found anywhere else on the machine. A test that fails leaves nothing running.
struct Mark(String);

impl std::ops::Deref for Mark {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for process in processes::alive(self) {
            let kill = Command::new("kill").arg("-9").arg(process.to_string()).status();
            drop(kill);
        }
    }
}

fn mark(name: &str) -> Mark {
    Mark(format!("skep-mark-{name}-{}", std::process::id()))
}

#[tokio::test]
async fn engine_stop_ends_children_and_grandchildren() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let mark = mark("stop");
    let item = with_children(&stage, &play, &mark).await;
    let begun = Instant::now();
    assert!(play.stop("main", "main").await);
    all_gone(&mark, begun).await;
    assert_eq!(play.ended("main", &item).await["error"]["code"], "cancelled");
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(play.hive.children(), Vec::<u32>::new());
}

#[tokio::test]
async fn engine_interrupt_ends_children_and_grandchildren() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let mark = mark("interrupt");
    let item = with_children(&stage, &play, &mark).await;
    stage.model.answer_with(|_| Reply::say("the newer one"));
    let begun = Instant::now();
    let newer = play.tell_mode("main", "main", "never mind", "interrupt").await;
    all_gone(&mark, begun).await;
    let newer = play.ended("main", newer["item_id"].as_str().unwrap()).await;
    assert_eq!(newer["response"]["content"], "the newer one");
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(play.ended("main", &item).await["error"]["code"], "interrupted");
}

#[tokio::test]
async fn engine_shutdown_ends_the_model_request_and_every_process() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  drain_seconds: 0\n");
    let mut play = stage.up().await;
    let mark = mark("shutdown");
    with_children(&stage, &play, &mark).await;
    stage.model.push(Reply::new().open_text().delta("half").gate("never").close());
    play.tell("main", "other", "talk").await;
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    let begun = Instant::now();
    play.hive.terminate().unwrap();
    assert_eq!(stage.model.wait_for_end(2).await.unwrap(), Ending::HungUp);
    all_gone(&mark, begun).await;
    let status = play.hive.wait(LIMIT).await.unwrap();
    assert!(begun.elapsed() < LIMIT + Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0), "{}", play.hive.stderr());
}

#[tokio::test]
async fn engine_what_a_killed_hive_left_running_is_ended_by_the_next_start() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    let mark = mark("killed");
    let item = with_children(&stage, &play, &mark).await;
    play.hive.kill().await.unwrap();
    let some_left = || processes::alive(&mark).len() >= 2;
    wait::until_true("something is left", PATIENCE, some_left).await.unwrap();
    stage.model.answer_with(|_| Reply::say("it was cut off"));
    let play = stage.up().await;
    assert_eq!(processes::alive(&mark), Vec::<u32>::new(), "ended before the doors open");
    assert_eq!(play.ended("main", &item).await["response"]["content"], "it was cut off");
    let told = play.told("main", "main").await;
    assert!(told[2].starts_with("result! spawn: outcome unknown"), "{told:?}");
    assert_eq!(play.state().await["unknown_calls"][0]["tool"], "spawn");
}

/// A tool that does not listen is left behind, in time, and its outcome is unknown.
#[tokio::test]
async fn engine_shutdown_does_not_wait_for_a_deaf_tool() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  drain_seconds: 0\n");
    stage.model.push(Reply::call("deaf", json!({})));
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    play.until_history("main", "main", "the call", |rows| rows.len() == 2).await;
    let begun = Instant::now();
    play.hive.terminate().unwrap();
    let status = play.hive.wait(PATIENCE).await.unwrap();
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0), "{}", play.hive.stderr());
    stage.model.answer_with(|_| Reply::say("it was cut off"));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "it was cut off");
    let told = play.told("main", "main").await;
    assert!(told[2].starts_with("result! deaf: outcome unknown"), "{told:?}");
}
