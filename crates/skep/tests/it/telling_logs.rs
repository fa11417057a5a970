//! What the hive notes, and what it finds out about its database after a stop out of order.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

fn skep(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::skep().unwrap(), stage.home());
    words.iter().fold(start, |start, word| start.argument(*word))
}

async fn logs(stage: &Stage, words: &[&str]) -> Vec<Value> {
    let Finished { code, stdout, stderr } = skep(stage, words).finish().await.unwrap();
    assert_eq!(code, Some(0), "{stderr}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ends(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["message"] == "turn ended").collect()
}

/// The line of a turn is written beside its answer, a moment later perhaps.
async fn ended_lines(stage: &Stage, count: usize) -> Vec<Value> {
    wait::until_async("the line of the turn", PATIENCE, || async {
        let lines = logs(stage, &["--json", "logs"]).await;
        (ends(&lines).len() >= count).then_some(lines)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn telling_the_log_has_one_line_for_a_turn_and_can_be_asked() {
    let stage = Stage::new().await;
    stage.write("teams/main/work/a.txt", "text");
    stage.model.push(Reply::call("read", json!({"file_path": "a.txt"})));
    stage.model.push_all([Reply::say("one"), Reply::say("two")]);
    let play = stage.up().await;
    let first = play.ask("main", "read it").await;
    play.ask("plain", "and you?").await;
    let lines = ended_lines(&stage, 2).await;
    let ended = ends(&lines);
    assert_eq!(ended.len(), 2);
    let line = ended[0];
    assert_eq!((&line["level"], &line["agent"]), (&json!("INFO"), &json!("main")));
    assert_eq!((&line["turn"], &line["model"]), (&first["turn"], &json!("scripted")));
    assert_eq!((&line["steps"], &line["outcome"]), (&json!(2), &json!("done")));
    assert!(line["total_tokens"].as_u64().unwrap() > 0 && line["took_ms"].is_u64(), "{line}");
    assert!(line["session"].is_string(), "{line}");
    assert!(!line.to_string().contains("read it"), "no bodies: {line}");
    let turn = first["turn"].as_str().unwrap();
    for (words, count) in [
        (&["--json", "logs", "--turn", turn][..], 1),
        (&["--json", "logs", "--agent", "plain"], 1),
        (&["--json", "logs", "--level", "error"], 0),
        (&["--json", "logs", "--since", "2099-01-01T00:00:00Z"], 0),
        (&["--json", "logs", "--since", "1h", "-n", "1"], 1),
    ] {
        assert_eq!(logs(&stage, words).await.len(), count, "{words:?}");
    }
    let page = play.api().get(&format!("/api/v1/logs?turn={turn}")).await.unwrap().good().unwrap();
    assert_eq!(page["lines"], json!([line]));
    let next = page["next"].as_str().unwrap();
    let page = play.api().get(&format!("/api/v1/logs?after={next}")).await.unwrap().good().unwrap();
    assert_eq!(page["lines"], json!([]));
    for wrong in ["level=loud", "after=here", "limit=0", "other=1"] {
        let answer = play.api().get(&format!("/api/v1/logs?{wrong}")).await.unwrap();
        assert_eq!(
            (answer.status, &answer.json["code"]),
            (400, &json!("invalid_query")),
            "{wrong}"
        );
    }
    let elsewhere = skep(&stage, &["--json", "--url", play.hive.url().unwrap(), "logs"]);
    let elsewhere = elsewhere.env("SKEP_TOKEN", &play.token).finish().await.unwrap();
    assert_eq!(elsewhere.stdout.matches("turn ended").count(), 2, "{}", elsewhere.stderr);
}

#[tokio::test]
async fn telling_followed_logs_show_lines_as_they_come() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::say("one"), Reply::say("two")]);
    let play = stage.up().await;
    play.ask("main", "first").await;
    ended_lines(&stage, 1).await;
    let following = skep(&stage, &["logs", "-f", "--agent", "main"]).spawn().unwrap();
    for count in 1..=2 {
        let seen = || (following.stdout().matches("turn ended").count() == count).then_some(());
        wait::until("followed lines", PATIENCE, seen).await.unwrap();
        if count == 1 {
            play.ask("main", "second").await;
        }
    }
}

#[tokio::test]
async fn telling_followed_logs_end_with_their_reader() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::say("one"), Reply::say("two")]);
    let play = stage.up().await;
    play.ask("main", "first").await;
    ended_lines(&stage, 1).await;
    let mut following = std::process::Command::new(locate::skep().unwrap())
        .args(["logs", "-f"])
        .env("SKEP_HOME", stage.home())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = BufReader::new(following.stdout.take().unwrap());
    let first = tokio::task::spawn_blocking(move || reader.lines().next()).await.unwrap();
    assert!(first.unwrap().unwrap().contains("INFO"));
    play.ask("main", "second").await;
    let ended = || following.try_wait().unwrap();
    assert!(wait::until("its end", PATIENCE, ended).await.unwrap().success());
}

#[tokio::test]
async fn telling_a_log_that_cannot_be_written_stops_nobody_and_lost_lines_are_counted() {
    let stage = Stage::new().await;
    let file = stage.home().join("run/logs/skep.log");
    fs::create_dir_all(&file).unwrap();
    stage.model.push_all([Reply::say("one"), Reply::say("two"), Reply::say("three")]);
    let play = stage.up().await;
    assert_eq!(play.ask("main", "first").await["state"], "done");
    assert_eq!(play.ask("main", "second").await["state"], "done");
    // A person sees a line when it has been handed in; the one before it has been tried by then.
    let seen = || (play.hive.stderr().matches("turn ended").count() == 2).then_some(());
    wait::until("both lines", PATIENCE, seen).await.unwrap();
    fs::remove_dir(&file).unwrap();
    assert_eq!(play.ask("main", "third").await["state"], "done");
    let lines = ended_lines(&stage, 1).await;
    let lost = lines[0]["message"].as_str().unwrap();
    assert!(lost.ends_with("lines of the log were lost: the disk was full or too slow"), "{lost}");
}

#[tokio::test]
async fn telling_in_the_background_only_the_files_have_the_log() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("one"));
    let up = stage.start().argument("--detach").finish().await.unwrap();
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    let sent = skep(&stage, &["send", "main", "hello", "--wait"]).finish().await.unwrap();
    assert_eq!(sent.stdout, "one\n", "{}", sent.stderr);
    ended_lines(&stage, 1).await;
    assert_eq!(fs::read_to_string(stage.home().join("run/logs/stderr")).unwrap(), "");
    let down = skep(&stage, &["down"]).finish().await.unwrap();
    assert_eq!(down.code, Some(0), "{}", down.stderr);
}

async fn integrity(play: &Play) -> Value {
    let known = wait::until_async("the look at the database", PATIENCE, || async {
        let found = play.state().await["hive"]["integrity"].clone();
        (found["state"] != "running").then_some(found)
    });
    known.await.unwrap()
}

#[tokio::test]
async fn telling_the_whole_database_is_looked_at_after_a_stop_out_of_order() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::say("one"), Reply::say("two")]);
    let mut play = stage.up().await;
    assert_eq!(integrity(&play).await, json!({"state": "unchecked"}));
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let found = integrity(&play).await;
    assert_eq!(found["state"], "whole", "{found}");
    assert!(found["checked_at"].is_i64(), "{found}");
    play.tell("main", "a-session-that-is-indexed", "hello").await;
    let asked = play.ask("main", "and this?").await;
    assert_eq!(asked["state"], "done");
    let mut hive = play.hive;
    hive.terminate().unwrap();
    hive.wait(PATIENCE).await.unwrap();
    damage_an_index(&stage);
    let play = stage.up().await;
    let found = integrity(&play).await;
    assert_eq!(found["state"], "damaged", "{found}");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("missing from index") && text.contains("restore a backup"), "{text}");
    let status = skep(&stage, &["status"]).finish().await.unwrap();
    assert!(status.stdout.contains("The database is damaged"), "{}", status.stdout);
    let errors = logs(&stage, &["--json", "logs", "--level", "error"]).await;
    assert_eq!(errors.len(), 1, "{errors:?}");
}

/// An entry of an index that its table does not have: the quick look at a start does not see it.
fn damage_an_index(stage: &Stage) {
    let database: PathBuf = stage.home().join("run/skep.db");
    let mut bytes = fs::read(&database).unwrap();
    let key = b"a-session-that-is-indexed";
    let places: Vec<usize> =
        (0..bytes.len() - key.len()).filter(|at| bytes[*at..].starts_with(key)).collect();
    let schema = |at: &&usize| bytes[**at - 1] != b'"';
    let place = *places.iter().rfind(schema).unwrap();
    bytes[place] = b'b';
    fs::write(&database, bytes).unwrap();
    fs::remove_file(stage.home().join("run/clean")).unwrap();
}
