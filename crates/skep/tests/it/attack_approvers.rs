//! Who may answer a question: those whom its rule names, with the role they have now.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::{self, Answer, Api};

use crate::attack_browser::{Browser, link, sign_in};
use crate::fault_config;
use crate::stage::{Play, Stage};

const RULES: &str = "allowed_tools: ['*']\npolicy:\n  \
    - {effect: ask, tool: bash}\n  \
    - {effect: ask, tool: bash, command: touch, approvers: [user:anna, 'role:viewer']}\n  \
    - {effect: ask, tool: bash, command: mkdir, approvers: [role:user]}\n";

/// The message is the command.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", RULES);
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            Reply::new().tool("bash", json!({"command": text.rsplit('\n').next().unwrap()}))
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
    stage
}

async fn token(play: &Play, body: Value) -> (String, Api) {
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let api = play.hive.api(made["token"].as_str()).unwrap();
    (made["id"].as_str().unwrap().to_owned(), api)
}

async fn asked(play: &Play, session: &str, command: &str) -> (String, Value) {
    let item = play.item("main", session, command).await;
    play.until_state("main", &item, "waiting").await;
    let page = play.api().get("/api/v1/approvals").await.unwrap().good().unwrap();
    let mut open = page["approvals"].as_array().unwrap().iter();
    (item, open.find(|one| one["session_key"] == session).unwrap().clone())
}

async fn decide(api: &Api, asked: &Value, scope: &str) -> Answer {
    let body = json!({"decision": "approve", "scope": scope, "hash": asked["hash"]});
    let path = format!("/api/v1/approvals/{}/decision", asked["id"].as_str().unwrap());
    api.post(&path, &body).await.unwrap()
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.json["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn attack_an_approval_that_nobody_can_give_says_so() {
    let stage = stage().await;
    let play = stage.up().await;
    let (_, question) = asked(&play, "one", "touch made").await;
    let path = format!("/api/v1/approvals/{}", question["id"].as_str().unwrap());
    let refused = async || {
        let answer = play.api().get(&path).await.unwrap().good().unwrap();
        answer["refused"].as_str().unwrap().to_owned()
    };
    let nobody = "Nobody who has a token or is signed in may decide it";
    assert!(refused().await.contains(nobody), "{}", refused().await);
    token(&play, json!({"name": "paul", "role": "user"})).await;
    assert!(refused().await.contains(nobody), "{}", refused().await);
    let (_, anna) = token(&play, json!({"name": "anna", "role": "user"})).await;
    assert!(!refused().await.contains(nobody), "{}", refused().await);
    assert_eq!(decide(&anna, &question, "once").await.status, 200);
}

#[tokio::test]
async fn attack_a_question_is_answered_by_its_approvers_alone() {
    let stage = stage().await;
    let play = stage.up().await;
    let (_, anna) = token(&play, json!({"name": "anna", "role": "user"})).await;
    let (_, paul) = token(&play, json!({"name": "paul", "role": "user"})).await;
    // Named like a role, and like an approver with a role that decides nothing.
    let (_, sly) = token(&play, json!({"name": "viewer", "role": "user"})).await;
    let bot = json!({"name": "anna", "role": "agent", "agent": "plain"});
    let (_, bot) = token(&play, bot).await;
    let channel = json!({"name": "anna", "role": "channel", "prefix": "discord:"});
    let (_, channel) = token(&play, channel).await;

    let (item, question) = asked(&play, "one", "touch made").await;
    assert_eq!(question["approvers"], json!([["user:anna", "role:viewer"]]), "{question}");
    assert_eq!(question["sandbox"], "confined");
    let why = question["refused"].as_str().unwrap();
    assert!(why.starts_with("only user:anna or role:viewer may decide this"), "{why}");
    let refused = decide(&play.api(), &question, "once").await;
    assert_eq!(code(&refused), (403, "not_approver"), "{}", refused.text);
    assert!(refused.text.contains("only user:anna or role:viewer may"), "{}", refused.text);
    for (who, api) in [("paul", &paul), ("sly", &sly)] {
        // Told the same as of one that is not there, to read and to decide.
        let path = format!("/api/v1/approvals/{}", question["id"].as_str().unwrap());
        for answer in [decide(api, &question, "once").await, api.get(&path).await.unwrap()] {
            assert_eq!(code(&answer), (404, "unknown_approval"), "{who}: {}", answer.text);
        }
        let list = api.get("/api/v1/approvals").await.unwrap().good().unwrap();
        assert_eq!(list["approvals"], json!([]), "{who} sees what is not theirs");
    }
    for (who, api) in [("agent", &bot), ("channel", &channel)] {
        assert_eq!(code(&decide(api, &question, "once").await), (403, "role"), "{who}");
    }
    // She sees the question, though the conversation is another's, and nothing else of it.
    let list = anna.get("/api/v1/approvals").await.unwrap().good().unwrap();
    assert_eq!(list["approvals"][0]["id"], question["id"]);
    assert_eq!(list["approvals"][0]["refused"], Value::Null);
    let state = anna.get("/api/v1/state").await.unwrap().good().unwrap();
    assert_eq!(state["approvals"][0]["id"], question["id"]);
    let history = anna.get("/api/v1/agents/main/history?session_key=one").await.unwrap();
    assert!(!history.text.contains("touch made"), "{}", history.text);
    // What allows more than this call is not hers to give.
    for scope in ["session", "always"] {
        assert_eq!(code(&decide(&anna, &question, scope).await), (403, "scope"), "{scope}");
    }
    assert_eq!(fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap(), RULES);
    decide(&anna, &question, "once").await.good().unwrap();
    play.ended("main", &item).await;
    assert!(stage.home().join("teams/main/work/made").exists());
    // Every one of those tries is in the trail.
    let trail = play.api().get("/api/v1/audit?kind=decision&outcome=refused").await.unwrap();
    assert_eq!(trail.json["rows"].as_array().unwrap().len(), 6, "{}", trail.text);

    // One line, two rules that ask: one of each list.
    let (_, question) = asked(&play, "two", "touch a && mkdir b").await;
    let lists = json!([["user:anna", "role:viewer"], ["role:user"]]);
    assert_eq!(question["approvers"], lists);
    assert_eq!(code(&decide(&paul, &question, "once").await), (404, "unknown_approval"));
    decide(&anna, &question, "once").await.good().unwrap();
}

#[tokio::test]
async fn attack_a_role_that_was_lost_gives_no_right() {
    let stage = stage().await;
    let play = stage.up().await;
    let (id, anna) = token(&play, json!({"name": "anna", "role": "user"})).await;
    let (_, viewer) = token(&play, json!({"name": "paul", "role": "viewer"})).await;
    let (item, question) = asked(&play, "one", "touch made").await;
    play.api().delete(&format!("/api/v1/tokens/{id}")).await.unwrap();
    assert_eq!(decide(&anna, &question, "once").await.status, 401);
    // Somebody of her name with a role that decides nothing is not her.
    let bot = json!({"name": "anna", "role": "agent", "agent": "main"});
    let (_, bot) = token(&play, bot).await;
    assert_eq!(code(&decide(&bot, &question, "once").await), (403, "role"));
    // The rule names others by now.
    let changed = RULES.replace("[user:anna, 'role:viewer']", "[user:bert]");
    fault_config::noticed(&play, || stage.write("teams/main/config.yaml", &changed)).await;
    let refused = decide(&viewer, &question, "once").await;
    assert_eq!(code(&refused), (403, "not_approver"), "{}", refused.text);
    let (_, bert) = token(&play, json!({"name": "bert", "role": "user"})).await;
    decide(&bert, &question, "once").await.good().unwrap();
    play.ended("main", &item).await;
    assert!(stage.home().join("teams/main/work/made").exists());
}

/// Somebody at a browser has the role of the sign-in, and no name that means somebody else.
#[tokio::test]
async fn attack_an_approver_at_a_browser_decides_until_signed_out() {
    let stage = stage().await;
    let play = stage.up().await;
    let named = json!({"role": "viewer", "name": "Operator"});
    let refused = play.api().post("/api/v1/links", &named).await.unwrap();
    assert_eq!(code(&refused), (400, "invalid_name"), "{}", refused.text);
    let (item, question) = asked(&play, "one", "touch made").await;
    let ines = sign_in(&play, &link(&play, "viewer", "ines").await).await.ok().unwrap();
    let paul = sign_in(&play, &link(&play, "user", "paul").await).await.ok().unwrap();
    let path = format!("/api/v1/approvals/{}/decision", question["id"].as_str().unwrap());
    let decide = async |browser: &Browser<'_>| {
        let body = json!({"decision": "approve", "hash": question["hash"]});
        http::answer(browser.request(Method::POST, &path).json(&body)).await.unwrap()
    };
    let refused = decide(&paul).await;
    assert_eq!(code(&refused), (404, "unknown_approval"), "{}", refused.text);
    let gone = sign_in(&play, &link(&play, "viewer", "ines").await).await.ok().unwrap();
    http::answer(gone.request(Method::DELETE, "/api/v1/session")).await.unwrap();
    assert_eq!(decide(&gone).await.status, 401);
    decide(&ines).await.good().unwrap();
    play.ended("main", &item).await;
    assert!(stage.home().join("teams/main/work/made").exists());
}

#[tokio::test]
async fn attack_approvers_that_cannot_decide_are_refused_in_the_file() {
    let cases = [
        ("ask", "role:agent", "`role:agent` cannot decide"),
        ("ask", "role:channel", "`role:channel` cannot decide"),
        ("ask", "any", "`any` cannot decide"),
        ("ask", "anna", "`anna` cannot decide"),
        ("allow", "user:anna", "a rule that says allow is answered by nobody"),
    ];
    let stage = stage().await;
    let play = stage.up().await;
    for (effect, who, why) in cases {
        let rule = format!("  - {{effect: {effect}, tool: bash, approvers: ['{who}']}}\n");
        let text = format!("allowed_tools: ['*']\npolicy:\n{rule}");
        fault_config::noticed(&play, || stage.write("teams/main/config.yaml", &text)).await;
        let status = play.state().await["hive"]["config"].to_string();
        assert!(status.contains(why), "{who}: {status}");
    }
}
