//! A person decides: the call waits, survives what happens meanwhile, and runs exactly once.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::Answer;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

impl Play {
    /// Open questions, the newest first.
    pub async fn questions(&self) -> Vec<Value> {
        let page = self.api().get("/api/v1/approvals").await.unwrap().good().unwrap();
        page["approvals"].as_array().unwrap().clone()
    }

    /// The only open question, once there is one.
    pub async fn question(&self) -> Value {
        let asked = wait::until_async("a question", PATIENCE, async || {
            let mut open = self.questions().await;
            assert!(open.len() < 2, "{open:?}");
            open.pop()
        });
        asked.await.unwrap()
    }

    pub async fn answer(&self, question: &Value, decision: &str) -> Answer {
        self.decision(question, json!({"decision": decision})).await
    }

    /// Answers with more than a word; the hash is what the question showed.
    pub async fn decision(&self, question: &Value, mut body: Value) -> Answer {
        if body["hash"].is_null() {
            body["hash"] = question["hash"].clone();
        }
        let path = format!("/api/v1/approvals/{}/decision", question["id"].as_str().unwrap());
        self.api().post(&path, &body).await.unwrap()
    }
}

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";

/// Asks for the command once, then says what came of it. Asked again for the step, it would ask
/// for something else.
fn wants(stage: &Stage, command: &str) {
    stage.model.push(Reply::new().text("I clean up.").tool("bash", json!({"command": command})));
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => Reply::new().tool("bash", json!({"command": "touch something-else"})),
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
}

#[tokio::test]
async fn gate_approved_call_runs_once_after_a_kill() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.write("teams/main/work/build/out.o", "old");
    wants(&stage, "rm -rf build && echo gone >> log");
    let mut play = stage.up().await;
    let item = play.item("main", "main", "clean up").await;
    play.until_state("main", &item, "waiting").await;
    let asked = play.question().await;
    assert_eq!(asked["shown"], "command: rm -rf build && echo gone >> log");
    let why = "asked for by teams/main/config.yaml:3: ask bash";
    assert!(asked["why"]["why"].as_str().unwrap().contains(why), "{asked}");
    assert_eq!(asked["files"][0]["path"], "build");
    assert_eq!(asked["class"], "run");
    let me = asked["asked_by"][0].clone();
    assert!(me.as_str().unwrap().starts_with("token:"), "{me}");
    play.hive.kill().await.unwrap();

    let play = stage.up().await;
    let again = play.question().await;
    assert_eq!(again, asked, "the question is the same after a restart");
    assert!(stage.home().join("teams/main/work/build/out.o").exists());
    let answered = play.answer(&asked, "approve").await.good().unwrap();
    assert_eq!((&answered["state"], &answered["decision"]["by"]), (&json!("approved"), &me));
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["response"]["content"], "it said: [exit code 0]", "{ended}");
    let work = stage.home().join("teams/main/work");
    assert!(!work.join("build").exists() && !work.join("something-else").exists());
    assert_eq!(fs::read_to_string(work.join("log")).unwrap(), "gone\n", "once");
    // The model was asked once before the question and once after the answer.
    assert_eq!(stage.model.requests().len(), 2);
    let path = format!("/api/v1/approvals/{}", asked["id"].as_str().unwrap());
    let used = play.api().get(&path).await.unwrap().good().unwrap();
    assert!(used["decision"]["used"].is_i64(), "{used}");
}

/// What happens between the question and the answer.
type Change = fn(&Stage);

/// Every one of these is something the person did not see: it is asked again, and runs only then.
#[tokio::test]
async fn gate_what_changed_after_the_question_is_asked_again() {
    let work = |stage: &Stage| stage.home().join("teams/main/work");
    let table: &[(&str, Change)] = &[
        ("script.sh", |stage| stage.write("teams/main/work/script.sh", "echo other >> log")),
        ("link", |stage| {
            let work = stage.home().join("teams/main/work");
            stage.write("teams/main/work/other.sh", "echo linked >> log");
            fs::remove_file(work.join("link")).unwrap();
            symlink("other.sh", work.join("link")).unwrap();
        }),
        ("missing.sh", |stage| stage.write("teams/main/work/missing.sh", "echo new >> log")),
        ("its folder", |stage| {
            let place = stage.folder().join("elsewhere");
            fs::create_dir_all(&place).unwrap();
            fs::copy(stage.home().join("teams/main/work/script.sh"), place.join("script.sh"))
                .unwrap();
            fs::copy(place.join("script.sh"), place.join("link")).unwrap();
            let config = format!("{ASKS}workspace: {}\n", place.display());
            stage.write("teams/main/config.yaml", &config);
        }),
    ];
    for (what, change) in table {
        let stage = Stage::new().await;
        stage.write("teams/main/config.yaml", ASKS);
        stage.write("teams/main/work/script.sh", "echo first >> log");
        symlink("script.sh", work(&stage).join("link")).unwrap();
        wants(&stage, "sh script.sh; sh link; sh missing.sh");
        let mut play = stage.up().await;
        let item = play.item("main", "main", "go").await;
        let asked = play.question().await;
        play.hive.kill().await.unwrap();
        change(&stage);
        let play = stage.up().await;
        play.answer(&asked, "approve").await.good().unwrap();
        let again = play.question().await;
        assert_ne!((&again["id"], &again["hash"]), (&asked["id"], &asked["hash"]), "{what}");
        let waits = play.state().await["turns"][0]["waiting_for"].clone();
        let said = waits.as_str().unwrap();
        assert!(said.starts_with("approval of bash again") && said.contains(what), "{said}");
        assert!(!work(&stage).join("log").exists(), "{what}: nothing ran");
        let path = format!("/api/v1/approvals/{}", asked["id"].as_str().unwrap());
        let unused = play.api().get(&path).await.unwrap().good().unwrap();
        assert_eq!(
            (&unused["state"], &unused["decision"]["used"]),
            (&json!("approved"), &Value::Null)
        );
        play.answer(&again, "approve").await.good().unwrap();
        play.ended("main", &item).await;
    }
}

#[tokio::test]
async fn gate_answers_by_the_wrong_person_twice_late_or_as_talk_are_refused() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    let wanted = || Reply::new().tool("bash", json!({"command": "echo ran >> log"}));
    stage.model.push(wanted());
    stage.model.answer_with(|_| Reply::say("heard"));
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "go").await.unwrap();
    let asked = play.question().await;
    let id = asked["id"].as_str().unwrap().to_owned();
    // As talk: an unknown command, and a message that waits like any other.
    client.say("m2", &format!("/approve {id}")).await.unwrap();
    let error = client.find("a refusal", |frame| frame["type"] == "error").await.unwrap();
    assert_eq!(error["code"], "unknown_command", "{error}");
    client.say("m3", "yes, do it").await.unwrap();
    client.find("ack of m3", |frame| frame["message_id"] == "m3").await.unwrap();
    // By others: every role but the operator's.
    for role in ["user", "viewer", "channel", "agent"] {
        let mut body = json!({"name": role, "role": role});
        match role {
            "channel" => body["prefix"] = "discord:".into(),
            "agent" => body["agent"] = "main".into(),
            _ => {}
        }
        let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
        let api = play.hive.api(made["token"].as_str()).unwrap();
        let wish = json!({"decision": "approve", "hash": asked["hash"]});
        let path = format!("/api/v1/approvals/{id}/decision");
        // A user does not see what is asked in the conversations of others.
        let refused = if role == "user" { 404 } else { 403 };
        assert_eq!(api.post(&path, &wish).await.unwrap().status, refused, "{role}");
    }
    // About something else than what was shown.
    let other = json!({"decision": "approve", "hash": "0000"});
    let refused = play.decision(&asked, other).await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("changed")));
    assert_eq!(play.questions().await.len(), 1);
    // Through the socket, once.
    let frame = json!({"type": "approve", "id": id, "decision": "deny", "note": "not today",
                       "hash": asked["hash"]});
    client.send(&frame).await.unwrap();
    let done = client.find("the answer", |frame| frame["type"] == "approval").await.unwrap();
    assert_eq!(
        (&done["approval"]["state"], &done["approval"]["decision"]["from"]),
        (&json!("denied"), &json!("websocket"))
    );
    for decision in ["approve", "deny"] {
        let late = play.answer(&asked, decision).await;
        assert_eq!((late.status, &late.json["code"]), (409, &json!("already_decided")));
        let detail = late.json["detail"].as_str().unwrap();
        assert!(
            detail.contains("was denied by token:") && detail.contains("websocket"),
            "{detail}"
        );
    }
    client.answer_to("m1").await.unwrap();
    assert!(!stage.home().join("teams/main/work/log").exists());
    let told = play.told("main", client.channel()).await;
    let no = "result! bash: approval_denied: the call of `bash` was not run: token:";
    assert!(told[2].starts_with(no) && told[2].contains("and says: not today"), "{told:?}");
    // Stopped before it was decided: nobody waits for it.
    stage.model.push(wanted());
    client.say("m4", "again").await.unwrap();
    let asked = play.question().await;
    client.say("m5", "/stop").await.unwrap();
    client.answer_to("m4").await.unwrap();
    let late = play.answer(&asked, "approve").await;
    assert_eq!((late.status, &late.json["code"]), (409, &json!("withdrawn")));
    assert_eq!(play.questions().await, Vec::<Value>::new());
    assert!(!stage.home().join("teams/main/work/log").exists());
}

#[tokio::test]
async fn gate_always_writes_a_rule_and_answers_what_it_covers() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", &format!("# mine\n{ASKS}"));
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => Reply::new().tool(
            "bash",
            json!({"command": request.last_user_text().rsplit('\n')
            .next().unwrap()}),
        ),
        _ => Reply::say("done"),
    });
    let play = stage.up().await;
    let first = play.item("main", "one", "echo a b").await;
    let asked = play.question().await;
    let second = play.item("main", "two", "echo c").await;
    play.until_state("main", &second, "waiting").await;
    let third = play.item("main", "three", "date").await;
    play.until_state("main", &third, "waiting").await;
    let part = json!({"text": "echo a b", "patterns": ["echo a b $", "echo a", "echo"]});
    assert_eq!(asked["commands"], json!([part]));
    let id = asked["id"].as_str().unwrap();
    let covers = format!("/api/v1/approvals/{id}/covers?patterns=%5B%22echo%22%5D");
    let covers = play.api().get(&covers).await.unwrap().good().unwrap();
    assert_eq!(covers["covers"], true);
    let others = covers["others"].as_array().unwrap();
    assert_eq!((others.len(), &others[0]["session_key"]), (1, &json!("two")));
    // A pattern that is not about the call answers nothing, and is refused.
    let wrong = play
        .decision(
            &asked,
            json!({"decision": "approve", "scope": "always",
                                             "patterns": ["ls"]}),
        )
        .await;
    assert_eq!((wrong.status, &wrong.json["code"]), (409, &json!("still_asked")));
    let always = json!({"decision": "approve", "scope": "always", "patterns": ["echo"]});
    play.decision(&asked, always).await.good().unwrap();
    for item in [&first, &second] {
        assert_eq!(play.ended("main", item).await["response"]["content"], "done");
    }
    // The next of its kind is not asked about; others are.
    let fourth = play.item("main", "four", "echo d").await;
    assert_eq!(play.ended("main", &fourth).await["response"]["content"], "done");
    assert_eq!(play.questions().await.len(), 1, "the one about date");
    let config = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
    let rule = r#"  - {effect: allow, tool: "bash", command: "echo"}"#;
    assert!(config.starts_with("# mine\n") && config.contains(rule), "{config}");
    let log = std::process::Command::new("git")
        .args(["--git-dir"])
        .arg(stage.home().join("run/config.git"))
        .args(["log", "--format=%an %s", "main"])
        .output()
        .unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    assert!(log.starts_with("token:") && log.contains("always allow: {effect: allow"), "{log}");
    // For this session only, and exactly this call.
    let date = play.question().await;
    play.decision(&date, json!({"decision": "approve", "scope": "session"})).await.good().unwrap();
    play.ended("main", &third).await;
    let again = play.item("main", "three", "date").await;
    assert_eq!(play.ended("main", &again).await["response"]["content"], "done");
    play.item("main", "five", "date").await;
    let elsewhere = play.question().await;
    assert_eq!(elsewhere["session_key"], "five");
}

#[tokio::test]
async fn gate_expired_is_not_denied_and_a_reopened_one_runs_that_call() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    wants(&stage, "echo ran >> log");
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    // A day later.
    let sql = "UPDATE approvals SET expires_at = asked_at; UPDATE turns SET available_at = \
               started_at WHERE state = 'waiting'; UPDATE lanes SET due_at = 1 WHERE due_at > 0;";
    let database = stage.home().join("run/skep.db");
    let done = std::process::Command::new("sqlite3").arg(database).arg(sql).status().unwrap();
    assert!(done.success());
    let play = stage.up().await;
    let ended = play.ended("main", &item).await;
    let said = ended["response"]["content"].as_str().unwrap();
    assert!(
        said.starts_with("it said: approval_expired: the call of `bash` was not run"),
        "{said}"
    );
    let late = play.answer(&asked, "approve").await;
    assert_eq!((late.status, &late.json["code"]), (409, &json!("expired")));
    let path = format!("/api/v1/approvals/{}/reopen", asked["id"].as_str().unwrap());
    let open = play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
    assert_eq!((&open["state"], &open["reopened"]), (&json!("open"), &json!(true)));
    let log = stage.home().join("teams/main/work/log");
    assert!(!log.exists());
    play.answer(&open, "approve").await.good().unwrap();
    play.until_history("main", "main", "the call's answer", |rows| rows.len() == 8).await;
    assert_eq!(fs::read_to_string(&log).unwrap(), "ran\n");
    let rows = play.history("main", "main").await;
    let text = |row: usize| rows[row]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text(4).contains("is approved now, by token:"), "{rows:?}");
    assert_eq!(rows[5]["content"][0]["arguments"], json!({"command": "echo ran >> log"}));
    assert!(text(6).starts_with("[exit code 0]"), "{rows:?}");
    let inbox = play.api().get("/api/v1/inbox?limit=1").await.unwrap().good().unwrap();
    assert_eq!(inbox["items"][0]["kind"], "event");
    assert_eq!(play.answer(&open, "approve").await.status, 409);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// Shown whole and safely, however it is written.
#[tokio::test]
async fn gate_questions_show_what_would_run() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    let long = format!("echo {}", "x".repeat(20_000));
    let commands = [
        (long.as_str(), long.clone()),
        ("echo \u{202e}txt.exe", "echo ‹U+202E›txt.exe".to_owned()),
        ("echo \u{1b}[2K\rrm", "echo ‹U+001B›[2K‹U+000D›rm".to_owned()),
    ];
    let play = stage.up().await;
    for (number, (command, shown)) in commands.iter().enumerate() {
        stage.model.push(Reply::new().tool("bash", json!({"command": command})));
        stage.model.push(Reply::say("ok"));
        let item = play.item("main", &format!("s{number}"), "go").await;
        let asked = play.question().await;
        assert_eq!(asked["shown"], format!("command: {shown}"));
        assert_eq!(asked["arguments"]["command"], *command);
        play.answer(&asked, "deny").await.good().unwrap();
        play.ended("main", &item).await;
    }
}

/// What waits costs rows and nothing else.
#[tokio::test]
async fn gate_a_hundred_waiting_turns_hold_nothing() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {concurrent_turns: 4}\n");
    stage.write(
        "teams/main/config.yaml",
        "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: effect}\n",
    );
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] if request.last_user_text().contains("hello") => Reply::say("hello"),
        [] => Reply::new().tool("effect", json!({"text": "x"})),
        _ => Reply::say("done"),
    });
    let play = stage.up().await;
    play.ask("main", "hello").await;
    let look = || {
        let status = fs::read_to_string(format!("/proc/{}/status", play.hive.process())).unwrap();
        let number = |key: &str| -> i64 {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (number("VmRSS:"), number("Threads:"))
    };
    let before = look();
    let mut items = Vec::new();
    for number in 0..100 {
        items.push(play.item("main", &format!("s{number}"), "go").await);
    }
    for item in &items {
        play.until_state("main", item, "waiting").await;
    }
    let state = play.state().await;
    assert_eq!(state["approvals"].as_array().unwrap().len(), 100);
    assert_eq!(state["work"]["running"], 0);
    // Slots are free, and no model is connected.
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "hello");
    assert_eq!(stage.model.in_flight(), 0);
    let after = look();
    let (grown, threads) = (after.0 - before.0, after.1 - before.1);
    println!(
        "100 waiting turns: {grown} kB more ({} kB each), {threads} threads more",
        grown / 100
    );
    assert!(grown < 100 * 100, "{grown} kB for 100 waiting turns");
    assert!(threads < 40, "{threads} threads more for 100 waiting turns");
    let page = play.api().get("/api/v1/approvals?limit=500").await.unwrap().good().unwrap();
    for question in page["approvals"].as_array().unwrap() {
        play.answer(question, "approve").await.good().unwrap();
    }
    for item in &items {
        assert_eq!(play.ended("main", item).await["response"]["content"], "done");
    }
    assert_eq!(stage.effects.total().unwrap(), 100);
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
}
