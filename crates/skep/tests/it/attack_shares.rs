//! Somebody who takes all they can get: others go on as if nothing were, an operator most of all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::http::Api;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};
use tokio::net::TcpStream;

use crate::stage::{Play, Stage};

/// A machine under load; on a free one it is a few milliseconds.
const STARTED_WITHIN: Duration = Duration::from_secs(2);

async fn user(play: &Play, name: &str) -> (Api, String) {
    let body = json!({"name": name, "role": "user"});
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let api = play.hive.api(Some(made["token"].as_str().unwrap())).unwrap();
    (api, format!("token:{}", made["id"].as_str().unwrap()))
}

async fn tell(api: &Api, agent: &str, session: &str, text: &str) -> Value {
    let path = format!("/api/v1/agents/{agent}/messages");
    let body = json!({"message": text, "session_key": session});
    api.post(&path, &body).await.unwrap().good().unwrap()
}

async fn running(play: &Play) -> i64 {
    play.state().await["work"]["running"].as_i64().unwrap()
}

/// How long until the model was asked, after a message of an operator to another agent.
async fn operator_start(stage: &Stage, play: &Play, session: &str) -> Duration {
    let before = stage.model.requests().len();
    let sent = Instant::now();
    tell(&play.api(), "plain", session, "now").await;
    stage.model.wait_for_request(before + 1).await.unwrap();
    sent.elapsed()
}

#[tokio::test]
async fn attack_a_user_at_every_limit_does_not_delay_an_operator() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {user_storage_mib: 1}\n");
    stage.model.answer_with(|_| Reply::new().open_text().delta("x").gate("held").close());
    let play = stage.up().await;
    let (anna, her) = user(&play, "anna").await;
    for number in 0..80 {
        tell(&anna, "main", &format!("{her}/{number}"), "take a slot").await;
    }
    wait::until_async("her turns", PATIENCE, || async {
        (stage.model.requests().len() == 16).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(running(&play).await, 16, "limits.turns_per_user");
    // Her storage, too: the refusal is clear and nothing of it is kept.
    // 192 KiB of the letter x.
    let data = "eHh4".repeat(64 << 10);
    let path = "/api/v1/agents/main/messages";
    let full = wait::until_async("the refusal", PATIENCE, || async {
        let file = json!({"name": "big.txt", "data": data});
        let body =
            json!({"message": "keep", "session_key": format!("{her}/f"), "attachments": [file]});
        let answer = anna.post(path, &body).await.unwrap();
        (answer.status != 202).then_some(answer)
    });
    let full = full.await.unwrap();
    assert_eq!((full.status, &full.json["code"]), (413, &json!("user_storage")), "{}", full.text);
    let why = "more than limits.user_storage_mib (1) allows one user";
    assert!(full.text.contains(why), "{}", full.text);
    let policy = "\"storage\";q=1048576;qu=\"content-bytes\"";
    assert_eq!(full.headers["ratelimit-policy"], policy);
    let left = full.headers["ratelimit"].to_str().unwrap();
    let left: u64 = left.strip_prefix("\"storage\";r=").unwrap().parse().unwrap();
    assert!(left < 192 << 10, "{left}");
    // Three more users fill what is not kept for operators.
    let mut all = vec![(anna, her)];
    for name in ["berta", "carla", "dora"] {
        let (api, principal) = user(&play, name).await;
        for number in 0..20 {
            tell(&api, "main", &format!("{principal}/{number}"), "take a slot").await;
        }
        all.push((api, principal));
    }
    wait::until_async("their turns", PATIENCE, || async {
        (stage.model.requests().len() == 56).then_some(())
    })
    .await
    .unwrap();
    let mut times = Vec::new();
    for number in 0..8 {
        times.push(operator_start(&stage, &play, &format!("op-{number}")).await);
    }
    times.sort();
    println!("an operator's turn starts after {times:?}");
    assert!(times[7] < STARTED_WITHIN, "{times:?}");
    assert_eq!(running(&play).await, 64);
    // When turns end, everybody who waits is served, and nobody above their share.
    stage.model.gate("held").open();
    wait::until_async("the end of all", PATIENCE * 3, || async {
        let work = &play.state().await["work"];
        (work["queued"] == 0 && work["running"] == 0).then_some(())
    })
    .await
    .unwrap();
    assert!(stage.model.requests().len() >= 80 + 60 + 8);
}

#[tokio::test]
async fn attack_held_messages_survive_a_kill_and_a_change_of_the_limit() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {turns_per_user: 1}\n");
    stage.model.answer_with(|_| Reply::new().open_text().delta("x").gate("held").close());
    let mut play = stage.up().await;
    let (anna, her) = user(&play, "anna").await;
    let mut items = Vec::new();
    for number in 0..6 {
        let told = tell(&anna, "main", &format!("{her}/{number}"), "one").await;
        items.push(told["item_id"].as_str().unwrap().to_owned());
    }
    stage.model.wait_for_request(1).await.unwrap();
    assert_eq!(running(&play).await, 1);
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    stage.model.wait_for_request(2).await.unwrap();
    assert_eq!(running(&play).await, 1);
    stage.write("skep.yaml", "limits: {turns_per_user: 3}\n");
    wait::until_async("room for two more", PATIENCE, || async {
        (running(&play).await == 3).then_some(())
    })
    .await
    .unwrap();
    stage.model.gate("held").open();
    for item in items {
        assert_eq!(play.ended("main", &item).await["state"], "done");
    }
}

#[tokio::test]
async fn attack_the_local_socket_answers_while_the_network_is_flooded() {
    let stage = Stage::new().await;
    let script = stage.folder().join("few-files");
    let rig = locate::rig().unwrap();
    fs::write(&script, format!("#!/bin/sh\nulimit -n 256\nexec '{}' \"$@\"\n", rig.display()))
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let start = Start::up(&script, stage.home()).env("RIG_KEY", "rig-key-canary-1f7c");
    let play = stage.run(start.env("RIG_EFFECTS", stage.effects.path())).await;
    let address = play.hive.url().unwrap().trim_start_matches("http://").to_owned();
    let mut flood = Vec::new();
    for _ in 0..400 {
        // The kernel takes them in; the hive has places for some.
        if let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(&address)).await
        {
            flood.push(stream);
        }
    }
    assert!(flood.len() > 256, "only {} connections", flood.len());
    let socket = play.hive.socket_api().unwrap();
    stage.model.answer_with(|_| Reply::say("here"));
    for _ in 0..3 {
        let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
        let said = socket.post(path, &json!({"message": "hello"})).await.unwrap().good().unwrap();
        assert_eq!(said["response"]["content"], "here", "{said}");
    }
    let log = fs::read_to_string(stage.home().join("run/logs/skep.log")).unwrap_or_default();
    assert!(!log.contains("cannot accept a connection"), "{log}");
    drop(flood);
    let path = "/api/v1/state";
    assert_eq!(play.api().get(path).await.unwrap().status, 200, "the network is served again");
}

/// Calls that never end take a part of an agent's places, not those of others.
#[tokio::test]
async fn attack_a_user_whose_calls_hang_does_not_delay_the_calls_of_others() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 if request.last_user_text().contains("hang") => {
            Reply::call("effect", json!({"ms": 60_000}))
        }
        0 => Reply::call("look", json!({"ms": 0})),
        _ => Reply::say("done"),
    });
    let play = stage.up().await;
    let (anna, her) = user(&play, "anna").await;
    for number in 0..8 {
        tell(&anna, "main", &format!("{her}/{number}"), "hang").await;
    }
    wait::until_async("her calls", PATIENCE, || async {
        let asked = stage.model.requests().len();
        (asked == 8 && stage.effects.total().unwrap() == 3).then_some(())
    })
    .await
    .unwrap();
    let (berta, berts) = user(&play, "berta").await;
    for (api, session) in [(berta, format!("{berts}/b")), (play.api(), "op".to_owned())] {
        let path = "/api/v1/agents/main/messages?wait=true&timeout=30";
        let body = json!({"message": "look", "session_key": session});
        let ended = api.post(path, &body).await.unwrap().good().unwrap();
        assert_eq!(ended["response"]["content"], "done", "{ended}");
    }
    assert_eq!(stage.effects.total().unwrap(), 3, "her own share");
}
