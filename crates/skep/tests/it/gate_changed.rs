//! Between a question and its answer: arguments that hooks write anew, and an agent that is not
//! what it was. What a person said yes to runs, and nothing else.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::fault_config;
use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";

/// Wants to write into `log` once, then says what came of it.
fn wants(stage: &Stage) {
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => Reply::new().tool("bash", json!({"command": "echo model >> log"})),
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
}

fn log(stage: &Stage, agent: &str) -> Option<String> {
    fs::read_to_string(stage.home().join(format!("teams/{agent}/work/log"))).ok()
}

impl Play {
    async fn approval(&self, question: &Value) -> Value {
        let path = format!("/api/v1/approvals/{}", question["id"].as_str().unwrap());
        self.api().get(&path).await.unwrap().good().unwrap()
    }

    /// Said yes to, and not run with it.
    async fn is_unused(&self, question: &Value) -> bool {
        let found = self.approval(question).await;
        found["state"] == "approved" && found["decision"]["used"].is_null()
    }
}

/// Ids of approvals that were given and never used.
async fn unused(play: &Play) -> Vec<Value> {
    let path = "/api/v1/approvals?state=unused&agent=main";
    let page = play.api().get(path).await.unwrap().good().unwrap();
    page["approvals"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
}

/// With the hive running all the time, and with one that was killed in between.
const BOTH: [bool; 2] = [false, true];

#[tokio::test]
async fn gate_arguments_that_a_hook_writes_anew_are_asked_again() {
    for killed in BOTH {
        let stage = Stage::new().await;
        stage.write("teams/main/config.yaml", ASKS);
        stage.hook("first", "before", &json!({"rewrite": {"command": "echo one >> log"}}));
        wants(&stage);
        let mut play = stage.run(stage.hooked()).await;
        let item = play.item("main", "main", "go").await;
        let asked = play.question().await;
        assert_eq!(asked["shown"], "command: echo one >> log", "as the hook left it");
        stage.hook("first", "before", &json!({"rewrite": {"command": "echo two >> log"}}));
        if killed {
            play.hive.kill().await.unwrap();
            play = stage.run(stage.hooked()).await;
        }
        play.answer(&asked, "approve").await.good().unwrap();
        let again = play.question().await;
        assert_ne!((&again["id"], &again["hash"]), (&asked["id"], &asked["hash"]));
        assert_eq!(again["arguments"], json!({"command": "echo two >> log"}));
        let waits = play.state().await["turns"][0]["waiting_for"].clone();
        assert_eq!(waits, "approval of bash again, because its arguments changed");
        assert_eq!(log(&stage, "main"), None, "nothing ran");
        assert!(play.is_unused(&asked).await);
        assert_eq!(unused(&play).await, [asked["id"].clone()]);
        // The first answer is no answer to the second question.
        let stale = json!({"decision": "approve", "hash": asked["hash"]});
        assert_eq!(play.decision(&again, stale).await.json["code"], "changed");
        play.answer(&again, "approve").await.good().unwrap();
        play.ended("main", &item).await;
        assert_eq!(log(&stage, "main").unwrap(), "two\n", "what was shown last, once");
        assert_eq!(unused(&play).await, [asked["id"].clone()], "and not the one it ran with");
        // In the trail the call stands with what ran, and with the chain of both hooks.
        let row = play.audit("outcome=ok&tool=bash").await.remove(0);
        assert_eq!(row["arguments"], json!({"command": "echo two >> log"}));
        let before = json!({"stage": "tool.before", "word": "rewritten by first"});
        assert!(row["decision"].as_array().unwrap().contains(&before), "{row}");
    }
}

/// A hook that adds to what it finds adds once, also to a call that is run much later.
#[tokio::test]
async fn gate_a_reopened_question_runs_the_call_as_the_hooks_left_it() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.hook("first", "before", &json!({"append": "; echo checked >> log"}));
    wants(&stage);
    let mut play = stage.run(stage.hooked()).await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    a_day_later(&stage);
    let play = stage.run(stage.hooked()).await;
    play.ended("main", &item).await;
    let path = format!("/api/v1/approvals/{}/reopen", asked["id"].as_str().unwrap());
    let open = play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
    play.answer(&open, "approve").await.good().unwrap();
    play.until_history("main", "main", "the call's answer", |rows| rows.len() == 8).await;
    assert_eq!(play.questions().await, Vec::<Value>::new());
    assert_eq!(log(&stage, "main").unwrap(), "model\nchecked\n");
    let row = play.audit("outcome=ok&tool=bash").await.remove(0);
    assert_eq!(row["arguments"], asked["arguments"]);
}

/// At its time, and not at the next look at everything that is old.
#[tokio::test]
async fn gate_a_reopened_question_expires_at_its_time() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    wants(&stage);
    let mut play = stage.up().await;
    let mut asked = Vec::new();
    for session in ["one", "two"] {
        let item = play.item("main", session, "go").await;
        play.until_state("main", &item, "waiting").await;
        asked.push((play.questions().await.remove(0), item));
    }
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    a_day_later(&stage);
    let mut play = stage.up().await;
    let id = |at: usize| asked[at].0["id"].as_str().unwrap();
    let reopen = async |play: &Play, at: usize| {
        play.ended("main", &asked[at].1).await;
        let path = format!("/api/v1/approvals/{}/reopen", id(at));
        let open = play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
        assert_eq!(open["state"], "open");
    };
    let soon = |at: usize| {
        let soon = "strftime('%s', 'now') * 1000 + 2000";
        sqlite(
            &stage,
            &format!("UPDATE approvals SET expires_at = {soon} WHERE id = '{}'", id(at)),
        );
    };
    // While the hive runs: the second one's reopening has it look when the next is over.
    reopen(&play, 0).await;
    soon(0);
    reopen(&play, 1).await;
    until_expired(&play, &asked[0].0).await;
    assert_eq!(play.approval(&asked[1].0).await["state"], "open");
    // And over a restart.
    // Written while the hive runs: sqlite3 on a killed hive's database would take its log away.
    soon(1);
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    until_expired(&play, &asked[1].0).await;
    assert_eq!(log(&stage, "main"), None);
}

async fn until_expired(play: &Play, question: &Value) {
    let expired = wait::until_async("its time to be over", PATIENCE, async || {
        (play.approval(question).await["state"] == "expired").then_some(())
    });
    expired.await.unwrap();
    let told = play.events().await.into_iter().rev();
    let mut told = told.filter(|event| event["type"] == "approval_decided");
    let event = told.find(|event| event["approval"] == question["id"]).unwrap();
    assert_eq!(event["state"], "expired", "{event}");
}

/// Every question is past its time.
pub fn a_day_later(stage: &Stage) {
    let sql = "UPDATE approvals SET expires_at = asked_at; UPDATE turns SET available_at = \
               started_at WHERE state = 'waiting'; UPDATE lanes SET due_at = 1 WHERE due_at > 0;";
    sqlite(stage, sql);
}

fn sqlite(stage: &Stage, sql: &str) {
    let database = stage.home().join("run/skep.db");
    let done = std::process::Command::new("sqlite3").arg(database).arg(sql).status().unwrap();
    assert!(done.success(), "{sql}");
}

enum Then {
    /// Another question, and nothing ran.
    AskedAgain,
    /// The item ends with these words, and nothing ran.
    Says(&'static str),
}

/// What is done to the agent `helper`, in steps that each come into force.
type Change = &'static [fn(&Stage)];

fn helper(stage: &Stage, config: &str) {
    stage.write("teams/helper/config.yaml", config);
}

const CHANGES: &[(&str, Change, Then)] = &[
    (
        "a tool taken away",
        &[|stage| helper(stage, &ASKS.replace("'*'", "read"))],
        Then::Says("it said: not_listed: the tool `bash` is not on this agent's list"),
    ),
    (
        "denied by now",
        &[|stage| helper(stage, &ASKS.replace("effect: ask", "effect: deny"))],
        Then::Says("it said: policy_deny: the call of `bash` was not run"),
    ),
    (
        "a policy that cannot be read",
        &[|stage| helper(stage, &ASKS.replace("effect: ask", "effect: perhaps"))],
        Then::Says("`perhaps` is not known here; expected one of allow, ask, deny"),
    ),
    (
        "other walls",
        &[|stage| helper(stage, &format!("{ASKS}sandbox: {{level: host}}\n"))],
        Then::AskedAgain,
    ),
    (
        "a wider network",
        &[|stage| helper(stage, &format!("{ASKS}sandbox: {{network: full}}\n"))],
        Then::AskedAgain,
    ),
    (
        "one host more",
        &[|stage| helper(stage, &format!("{ASKS}network: {{hosts: [one.test]}}\n"))],
        Then::AskedAgain,
    ),
    (
        "made anew",
        &[|stage| stage.take_out("teams/helper"), |stage| helper(stage, ASKS)],
        Then::AskedAgain,
    ),
    ("removed", &[|stage| stage.take_out("teams/helper")], Then::Says("agent_unavailable")),
    (
        "with another name",
        &[|stage| {
            let teams = stage.home().join("teams");
            fs::rename(teams.join("helper"), teams.join("helper-two")).unwrap();
        }],
        Then::Says("agent_unavailable"),
    ),
];

#[tokio::test]
async fn gate_an_agent_that_changed_after_the_question_does_not_run_the_call() {
    for (what, change, then) in CHANGES {
        for killed in BOTH {
            let what = format!("{what}, killed: {killed}");
            let stage = Stage::new().await;
            helper(&stage, ASKS);
            wants(&stage);
            let mut play = stage.up().await;
            let item = play.item("helper", "main", "go").await;
            let asked = play.question().await;
            if killed {
                play.hive.kill().await.unwrap();
                change.iter().for_each(|step| step(&stage));
                play = stage.up().await;
            } else {
                for step in *change {
                    fault_config::noticed(&play, || step(&stage)).await;
                }
            }
            let answered = play.answer(&asked, "approve").await;
            match then {
                Then::AskedAgain => {
                    answered.good().unwrap();
                    let again = play.question().await;
                    assert_ne!(again["hash"], asked["hash"], "{what}");
                    let waits = play.state().await["turns"][0]["waiting_for"].clone();
                    let said = waits.as_str().unwrap();
                    assert!(said.contains("again, because its agent changed"), "{what}: {said}");
                    assert!(play.is_unused(&asked).await, "{what}");
                }
                Then::Says(words) => {
                    let ended = play.inbox_ended(&item).await;
                    assert!(ended.to_string().contains(words), "{what}: {ended}");
                    assert_eq!(play.questions().await, Vec::<Value>::new(), "{what}");
                }
            }
            for agent in ["helper", "helper-two"] {
                assert_eq!(log(&stage, agent), None, "{what}: nothing ran");
            }
        }
    }
}

/// A no is a no, also to a call that nobody would be asked about any more.
#[tokio::test]
async fn gate_a_call_that_was_denied_does_not_run_though_the_policy_allows_it_by_now() {
    for killed in BOTH {
        let stage = Stage::new().await;
        stage.write("teams/main/config.yaml", ASKS);
        wants(&stage);
        let mut play = stage.up().await;
        let item = play.item("main", "main", "go").await;
        let asked = play.question().await;
        let allow = || {
            let allows = ASKS.replace("effect: ask", "effect: allow");
            stage.write("teams/main/config.yaml", &allows);
        };
        if killed {
            play.hive.kill().await.unwrap();
            allow();
            play = stage.up().await;
        } else {
            fault_config::change(&play, allow).await;
        }
        play.answer(&asked, "deny").await.good().unwrap();
        let ended = play.ended("main", &item).await;
        let said = ended["response"]["content"].as_str().unwrap();
        assert!(said.starts_with("it said: approval_denied: "), "{said}");
        assert_eq!(log(&stage, "main"), None);
    }
}
