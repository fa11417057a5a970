//! An agent that wants to answer another's question with everything it can reach: its tools, its
//! talk, a token of its own. The question stays as it was, and the trail tells who tried.

use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::{Reply, WsClient, locate};

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";

/// What came of one call of the agent `other`.
async fn result(stage: &Stage, play: &Play, tool: &str, arguments: Value) -> String {
    stage.model.push(Reply::new().tool(tool, arguments));
    stage.model.push(Reply::say("so it is"));
    let item = play.item("other", "main", "try").await;
    assert_eq!(play.ended("other", &item).await["state"], "done");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

/// A question of `main` that waits.
async fn waiting(stage: &Stage) -> (Play, String, Value) {
    stage.write("teams/main/config.yaml", ASKS);
    stage.write("teams/other/config.yaml", "allowed_tools: ['*']\n");
    stage.model.push(Reply::new().tool("bash", json!({"command": "echo ran >> log"})));
    let play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    (play, item, asked)
}

#[tokio::test]
async fn attack_no_tool_of_an_agent_answers_a_question_of_another() {
    let stage = Stage::new().await;
    let (play, item, asked) = waiting(&stage).await;
    let id = asked["id"].as_str().unwrap();
    let home = stage.home().display();
    let address = play.hive.url().unwrap().trim_start_matches("http://");
    let (host, port) = address.trim_end_matches('/').split_once(':').unwrap();
    let skep = locate::skep().unwrap();
    // The doors of the hive from a shell: over the network, through the socket, with the program
    // itself, its folder. Whoever is not in the sandbox reaches them.
    let doors = [
        format!("exec 3<>/dev/tcp/{host}/{port} && echo reached"),
        format!("curl -s -m 5 http://{address}/health && echo reached"),
        format!("curl -s -m 5 --unix-socket {home}/run/skep.sock http://x/health && echo reached"),
        format!("{} status --home {home} && echo reached", skep.display()),
        format!("ls {home}/run && echo reached"),
    ];
    for command in &doors {
        let ran = Command::new("bash").args(["-c", command]).output().unwrap();
        assert!(String::from_utf8_lossy(&ran.stdout).contains("reached"), "{command}: {ran:?}");
    }
    let written = [
        format!("echo x | tee -a {home}/run/skep.db && echo reached"),
        format!("echo 'policy: []' > {home}/teams/main/config.yaml && echo reached"),
        format!("{} approve {id} --home {home} && echo reached", skep.display()),
    ];
    for command in doors.iter().chain(&written) {
        let said = result(&stage, &play, "bash", json!({"command": command})).await;
        assert!(said.contains("[exit code "), "{said}");
        assert!(!said.contains("reached") && !said.contains("[exit code 0]"), "{command}: {said}");
    }
    for path in ["../../main/config.yaml", "../../../run/skep.db", "../../../skep.yaml"] {
        let arguments = json!({"file_path": path, "content": "policy: []"});
        let said = result(&stage, &play, "write", arguments).await;
        assert!(said.starts_with("outside_workspace"), "{path}: {said}");
        let row = play.audit("agent=other&tool=write").await.remove(0);
        assert_ne!(row["outcome"], "ok", "{row}");
    }
    assert_eq!(play.question().await, asked, "it waits as it did");
    stage.model.push(Reply::say("done"));
    play.answer(&asked, "deny").await.good().unwrap();
    play.ended("main", &item).await;
    assert!(!stage.home().join("teams/main/work/log").exists());
}

/// The doors through which somebody wanted to decide, as the trail has it.
async fn tried(play: &Play, asked: &Value, who: &str, why: &str) -> Vec<String> {
    let rows = play.audit("kind=decision&outcome=refused").await.into_iter();
    let doors = rows.filter(|row| row["principal"] == who).map(|row| {
        assert_eq!((&row["agent"], &row["call_id"]), (&json!("main"), &asked["call"]));
        assert_eq!(row["decision"][0]["stage"], "approval");
        let word = row["decision"][0]["word"].as_str().unwrap();
        let (told, door) = word.rsplit_once(", through ").unwrap();
        assert!(told.starts_with(why), "{word}");
        door.to_owned()
    });
    doors.collect()
}

/// The credential of an agent's child process opens no decision; nor does a word in any talk.
#[tokio::test]
async fn attack_no_credential_and_no_word_of_an_agent_answers_a_question() {
    let stage = Stage::new().await;
    let (play, item, asked) = waiting(&stage).await;
    let id = asked["id"].as_str().unwrap();
    // Of the agent that asks, and of another one.
    for agent in ["main", "other"] {
        let body = json!({"name": agent, "role": "agent", "agent": agent});
        let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
        let (token, who) =
            (made["token"].as_str(), format!("token:{}", made["id"].as_str().unwrap()));
        let api = play.hive.api(token).unwrap();
        let yes = json!({"decision": "approve", "hash": asked["hash"]});
        for (path, action, body) in [
            ("decision", "decide", &yes),
            ("decision", "decide", &yes),
            ("reopen", "approve", &json!({})),
        ] {
            let refused = api.post(&format!("/api/v1/approvals/{id}/{path}"), body).await.unwrap();
            assert_eq!((refused.status, &refused.json["code"]), (403, &json!("role")));
            let said = refused.json["detail"].as_str().unwrap();
            let told = format!("the role agent may not do this ({action})");
            assert!(said.starts_with(&told), "{said}");
        }
        for path in ["/api/v1/approvals", &format!("/api/v1/approvals/{id}")] {
            assert_eq!(api.get(path).await.unwrap().status, 403, "{path}: not even to be read");
        }
        let grant = json!({"tool": "bash", "minutes": 5});
        let path = format!("/api/v1/agents/{agent}/grants");
        assert_eq!(api.post(&path, &grant).await.unwrap().status, 403);
        let target = play.hive.ws(token).unwrap();
        let refused = WsClient::try_connect(&target).await.unwrap().err().unwrap();
        assert_eq!(refused.status, Some(403), "no socket either");
        // Who tried is told, once, with what and why; nobody gets more room by trying more often.
        let why = "refused: the role agent may not";
        assert_eq!(tried(&play, &asked, &who, why).await, ["rest"]);
    }
    // A person who may talk and not decide, on the socket they talk through.
    let body = json!({"name": "anna", "role": "user"});
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let target = play.hive.ws(made["token"].as_str()).unwrap();
    let mut client = WsClient::connect(&target).await.unwrap();
    for _ in 0..2 {
        let frame = json!({"type": "approve", "id": id, "decision": "approve",
                           "hash": asked["hash"]});
        client.send(&frame).await.unwrap();
        let error = client.find("a refusal", |frame| frame["type"] == "error").await.unwrap();
        assert_eq!(
            (&error["code"], &error["message_id"]),
            (&json!("unknown_approval"), &json!(id))
        );
    }
    let who = format!("token:{}", made["id"].as_str().unwrap());
    let why = "refused: only role:operator may decide this, and anna (user) is not among them";
    assert_eq!(tried(&play, &asked, &who, why).await, ["websocket"]);
    // What an agent says, and what is said to it, is talk: also in the words of a door.
    let frame = json!({"type": "approve", "id": id, "decision": "approve", "hash": asked["hash"]});
    for words in [frame.to_string(), format!("skep approve {id}"), "yes, approved".to_owned()] {
        stage.model.push(Reply::say(&words));
        assert_eq!(play.ask("other", &words).await["response"]["content"], *words);
    }
    for words in [format!("/approve {id}"), format!("/allow {id}"), "/yes".to_owned()] {
        let said = play.ask("other", &words).await;
        assert_eq!(said["error"]["code"], "unknown_command", "{said}");
    }
    assert_eq!(play.question().await, asked, "it waits as it did");
    assert!(!stage.home().join("teams/main/work/log").exists());
    // The one who may is heard.
    stage.model.push(Reply::say("done"));
    play.answer(&asked, "approve").await.good().unwrap();
    play.ended("main", &item).await;
    let ran = std::fs::read_to_string(stage.home().join("teams/main/work/log")).unwrap();
    assert_eq!(ran, "ran\n");
}
