//! The files pulled away under a running hive: it takes no further message, says why, and no
//! second hive starts beside it. What was answered before is there once the files are.

use std::fs;
use std::path::Path;

use serde_json::json;
use skep_testkit::Reply;
use skep_testkit::hive::Start;
use skep_testkit::locate;

use crate::stage::{Play, Stage};

async fn running() -> (Stage, Play) {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("kept"));
    let play = stage.up().await;
    play.ask("main", "keep this").await;
    (stage, play)
}

/// Nothing is acknowledged, and both doors for probes say what is missing.
async fn takes_nothing(play: &Play, what: &str) {
    for _ in 0..2 {
        let path = "/api/v1/agents/main/messages";
        let answer = play.api().post(path, &json!({"message": "and this"})).await.unwrap();
        assert_eq!((answer.status, &answer.json["code"]), (503, &json!("store_unsynced")));
    }
    let ready = play.hive.api(None).unwrap().get("/api/v1/ready").await.unwrap();
    assert_eq!((ready.status, &ready.json["code"]), (503, &json!("store_moved")));
    let why = ready.json["detail"].as_str().unwrap();
    assert!(why.contains(&format!("the {what} was removed or moved")), "{why}");
    assert!(why.contains("start the hive again"), "{why}");
    assert!(!why.contains('/'), "no path for whoever asks: {why}");
    assert_eq!(play.state().await["hive"]["store"], "store_moved");
}

/// A second start at this place ends at once.
async fn refused(home: &Path) {
    let start = Start::up(&locate::rig().unwrap(), home).env("RIG_KEY", "key-of-the-rig");
    let ended = start.finish().await.unwrap();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("already serves this home"), "{}", ended.stderr);
}

async fn still_kept(stage: &Stage) {
    let play = stage.up().await;
    let history = play.history("main", "main").await;
    assert_eq!(history[1]["content"][0]["text"], "kept");
    assert_eq!(play.ask("main", "more").await["response"]["content"], "kept");
}

#[tokio::test]
async fn fault_the_log_removed_under_a_running_hive() {
    let (stage, mut play) = running().await;
    fs::remove_file(stage.home().join("run/skep.db-wal")).unwrap();
    takes_nothing(&play, "log").await;
    refused(stage.home()).await;
    play.hive.kill().await.unwrap();
    still_kept(&stage).await;
}

#[tokio::test]
async fn fault_the_run_folder_moved_under_a_running_hive() {
    let (stage, mut play) = running().await;
    let (run, away) = (stage.home().join("run"), stage.home().join("away"));
    fs::rename(&run, &away).unwrap();
    // Nobody has written since: it is seen all the same.
    let ready = play.hive.api(None).unwrap().get("/api/v1/ready").await.unwrap();
    assert_eq!(ready.json["code"], "store_moved");
    takes_nothing(&play, "database").await;
    refused(stage.home()).await;
    play.hive.kill().await.unwrap();
    fs::remove_dir_all(&run).unwrap();
    fs::rename(&away, &run).unwrap();
    still_kept(&stage).await;
}

#[tokio::test]
async fn fault_the_run_folder_removed_under_a_running_hive() {
    let (stage, play) = running().await;
    fs::remove_dir_all(stage.home().join("run")).unwrap();
    takes_nothing(&play, "database").await;
    refused(stage.home()).await;
}

#[tokio::test]
async fn fault_the_home_removed_under_a_running_hive() {
    let (stage, play) = running().await;
    fs::remove_dir_all(stage.home()).unwrap();
    takes_nothing(&play, "database").await;
}

#[tokio::test]
async fn fault_the_home_moved_under_a_running_hive() {
    let (stage, mut play) = running().await;
    let away = stage.home().with_extension("away");
    fs::rename(stage.home(), &away).unwrap();
    takes_nothing(&play, "database").await;
    refused(&away).await;
    play.hive.terminate().unwrap();
    let ended = play.hive.wait(skep_testkit::wait::PATIENCE).await.unwrap();
    assert!(ended.code().is_some(), "it ends when it is told to");
    fs::rename(&away, stage.home()).unwrap();
    still_kept(&stage).await;
}
