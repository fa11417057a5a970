//! A disk whose syncs fail, drag or hang, and one that is full: what clients are told meanwhile,
//! what goes on all the same, and that everything recovers without a restart.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::http::Answer;
use skep_testkit::model::Ending;
use skep_testkit::shim::DiskError;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, Shim, WsClient, http, locate};
use tokio_tungstenite::tungstenite::Message;

use crate::fault_start::private_mounts;
use crate::stage::{Play, Stage};

/// A hive whose disk obeys the test.
struct Disk {
    stage: Stage,
    shim: Shim,
    play: Play,
}

impl Disk {
    async fn new() -> Self {
        Self::with("limits: { drain_seconds: 1 }\n").await
    }

    async fn with(settings: &str) -> Self {
        let stage = Stage::new().await;
        stage.write("skep.yaml", settings);
        let shim = Shim::new(stage.home()).unwrap();
        let play = stage.run(stage.start().shim(&shim)).await;
        Self { stage, shim, play }
    }

    /// Every answer repeats what was said.
    async fn echoing() -> Self {
        let disk = Self::new().await;
        disk.stage.model.answer_with(|asked| Reply::say(&echo(&asked.last_user_text())));
        disk
    }

    /// A turn in session `held` whose model has been asked and will want one effect.
    async fn with_turn_about_to_act(settings: &str) -> (Self, String) {
        let disk = Self::with(settings).await;
        disk.stage.model.answer_with(|asked| match asked.steps_done() {
            0 => Reply::call("effect", json!({"text": "once"})).gate_first("act"),
            _ => Reply::say("acted"),
        });
        let item = disk.play.tell("main", "held", "act, please").await;
        disk.stage.model.wait_for_request(1).await.unwrap();
        (disk, item["item_id"].as_str().unwrap().to_owned())
    }

    fn effects(&self) -> usize {
        self.stage.effects.total().unwrap()
    }

    async fn store_says(&self, word: &str) {
        wait::until_async(&format!("store: {word}"), PATIENCE, || async {
            (self.play.state().await["hive"]["store"] == word).then_some(())
        })
        .await
        .unwrap();
    }

    /// Everything that only reads is answered.
    async fn reads_work(&self) {
        let api = self.play.api();
        for path in [
            "/api/v1/health",
            "/api/v1/ready",
            "/api/v1/state",
            "/api/v1/agents",
            "/api/v1/inbox",
            "/api/v1/agents/main/history?session_key=held",
        ] {
            let answer = api.get(path).await.unwrap();
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        }
    }
}

fn echo(text: &str) -> String {
    format!("you said: {}", text.lines().last().unwrap_or_default())
}

/// Sends with a key of its own; the answer whatever it is.
async fn post(play: &Play, session: &str, key: &str, text: &str) -> Answer {
    let path = "/api/v1/agents/main/messages";
    let body = json!({"message": text, "session_key": session});
    let request = play.api().request(reqwest::Method::POST, path).header("Idempotency-Key", key);
    http::answer(request.json(&body)).await.unwrap()
}

/// The refusal of a message on a socket: not durable, names the message.
async fn refusal(socket: &mut WsClient, id: &str) -> Value {
    let named = |frame: &Value| frame["type"] == "error" && frame["message_id"] == id;
    let refused = socket.find("a refusal", named).await.unwrap();
    assert_eq!(refused["seq"], Value::Null, "{refused}");
    refused
}

fn user_texts(history: &[Value]) -> Vec<&str> {
    let users = history.iter().filter(|row| row["role"] == "user");
    users.map(|row| row["content"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn fault_failed_sync_leaves_the_outcome_open_and_the_same_id_settles_it() {
    let disk = Disk::echoing().await;
    let play = &disk.play;
    let mut socket = play.ws().await;
    disk.shim.fail_syncs(DiskError::InputOutput).unwrap();
    let refused = post(play, "main", "key-1", "over HTTP").await;
    assert_eq!((refused.status, &refused.json["code"]), (503, &json!("store_unsynced")));
    let told = refused.json["detail"].as_str().unwrap();
    assert!(told.contains("send again with the same id"), "{told}");
    assert_eq!(refused.headers["retry-after"], "1");
    socket.say("frame-1", "over the socket").await.unwrap();
    let refused = refusal(&mut socket, "frame-1").await;
    assert_eq!(refused["code"], "store_unsynced");
    assert!(refused["error"].as_str().unwrap().contains("the same id"), "{refused}");
    disk.reads_work().await;
    disk.store_says("store_unsynced").await;
    disk.shim.heal().unwrap();

    let receipt = post(play, "main", "key-1", "over HTTP").await.good().unwrap();
    let item = receipt["item_id"].as_str().unwrap();
    let ended = play.ended("main", item).await;
    assert_eq!(ended["response"]["content"], "you said: over HTTP");
    let again = post(play, "main", "key-1", "over HTTP").await.good().unwrap();
    assert_eq!(again["item_id"], item, "the same id is the same message");
    socket.say("frame-1", "over the socket").await.unwrap();
    let answer = socket.answer_to("frame-1").await.unwrap();
    assert_eq!(answer["content"], "you said: over the socket");
    let kinds: Vec<_> = socket.durable().values().map(|frame| frame["type"].clone()).collect();
    assert_eq!(kinds, ["ack", "response"]);
    assert_eq!(user_texts(&play.history("main", "main").await), ["over HTTP"]);
    let channel = socket.channel().to_owned();
    assert_eq!(user_texts(&play.history("main", &channel).await), ["over the socket"]);
    assert_eq!(disk.stage.model.requests().len(), 2);
    assert_eq!(play.state().await["hive"]["store"], "ok");
}

/// After a failed sync the row may be there or not; sent again it is there once.
#[tokio::test]
async fn fault_failed_sync_then_kill_keeps_one_message_per_id() {
    let disk = Disk::echoing().await;
    disk.shim.fail_syncs(DiskError::InputOutput).unwrap();
    for key in ["key-1", "key-2"] {
        assert_eq!(post(&disk.play, key, key, "once").await.json["code"], "store_unsynced");
    }
    let Disk { stage, shim, mut play } = disk;
    play.hive.kill().await.unwrap();
    shim.prepare(skep_testkit::shim::End::Never).unwrap();
    let play = stage.run(stage.start().shim(&shim)).await;
    for key in ["key-1", "key-2"] {
        let receipt = post(&play, key, key, "once").await.good().unwrap();
        let ended = play.ended("main", receipt["item_id"].as_str().unwrap()).await;
        assert_eq!(ended["response"]["content"], "you said: once");
        assert_eq!(user_texts(&play.history("main", key).await), ["once"]);
    }
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn fault_failed_sync_holds_a_running_turn_until_it_can_go_on() {
    let (disk, item) = Disk::with_turn_about_to_act("").await;
    disk.shim.fail_syncs(DiskError::InputOutput).unwrap();
    let failed = disk.shim.failed().unwrap();
    disk.stage.model.gate("act").release();
    disk.shim.wait_failed(failed, 2).await.unwrap();
    assert_eq!(disk.effects(), 0, "an effect needs its mark on the disk first");
    disk.shim.heal().unwrap();
    let ended = disk.play.ended("main", &item).await;
    assert_eq!(ended["response"]["content"], "acted");
    assert_eq!(disk.effects(), 1);
    assert_eq!(disk.stage.model.requests().len(), 2, "no step was asked for twice");
}

#[tokio::test]
async fn fault_hung_sync_blocks_writers_only() {
    let disk = Disk::new().await;
    let (play, model) = (&disk.play, &disk.stage.model);
    let text = Reply::new().open_text().delta("one ").gate("more").delta("two ").gate("end");
    model.push(text.delta("three").close());
    let target = play.target().query("stream=true");
    let mut socket = WsClient::connect(&target).await.unwrap();
    socket.say("talk", "tell me").await.unwrap();
    let delta = |text: &'static str| {
        move |frame: &Value| frame["type"] == "delta" && frame["content"] == text
    };
    socket.find("the first words", delta("one ")).await.unwrap();

    disk.shim.hang_syncs().unwrap();
    let (url, token) = (play.hive.url().unwrap().to_owned(), play.token.clone());
    let writer = tokio::spawn(async move {
        let api = http::Api::tcp(&url, Some(&token)).unwrap();
        let body = json!({"message": "/help", "session_key": "other"});
        api.post("/api/v1/agents/main/messages", &body).await.unwrap()
    });
    disk.shim.wait_hanging().await.unwrap();
    model.gate("more").release();
    socket.find("words while the disk hangs", delta("two ")).await.unwrap();
    disk.reads_work().await;
    let channel = socket.channel().to_owned();
    let page = format!("/api/v1/agents/main/history?session_key={channel}");
    let active = play.api().get(&page).await.unwrap().good().unwrap();
    assert_eq!(active["active"]["content"][0]["text"], "one two ");
    let status = command(&disk.stage, &["status"]).finish().await.unwrap();
    assert!(status.stdout.contains("1 running"), "{}{}", status.stdout, status.stderr);
    socket.send_raw(Message::text("no frame")).await.unwrap();
    let answered = socket.next_of("error").await.unwrap();
    assert_eq!(answered["seq"], Value::Null, "the socket listens and speaks");

    socket.send(&json!({"content": "/stop", "id": "stop"})).await.unwrap();
    assert_eq!(model.wait_for_end(1).await.unwrap(), Ending::HungUp);
    assert!(!writer.is_finished(), "what is to be kept waits for the disk");
    disk.shim.heal().unwrap();
    assert_eq!(writer.await.unwrap().status, 202);
    let ended = socket.answer_to("talk").await.unwrap();
    assert_eq!((&ended["type"], &ended["code"]), (&json!("error"), &json!("cancelled")));
    let history = play.history("main", &channel).await;
    let said = &history[1];
    assert_eq!(
        (&said["content"][0]["text"], &said["meta"]["stopReason"]),
        (&json!("one two "), &json!("cancelled"))
    );
}

#[tokio::test]
async fn fault_slow_sync_blocks_nothing_else() {
    let disk = Disk::echoing().await;
    let play = &disk.play;
    disk.shim.delay_syncs(Duration::from_secs(2)).unwrap();
    let posts = (0..8).map(|n| {
        let key = format!("slow-{n}");
        async move { post(play, &key, &key, "hello").await }
    });
    let writing = futures_util::future::join_all(posts);
    let mut writing = std::pin::pin!(writing);
    tokio::select! {
        biased;
        _ = &mut writing => panic!("answered before the disk had it"),
        () = async {
            for _ in 0..3 {
                disk.reads_work().await;
            }
        } => {}
    }
    let receipts = writing.await;
    assert!(receipts.iter().all(|answer| answer.status == 202), "{receipts:?}");
    disk.shim.heal().unwrap();
    for (n, receipt) in receipts.iter().enumerate() {
        let ended = play.ended("main", receipt.json["item_id"].as_str().unwrap()).await;
        assert_eq!(ended["response"]["content"], "you said: hello", "slow-{n}");
    }
}

#[tokio::test]
async fn fault_full_disk_refuses_new_messages_and_holds_the_running_turn() {
    let (disk, item) = Disk::with_turn_about_to_act("").await;
    let play = &disk.play;
    let mut socket = play.ws().await;
    disk.shim.fail_writes(DiskError::NoSpace).unwrap();
    let refused = post(play, "other", "key-1", "hello").await;
    assert_eq!((refused.status, &refused.json["code"]), (507, &json!("disk_full")));
    assert!(refused.json["detail"].as_str().unwrap().contains("free space and send again"));
    socket.say("frame-1", "hello").await.unwrap();
    assert_eq!(refusal(&mut socket, "frame-1").await["code"], "disk_full");

    let failed = disk.shim.failed().unwrap();
    disk.stage.model.gate("act").release();
    disk.shim.wait_failed(failed, 2).await.unwrap();
    disk.store_says("disk_full").await;
    disk.reads_work().await;
    assert_eq!(play.state().await["turns"][0]["state"], "running");
    assert_eq!(disk.effects(), 0, "no tool starts on a full disk");

    disk.shim.heal().unwrap();
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["response"]["content"], "acted");
    assert_eq!(disk.effects(), 1);
    disk.stage.model.answer_with(|asked| Reply::say(&echo(&asked.last_user_text())));
    socket.say("frame-1", "hello").await.unwrap();
    assert_eq!(socket.answer_to("frame-1").await.unwrap()["content"], "you said: hello");
    assert_eq!(post(play, "other", "key-1", "hello").await.status, 202);
    assert_eq!(play.state().await["hive"]["store"], "ok");
}

#[tokio::test]
async fn fault_full_disk_turn_can_be_stopped_while_it_is_held() {
    let (disk, item) = Disk::with_turn_about_to_act("").await;
    disk.shim.fail_writes(DiskError::NoSpace).unwrap();
    let failed = disk.shim.failed().unwrap();
    disk.stage.model.gate("act").release();
    disk.shim.wait_failed(failed, 1).await.unwrap();
    let stop = post(&disk.play, "held", "stop-1", "/stop").await;
    assert_eq!(stop.json["code"], "disk_full", "the wish cannot be put on record");
    disk.shim.heal().unwrap();
    let ended = disk.play.ended("main", &item).await;
    assert_eq!(
        (&ended["state"], &ended["error"]["code"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(disk.effects(), 0, "stopped before it began");
    let history = disk.play.history("main", "held").await;
    let last = history.last().unwrap();
    assert_eq!(last["role"], "toolResult", "{history:?}");
    assert!(last["content"][0]["text"].as_str().unwrap().starts_with("cancelled: "), "{last}");
}

#[tokio::test]
async fn fault_full_disk_turn_runs_out_of_its_time_while_it_is_held() {
    let (disk, item) = Disk::with_turn_about_to_act("limits: { turn_seconds: 2 }\n").await;
    disk.shim.fail_writes(DiskError::NoSpace).unwrap();
    disk.stage.model.gate("act").release();
    let failed = disk.shim.failed().unwrap();
    // One try a second: the third comes when the two seconds are over.
    disk.shim.wait_failed(failed, 4).await.unwrap();
    disk.shim.heal().unwrap();
    let ended = disk.play.ended("main", &item).await;
    assert_eq!(ended["error"]["code"], "limit_time");
    assert_eq!(disk.effects(), 0);
}

/// A disk that hangs or is full keeps no process from ending, and nothing is lost by it.
#[tokio::test]
async fn fault_bad_disk_does_not_keep_the_hive_from_stopping() {
    for full in [false, true] {
        let (disk, item) = Disk::with_turn_about_to_act("limits: { drain_seconds: 1 }\n").await;
        match full {
            true => disk.shim.fail_writes(DiskError::NoSpace).unwrap(),
            false => disk.shim.hang_syncs().unwrap(),
        }
        let failed = disk.shim.failed().unwrap();
        disk.stage.model.gate("act").open();
        match full {
            true => disk.shim.wait_failed(failed, 1).await.unwrap(),
            false => disk.shim.wait_hanging().await.unwrap(),
        }
        let Disk { stage, shim, mut play } = disk;
        let asked = tokio::time::Instant::now();
        play.hive.terminate().unwrap();
        let ended = play.hive.wait(PATIENCE).await.unwrap();
        let took = asked.elapsed();
        assert_eq!(ended.code(), Some(0), "full: {full}, {}", play.hive.stderr());
        // One second to drain, five to end; the rest is for a loaded machine.
        assert!(took < Duration::from_secs(8), "full: {full}, it took {took:?}");
        shim.prepare(skep_testkit::shim::End::Never).unwrap();
        let play = stage.run(stage.start().shim(&shim)).await;
        let ended = play.ended("main", &item).await;
        assert_eq!(ended["state"], "done", "full: {full}, {ended}");
        assert!(stage.effects.repeated().unwrap().is_empty());
    }
}

/// A person's answer is kept or refused, never half of it; and nothing runs that leaves no row.
#[tokio::test]
async fn fault_full_disk_keeps_questions_open_and_no_call_from_the_trail() {
    let mut disk = Disk::with("").await;
    let asks = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: 'effec*'}\n";
    disk.stage.write("teams/main/config.yaml", asks);
    let asked = wait::until_async("the rule", PATIENCE, async || {
        let policy = disk.play.api().get("/api/v1/agents/main/policy").await.unwrap();
        policy.json["rules"].get(0).map(drop)
    });
    asked.await.unwrap();
    disk.stage.model.answer_with(|asked| match asked.steps_done() {
        0 => Reply::call("effect", json!({"text": "once", "ms": 1500})),
        _ => Reply::say("acted"),
    });
    let item = disk.play.item("main", "main", "act").await;
    let question = disk.play.question().await;
    disk.shim.fail_writes(DiskError::NoSpace).unwrap();
    for scope in ["once", "session", "always"] {
        let body = json!({"decision": "approve", "scope": scope});
        let refused = disk.play.decision(&question, body).await;
        assert!([409, 507].contains(&refused.status), "{scope}: {}", refused.text);
    }
    let open = disk.play.questions().await;
    assert_eq!(open, std::slice::from_ref(&question), "it is open as before");
    let written = fs::read_to_string(disk.stage.home().join("teams/main/config.yaml")).unwrap();
    assert_eq!((written.as_str(), disk.effects()), (asks, 0));
    disk.shim.heal().unwrap();
    disk.store_says("ok").await;
    disk.play.answer(&question, "approve").await.good().unwrap();
    // Full again while the call runs: what it did cannot be written down, and then comes a crash.
    let ran = wait::until_true("the effect", PATIENCE, || disk.effects() == 1);
    ran.await.unwrap();
    disk.shim.fail_writes(DiskError::NoSpace).unwrap();
    let failed = disk.shim.failed().unwrap();
    disk.shim.wait_failed(failed, 2).await.unwrap();
    disk.play.hive.kill().await.unwrap();
    let play = disk.stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "acted");
    assert_eq!(disk.stage.effects.total().unwrap(), 1);
    let rows = play.api().get("/api/v1/audit?tool=effect").await.unwrap().good().unwrap();
    let told = rows["rows"].as_array().unwrap().iter();
    let told: Vec<Value> = told.map(|row| json!([row["kind"], row["outcome"]])).collect();
    assert_eq!(told, [json!(["call", "unknown"]), json!(["decision", "approved"])]);
    let verdict = play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["ok"], true, "{verdict}");
}

/// The same on a real file system of a few megabytes, filled to the last byte.
#[tokio::test]
async fn fault_full_disk_on_a_real_small_file_system() {
    let flags = private_mounts();
    let stage = Stage::new().await;
    let small = stage.folder().join("small");
    fs::create_dir(&small).unwrap();
    let script = "mount -t tmpfs -o size=4m none \"$1\" && cp -a \"$2\"/. \"$1\" \
                  && exec \"$3\" up --home \"$1\" --port 0";
    let start = Start::new(Path::new("unshare"), &small)
        .env("RIG_EFFECTS", stage.effects.path())
        .env("RIG_KEY", "key-of-the-rig");
    let words = [flags, "sh", "-c", script, "sh"];
    let start = words.iter().fold(start, |start, word| start.argument(*word));
    let start = start.argument(&small).argument(stage.home()).argument(locate::rig().unwrap());
    let play = stage.run(start).await;
    stage.model.answer_with(|asked| match (asked.last_user_text(), asked.steps_done()) {
        (text, 0) if text.ends_with("act") => {
            Reply::call("effect", json!({"text": "once"})).gate_first("act")
        }
        _ => Reply::say("done"),
    });
    let item = play.tell("main", "held", "act").await;
    stage.model.wait_for_request(1).await.unwrap();

    // Mounts of another process are seen through its root.
    let inside = format!("/proc/{}/root{}", play.hive.process(), small.display());
    let ballast = Path::new(&inside).join("ballast");
    fill(&ballast);
    let long = "x".repeat(20_000);
    let refused = post(&play, "other", "key-1", &long).await;
    assert_eq!((refused.status, &refused.json["code"]), (507, &json!("disk_full")));
    stage.model.gate("act").open();
    wait::until_async("a held turn", PATIENCE, || async {
        (play.state().await["hive"]["store"] == "disk_full"
            && play.hive.stderr().contains("a turn is held"))
        .then_some(())
    })
    .await
    .unwrap();
    assert_eq!(stage.effects.total().unwrap(), 0, "no tool starts on a full disk");
    assert_eq!(play.history("main", "held").await.len(), 1);

    fs::remove_file(&ballast).unwrap();
    let ended = play.ended("main", item["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["response"]["content"], "done");
    assert_eq!(stage.effects.total().unwrap(), 1);
    let receipt = post(&play, "other", "key-1", &long).await.good().unwrap();
    let ended = play.ended("main", receipt["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "done");
    assert_eq!(play.history("main", "other").await.len(), 2, "one message, one answer");
}

/// Takes every byte that is left.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [65536, 4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

fn command(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home());
    words.iter().fold(start, |start, word| start.argument(*word))
}
