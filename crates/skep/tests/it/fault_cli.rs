//! The command line when something is not as it should be: messages say what was attempted, why
//! it failed and what to do; a hive that dies under a waiting command costs nothing but time.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::http::Api;
use skep_testkit::{Reply, WsClient, locate};

use crate::stage::Stage;

fn command(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key-of-the-rig");
    words.iter().fold(start, |start, word| start.argument(*word))
}

async fn said(stage: &Stage, words: &[&str]) -> Finished {
    command(stage, words).finish().await.unwrap()
}

/// The whole message, with the home and the program's own reason masked.
async fn failure(stage: &Stage, words: &[&str]) -> (i32, String) {
    let ended = said(stage, words).await;
    assert_eq!(ended.stdout, "", "{words:?}");
    let home = stage.home().display().to_string();
    (ended.code.unwrap(), ended.stderr.replace(&home, "HOME"))
}

/// A script that keeps what a command prints must learn that it was not kept.
#[tokio::test]
async fn fault_cli_a_result_that_cannot_be_written_is_a_failure_and_a_reader_that_left_is_none() {
    let stage = Stage::new().await;
    let skep = locate::skep().unwrap();
    let run = |into: Stdio| {
        let mut command = Command::new(&skep);
        command.args(["config", "schema", "--home"]).arg(stage.home()).stdout(into);
        command.stderr(Stdio::piped()).output().unwrap()
    };
    let full = run(fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(
        (full.status.code(), String::from_utf8(full.stderr).unwrap().as_str()),
        (
            Some(1),
            "skep: could not write all of the result\n  No space left on device (os error 28)\n  \
             next: make room, then ask again\n"
        )
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let left = run(writer.into());
    assert_eq!((left.status.code(), left.stderr.as_slice()), (Some(0), &b""[..]));
}

#[tokio::test]
async fn fault_cli_without_a_hive_says_what_to_do() {
    let stage = Stage::new().await;
    for (words, attempted) in [
        (&["send", "main", "hello"][..], "reach the hive in HOME"),
        (&["status"], "reach the hive in HOME"),
        (&["down"], "reach the hive in HOME"),
        (&["token", "list"], "reach the hive in HOME"),
    ] {
        let never = format!(
            "skep: could not {attempted}\n  no hive was ever started there\n  next: skep up\n"
        );
        assert_eq!(failure(&stage, words).await, (1, never), "{words:?}");
    }
    assert!(!stage.home().join("run").exists(), "nothing was made by asking");
    stage.up().await.hive.kill().await.unwrap();
    for (words, attempted) in [
        (&["send", "main", "hello"][..], "send the message to main"),
        (&["send", "main", "hello", "--wait"], "send the message to main"),
        (&["send", "main", "hello", "--stream"], "send the message to main"),
        (&["status"], "show the state"),
        (&["token", "new", "laptop"], "create a token"),
        (&["token", "list"], "list the tokens"),
        (&["history", "show", "main"], "read the history of main"),
    ] {
        let dead = format!(
            "skep: could not {attempted}\n  the hive in HOME does not answer: nobody listens \
             there\n  next: skep up\n"
        );
        assert_eq!(failure(&stage, words).await, (1, dead), "{words:?}");
    }
    let nothing = "skep: could not stop the hive\n  the hive in HOME does not run: there is \
                   nothing to stop\n";
    assert_eq!(failure(&stage, &["down"]).await, (1, nothing.to_owned()));
    let asked = said(&stage, &["status", "--json"]).await;
    let error: Value = serde_json::from_str(&asked.stderr).unwrap();
    assert_eq!(
        (&error["error"]["attempted"], &error["error"]["next"]),
        (&json!("show the state"), &json!("skep up"))
    );
}

#[tokio::test]
async fn fault_cli_wrong_words_are_told_apart() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let (code, told) = failure(&stage, &["send", "mian", "hello"]).await;
    assert_eq!(code, 1);
    assert!(told.starts_with("skep: could not send the message to mian\n"), "{told}");
    assert!(told.contains("no agent"), "{told}");
    assert!(told.contains("next: skep agent list"), "{told}");
    for word in ["main", "plain"] {
        assert!(told.contains(word), "which agents there are: {told}");
    }
    let (code, told) = failure(&stage, &["token", "revoke", "nobody"]).await;
    assert_eq!(code, 1);
    let unknown = "skep: could not revoke the token nobody\n  token nobody does not exist \
                   (not_found)\n  next: skep token list\n";
    assert_eq!(told, unknown);
    let (code, told) = failure(&stage, &["send", "main", "  "]).await;
    assert!(code == 1 && told.contains("blank"), "{told}");

    let url = play.hive.url().unwrap().to_owned();
    let (code, told) = failure(&stage, &["status", "--url", &url]).await;
    assert!(code == 2 && told.contains("SKEP_TOKEN is not set"), "{told}");
    assert!(told.contains("next: on the hive's machine: skep token new"), "{told}");
    let wrong = command(&stage, &["status", "--url", &url]).env("SKEP_TOKEN", "skep_wrong");
    let wrong = wrong.finish().await.unwrap();
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    assert!(
        wrong.stderr.contains("next: on the hive's machine: skep token new"),
        "{}",
        wrong.stderr
    );
    assert!(!wrong.stderr.contains("skep_wrong"), "{}", wrong.stderr);
    let (code, told) = failure(&stage, &["status", "--url", "127.0.0.1:1"]).await;
    assert!(code == 2 && told.contains("http://"), "{told}");
    let gone = command(&stage, &["status", "--url", "http://127.0.0.1:9"]).env("SKEP_TOKEN", "t");
    let gone = gone.finish().await.unwrap();
    assert!(gone.code == Some(1) && gone.stderr.contains("does not answer"), "{gone:?}");
    for words in [&["sned"][..], &["up", "--port", "70000"], &["send", "main"], &[]] {
        assert_eq!(said(&stage, words).await.code, Some(2), "{words:?}");
    }
    let answered = said(&stage, &["down"]).await;
    assert_eq!((answered.code, answered.stdout.as_str()), (Some(0), "stopped\n"));
}

#[tokio::test]
async fn fault_cli_wait_lives_through_a_kill_and_gets_its_answer() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("never heard").gate_first("first"));
    let mut play = stage.up().await;
    let mut waiting = command(&stage, &["send", "main", "hello", "--wait"]).spawn().unwrap();
    stage.model.wait_for_request(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("here I am again"));
    let play = stage.up().await;
    let ended = waiting.wait(Duration::from_secs(30)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", waiting.stderr());
    assert_eq!(waiting.stdout(), "here I am again\n");
    let history = play.history("main", "main").await;
    let roles: Vec<_> = history.iter().map(|row| row["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant"]);
    assert_eq!(stage.model.requests().len(), 2);
}

/// Sent twice with one id, with a crash in between, it is one message and both hear its answer.
#[tokio::test]
async fn fault_cli_same_id_again_joins_the_wait() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("never heard").gate_first("first"));
    let mut play = stage.up().await;
    let words = ["send", "main", "hello", "--wait", "--id", "job-17"];
    let mut first = command(&stage, &words).spawn().unwrap();
    stage.model.wait_for_request(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("once").gate_first("second"));
    let play = stage.up().await;
    stage.model.wait_for_request(2).await.unwrap();
    let mut second = command(&stage, &words).spawn().unwrap();
    let other = said(&stage, &["send", "main", "other text", "--id", "job-17"]).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("(id_reused)"), "{}", other.stderr);
    stage.model.gate("second").release();
    for waiting in [&mut first, &mut second] {
        let ended = waiting.wait(Duration::from_secs(30)).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", waiting.stderr());
        assert_eq!(waiting.stdout(), "once\n");
    }
    assert_eq!(play.history("main", "main").await.len(), 2);
}

#[tokio::test]
async fn fault_cli_failed_turn_is_a_failed_command() {
    let stage = Stage::new().await;
    stage.model.push(Reply::unauthorized());
    let _play = stage.up().await;
    let (code, told) = failure(&stage, &["send", "main", "hello", "--wait"]).await;
    assert_eq!(code, 1);
    assert!(told.starts_with("skep: main could not answer\n"), "{told}");
    assert!(told.contains("(provider_auth)"), "{told}");
    assert!(told.contains("next: skep history show main --view full"), "{told}");
    assert!(!told.contains("rig-key-canary"), "{told}");
}

#[tokio::test]
async fn fault_cli_revoked_token_opens_nothing_from_that_moment() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let made = said(&stage, &["token", "new", "laptop"]).await;
    assert_eq!(
        (made.code, made.stderr.as_str()),
        (Some(0), "role operator: may do everything; keep it, it is not shown again\n")
    );
    let token = made.stdout.trim().to_owned();
    let api = play.hive.api(Some(&token)).unwrap();
    assert_eq!(api.get("/api/v1/state").await.unwrap().status, 200);
    let mut socket = WsClient::connect(&play.hive.ws(Some(&token)).unwrap()).await.unwrap();
    let mut events = api.events("/api/v1/events").await.unwrap();
    let list = said(&stage, &["token", "list", "--json"]).await;
    assert!(!list.stdout.contains(&token), "a list never shows a token");
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let tokens = list["tokens"].as_array().unwrap();
    let laptop = tokens.iter().find(|token| token["name"] == "laptop").unwrap();
    let id = laptop["id"].as_str().unwrap();

    let gone = said(&stage, &["token", "revoke", id]).await;
    assert_eq!((gone.code, gone.stdout), (Some(0), format!("revoked {id}\n")));
    let refused = api.get("/api/v1/state").await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (401, &json!("unauthorized")));
    assert_eq!(socket.wait_closed().await.unwrap(), Some(1008));
    while events.next().await.unwrap().is_some() {}
    let again = WsClient::try_connect(&play.hive.ws(Some(&token)).unwrap()).await.unwrap();
    assert_eq!(again.err().unwrap().status, Some(401));
    assert_eq!(play.api().get("/api/v1/state").await.unwrap().status, 200, "others stay");
    let list = said(&stage, &["token", "list"]).await;
    assert!(list.stdout.lines().any(|line| line.starts_with(id) && line.ends_with("revoked")));
    let again = said(&stage, &["token", "revoke", id]).await;
    assert!(matches!(again.code, Some(0 | 1)), "{again:?}");
}

/// Ups and downs in a hurry: whoever comes too early is refused, never half started.
#[tokio::test]
async fn fault_cli_starts_and_stops_in_a_hurry() {
    let stage = Stage::new().await;
    // Waited for: until it is gone it holds the home, and nobody else could have it.
    stage.up().await.hive.kill().await.unwrap();
    let starts: Vec<_> = (0..4).map(|_| stage.start().spawn().unwrap()).collect();
    let mut serving = Vec::new();
    for mut hive in starts {
        match hive.wait_listening().await {
            Ok(()) => serving.push(hive),
            Err(_) => {
                let ended = hive.wait(Duration::from_secs(30)).await.unwrap();
                assert_eq!(ended.code(), Some(3), "{}", hive.stderr());
            }
        }
    }
    assert_eq!(serving.len(), 1, "one of four serves");
    let mut hive = serving.pop().unwrap();
    let downs = [command(&stage, &["down"]).spawn(), command(&stage, &["down"]).spawn()];
    for down in downs {
        let mut down = down.unwrap();
        let ended = down.wait(Duration::from_secs(30)).await.unwrap();
        // The second may find nobody any more.
        assert!(matches!(ended.code(), Some(0 | 1)), "{}", down.stderr());
    }
    assert_eq!(hive.wait(Duration::from_secs(30)).await.unwrap().code(), Some(0));
    for _ in 0..3 {
        let up = said(&stage, &["up", "--detach", "--port", "0"]).await;
        assert_eq!(up.code, Some(0), "{}", up.stderr);
        assert_eq!(said(&stage, &["doctor"]).await.code, Some(0));
        assert_eq!(said(&stage, &["down"]).await.code, Some(0));
    }
    assert_eq!(stage.up().await.state().await["hive"]["store"], "ok");
}

#[tokio::test]
async fn fault_cli_up_tells_programs_where_it_listens() {
    let stage = Stage::new().await;
    let up = said(&stage, &["--json", "up", "--detach", "--port", "0"]).await;
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    // The rig says a word of its own, before or after it.
    let told = up.stdout.lines().find(|line| line.starts_with('{')).unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    let token = told["token"].as_str().unwrap().to_owned();
    let address = told["listening"].as_str().unwrap();
    assert_eq!(told["home"], stage.home().to_str().unwrap());
    assert!(told["link"].as_str().unwrap().starts_with(address), "{told}");
    let lock = fs::read_to_string(stage.home().join("run/lock")).unwrap();
    assert_eq!(told["pid"].to_string(), lock.trim());
    let api = Api::tcp(address, Some(&token)).unwrap();
    let state = api.get("/api/v1/state").await.unwrap().good().unwrap();
    assert_eq!(state["hive"]["store"], "ok");
    assert_eq!(said(&stage, &["down"]).await.code, Some(0));
}
