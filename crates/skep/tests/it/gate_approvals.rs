//! A person decides: the call waits, survives what happens meanwhile, and runs exactly once.

use std::fs;

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
    let me = asked["asked_by"].clone();
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
