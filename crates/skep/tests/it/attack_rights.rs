//! Whose rights: what somebody asked for runs with their rights whoever presses the button, and
//! what a conversation has running or kept is out of reach for every other.

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::Api;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

/// Operators alone may have an effect.
const OPERATORS: &str = "allowed_tools: ['*']
policy:
  - {effect: allow, tool: effect, grants: ['role:operator']}
";

async fn user(play: &Play, name: &str) -> (Api, String) {
    let body = json!({"name": name, "role": "user"});
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let api = play.hive.api(Some(made["token"].as_str().unwrap())).unwrap();
    (api, format!("token:{}", made["id"].as_str().unwrap()))
}

async fn ask(api: &Api, session: Option<&str>, text: &str) -> Value {
    let mut body = json!({"message": text});
    if let Some(session) = session {
        body["session_key"] = session.into();
    }
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    api.post(path, &body).await.unwrap().good().unwrap()
}

fn item(followed: &Value) -> &str {
    followed["item_id"].as_str().unwrap()
}

#[tokio::test]
async fn attack_a_retry_has_the_rights_of_the_sender() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", OPERATORS);
    let play = stage.up().await;
    let (anna, principal) = user(&play, "anna").await;
    stage.model.push_all([
        Reply::unauthorized(),
        Reply::call("effect", json!({"text": "mail"})),
        Reply::say("refused"),
    ]);
    let failed = ask(&anna, None, "send the mail").await;
    assert_eq!(failed["state"], "failed", "{failed}");
    let retry = format!("/api/v1/inbox/{}/retry", item(&failed));
    let again = play.api().post(&retry, &json!(null)).await.unwrap().good().unwrap();
    let ended = play.ended("main", item(&again)).await;
    assert_eq!(ended["response"]["content"], "refused", "{ended}");
    let told = stage.model.requests().pop().unwrap().last_tool_results().remove(0).text;
    assert!(told.starts_with("policy_deny: "), "{told}");
    assert_eq!(stage.effects.total().unwrap(), 0);
    let path = format!("/api/v1/inbox/{}", item(&again));
    let shown = play.api().get(&path).await.unwrap().good().unwrap();
    assert_eq!(shown["from"], principal, "{shown}");

    // What an operator wrote into her conversation is not hers to press.
    stage.model.push(Reply::unauthorized());
    let key = format!("{principal}/main");
    let failed = ask(&play.api(), Some(&key), "send the mail").await;
    let retry = format!("/api/v1/inbox/{}/retry", item(&failed));
    let refused = anna.post(&retry, &json!(null)).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (403, &json!("not_sender")));
    stage.model.push_all([Reply::call("effect", json!({"text": "mail"})), Reply::say("sent")]);
    let again = play.api().post(&retry, &json!(null)).await.unwrap().good().unwrap();
    assert_eq!(play.ended("main", item(&again)).await["response"]["content"], "sent");
    assert_eq!(stage.effects.total().unwrap(), 1);
}

#[tokio::test]
async fn attack_a_call_that_runs_again_has_the_rights_of_the_asker() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    let (anna, principal) = user(&play, "anna").await;
    stage.model.push(Reply::call("effect", json!({"text": "mail", "ms": 2000})));
    let path = "/api/v1/agents/main/messages";
    let sent = anna.post(path, &json!({"message": "act"})).await.unwrap().good().unwrap();
    wait::until_true("the effect", PATIENCE, || stage.effects.total().unwrap() == 1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.write("teams/main/config.yaml", OPERATORS);
    stage.model.push(Reply::say("I do not know what came of it"));
    let play = stage.up().await;
    play.ended("main", item(&sent)).await;
    let calls = play.api().get("/api/v1/calls/unknown").await.unwrap().good().unwrap();
    let call = &calls["calls"][0];
    let part = |key: &str| call[key].as_str().unwrap();
    let path = format!("/api/v1/calls/unknown/{}/{}", part("turn"), part("call_id"));
    // The call itself, and what the model makes of the answer.
    stage.model.push_all([Reply::call("effect", json!({"text": "two"})), Reply::say("refused")]);
    let done = play.api().post(&path, &json!({"outcome": "run_again"})).await.unwrap();
    let again = done.good().unwrap()["item"].as_str().unwrap().to_owned();
    assert_eq!(play.ended("main", &again).await["response"]["content"], "refused");
    assert_eq!(stage.effects.total().unwrap(), 1, "an operator's wish gives nobody their rights");
    let rows = play.api().get("/api/v1/audit?kind=call").await.unwrap().good().unwrap();
    let refused = rows["rows"].as_array().unwrap().iter().filter(|row| row["outcome"] == "refused");
    assert_eq!(refused.count(), 2, "{rows}");
    let shown = play.api().get(&format!("/api/v1/inbox/{again}")).await.unwrap().good().unwrap();
    assert_eq!(shown["from"], principal, "{shown}");
    let retry = play.api().post(&format!("/api/v1/inbox/{again}/retry"), &json!(null)).await;
    assert_eq!(retry.unwrap().json["code"], "not_retryable");
}

/// The tool's answer in a conversation.
async fn result(stage: &Stage, api: &Api, session: &str, tool: &str, arguments: Value) -> String {
    stage.model.push_all([Reply::call(tool, arguments), Reply::say("so be it")]);
    let ended = ask(api, Some(session), "go").await;
    assert_eq!(ended["state"], "done", "{ended}");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

#[tokio::test]
async fn attack_jobs_and_long_outputs_belong_to_their_conversation() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {tool_output_bytes: 4096}\n");
    stage.write("teams/main/config.yaml", "allowed_tools: ['@files', bash]\n");
    let play = stage.up().await;
    let ((anna, her), (berta, hers)) = (user(&play, "anna").await, user(&play, "berta").await);
    let (own, other) = (format!("{her}/main"), format!("{her}/other"));
    let foreign = format!("{hers}/main");
    let others = [(&anna, other.as_str()), (&berta, foreign.as_str())];

    let wish = json!({"command": "echo heron-77; sleep 600", "background": true});
    let started = result(&stage, &anna, &own, "bash", wish).await;
    let job = started.strip_prefix("started ").unwrap().split_once('.').unwrap().0;
    for (api, session) in others {
        for word in ["output_of", "stop"] {
            let said = result(&stage, api, session, "bash", json!({word: job})).await;
            let nothing = format!("no_such_job: there is no job `{job}`; there are none.");
            assert!(said.starts_with(&nothing), "{session}: {said}");
        }
    }
    let said = result(&stage, &anna, &own, "bash", json!({"output_of": job})).await;
    assert_eq!(said, format!("heron-77\n[{job} still runs]"));

    let long = json!({"command": "echo heron-78; seq 1 5000"});
    let said = result(&stage, &anna, &own, "bash", long).await;
    let (_, file) = said.split_once("bytes left out; they are in ").unwrap();
    let file = file.split_once(']').unwrap().0;
    let folder = file.rsplit_once('/').unwrap().0;
    let ways = [
        ("read", json!({"file_path": file})),
        ("grep", json!({"pattern": "heron-78", "path": folder})),
        ("bash", json!({"command": format!("cat {file}; grep -r heron-78 {folder}/..")})),
        ("bash", json!({"command": "grep -r heron-78 . /tmp"})),
    ];
    for (tool, arguments) in &ways {
        for (api, session) in others {
            let said = result(&stage, api, session, tool, arguments.clone()).await;
            assert!(!said.contains("heron-78\n"), "{session}: {tool} {arguments}: {said}");
        }
    }
    for (tool, arguments) in &ways[..3] {
        let said = result(&stage, &anna, &own, tool, arguments.clone()).await;
        assert!(said.contains("heron-78"), "{tool} {arguments}: {said}");
    }
    let write = json!({"file_path": file, "content": "mine"});
    let said = result(&stage, &anna, &own, "write", write).await;
    assert!(said.starts_with("settings_read_only: ") || said.contains("read"), "{said}");
    let stopped = result(&stage, &anna, &own, "bash", json!({"stop": job})).await;
    assert!(stopped.starts_with("heron-77\n[cancelled"), "{stopped}");
}
