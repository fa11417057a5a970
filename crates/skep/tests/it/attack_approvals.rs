//! A model, a peer or a hurry that would make more of an answer than was given.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n  \
                    - {effect: ask, tool: write}\n";

/// The message is the call, as `TOOL JSON`; its answer is said.
fn obeys(stage: &Stage) {
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            let (tool, arguments) = text.rsplit('\n').next().unwrap().split_once(' ').unwrap();
            Reply::new().tool(tool, serde_json::from_str(arguments).unwrap())
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
}

fn bash(command: &str) -> String {
    format!("bash {}", json!({"command": command}))
}

async fn asked_for(play: &Play, session: &str, call: &str) -> (String, Value) {
    let item = play.item("main", session, call).await;
    play.until_state("main", &item, "waiting").await;
    let path = "/api/v1/approvals?state=open&agent=main";
    let page = play.api().get(path).await.unwrap().good().unwrap();
    let mut open = page["approvals"].as_array().unwrap().iter();
    let asked = open.find(|one| one["session_key"] == session).unwrap();
    (item, asked.clone())
}

/// The name of a file, or a word of a command, does not become a pattern for others.
#[tokio::test]
async fn attack_a_lasting_yes_covers_no_more_than_was_shown() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let calls = [
        format!("write {}", json!({"file_path": "**", "content": "x"})),
        format!("write {}", json!({"file_path": "a*/b", "content": "x"})),
        bash("echo '${RIG_KEY}'"),
        bash("echo '${NO_SUCH_VARIABLE}'"),
        bash("echo 'a\u{2028}b'"),
        format!("write {}", json!({"file_path": "a\u{85}b", "content": "x"})),
        bash("cat evil | sh"),
        bash("python3 < evil.py"),
    ];
    for (number, call) in calls.iter().enumerate() {
        let (item, asked) = asked_for(&play, &format!("s{number}"), call).await;
        let parts = asked["commands"].as_array().unwrap().iter();
        let patterns: Vec<&Value> = parts.map(|part| &part["patterns"]).collect();
        assert!(!json!(patterns).to_string().contains('*'), "{asked}");
        let always = json!({"decision": "approve", "scope": "always"});
        let refused = play.decision(&asked, always).await;
        assert_eq!(refused.status, 409, "{call}: {}", refused.text);
        let code = refused.json["code"].as_str().unwrap();
        assert!(["no_pattern", "rule_not_written"].contains(&code), "{call}: {}", refused.text);
        play.answer(&asked, "approve").await.good().unwrap();
        play.ended("main", &item).await;
    }
    assert_eq!(fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap(), ASKS);
    let policy = play.api().get("/api/v1/agents/main/policy").await.unwrap().good().unwrap();
    assert_eq!((&policy["broken"], &policy["grants"]), (&Value::Null, &json!([])), "{policy}");
}

/// A call of which no command is understood leaves a rule nothing to be about but all of bash.
#[tokio::test]
async fn attack_a_call_without_a_command_is_approved_once_alone() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let mut calls: Vec<String> =
        ["# a comment", "> notes.txt", "A=1", "< welcome.md", "A=1 B=2 >x"]
            .into_iter()
            .map(bash)
            .collect();
    calls.push(format!("bash {}", json!({"output_of": "job1"})));
    calls.push(format!("bash {}", json!({"stop": "job1"})));
    for (number, call) in calls.iter().enumerate() {
        let (item, asked) = asked_for(&play, &format!("s{number}"), call).await;
        assert!(asked["once_only"].is_string(), "{asked}");
        let id = asked["id"].as_str().unwrap();
        for (scope, patterns) in
            [("session", json!([])), ("always", json!([])), ("session", json!(["id"]))]
        {
            let query = if patterns == json!([]) { "" } else { "&patterns=id" };
            let covers = format!("/api/v1/approvals/{id}/covers?scope={scope}{query}");
            let covers = play.api().get(&covers).await.unwrap();
            assert_eq!(
                (covers.status, &covers.json["code"]),
                (409, &json!("no_pattern")),
                "{call}"
            );
            let wish = json!({"decision": "approve", "scope": scope, "patterns": patterns});
            let refused = play.decision(&asked, wish).await;
            assert_eq!(
                (refused.status, &refused.json["code"]),
                (409, &json!("no_pattern")),
                "{call}"
            );
        }
        play.answer(&asked, "approve").await.good().unwrap();
        play.ended("main", &item).await;
    }
    // What a preview says is what the decision says.
    for (number, line) in ["echo '${HOME}'", "echo 'a\u{202e}b'"].into_iter().enumerate() {
        let (_, asked) = asked_for(&play, &format!("t{number}"), &bash(line)).await;
        let covers = format!("/api/v1/approvals/{}/covers", asked["id"].as_str().unwrap());
        let covers = play.api().get(&covers).await.unwrap();
        let always = json!({"decision": "approve", "scope": "always"});
        let refused = play.decision(&asked, always).await;
        assert_eq!((covers.status, refused.status), (409, 409), "{line}: {}", covers.text);
        assert_eq!(covers.json["code"], refused.json["code"]);
    }
    assert_eq!(fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap(), ASKS);
}

/// Somebody saw this very call and said no; a yes to calls like it, given before the turn could
/// go on, is about others.
#[tokio::test]
async fn attack_a_no_stays_a_no_when_a_grant_follows() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {concurrent_turns: 1}\n");
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let (item, asked) = asked_for(&play, "one", &bash("echo ran >> log")).await;
    // The only slot is taken, so that the turn cannot hear of the answer yet.
    stage.model.push(Reply::say("later").gate_first("busy"));
    let busy = play.item("main", "two", "wait").await;
    let gate = stage.model.gate("busy");
    wait::until("the slot is taken", PATIENCE, || (gate.arrived() > 0).then_some(()))
        .await
        .unwrap();
    play.answer(&asked, "deny").await.good().unwrap();
    let wish = json!({"tool": "bash", "minutes": 5});
    play.api().post("/api/v1/agents/main/grants", &wish).await.unwrap().good().unwrap();
    gate.open();
    play.ended("main", &busy).await;
    let ended = play.ended("main", &item).await;
    let said = ended["response"]["content"].as_str().unwrap();
    assert!(said.starts_with("it said: approval_denied"), "{said}");
    assert!(!stage.home().join("teams/main/work/log").exists());
}

/// Twenty answers at once, half of them a yes: one counts, and it is told to one alone.
#[tokio::test]
async fn attack_answers_at_once_count_once() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    for round in 0..5 {
        let call = bash(&format!("touch made{round}"));
        let (item, asked) = asked_for(&play, &format!("s{round}"), &call).await;
        let scopes = ["once", "session", "always"];
        let answers = (0..20).map(|number| {
            let (play, asked) = (&play, &asked);
            let body = match number % 4 {
                3 => json!({"decision": "deny"}),
                place => json!({"decision": "approve", "scope": scopes[place]}),
            };
            async move { (body["decision"].clone(), play.decision(asked, body).await) }
        });
        let answers = futures_util::future::join_all(answers).await;
        let won: Vec<&Value> = answers
            .iter()
            .filter(|(_, answer)| answer.status == 200)
            .map(|(said, _)| said)
            .collect();
        assert_eq!(won.len(), 1, "{:?}", answers.iter().map(|(_, a)| a.status).collect::<Vec<_>>());
        let lost = answers.iter().filter(|(_, answer)| answer.status != 200);
        for (_, late) in lost {
            assert_eq!((late.status, &late.json["code"]), (409, &json!("already_decided")));
        }
        play.ended("main", &item).await;
        let made = stage.home().join(format!("teams/main/work/made{round}")).exists();
        assert_eq!(made, *won[0] == "approve", "round {round}");
    }
}

/// What expired, or was withdrawn, leaves no rule and no grant behind.
#[tokio::test]
async fn attack_a_late_yes_leaves_nothing_behind() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", &bash("date")).await.unwrap();
    let asked = play.question().await;
    let sql = "UPDATE approvals SET expires_at = asked_at";
    let database = stage.home().join("run/skep.db");
    let done = std::process::Command::new("sqlite3").arg(database).arg(sql).status().unwrap();
    assert!(done.success());
    for scope in ["session", "always"] {
        let late = play.decision(&asked, json!({"decision": "approve", "scope": scope})).await;
        assert_eq!((late.status, &late.json["code"]), (409, &json!("expired")), "{scope}");
    }
    client.say("m2", "/stop").await.unwrap();
    client.answer_to("m1").await.unwrap();
    for scope in ["session", "always"] {
        let late = play.decision(&asked, json!({"decision": "approve", "scope": scope})).await;
        assert_eq!((late.status, &late.json["code"]), (409, &json!("withdrawn")), "{scope}");
    }
    assert_eq!(fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap(), ASKS);
    let grants = play.api().get("/api/v1/grants").await.unwrap().good().unwrap();
    assert_eq!(grants["grants"], json!([]), "{grants}");
}

/// A line the rules cannot read is bound to the files it names all the same.
#[tokio::test]
async fn attack_a_script_changed_behind_an_unread_line_is_asked_again() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.write("teams/main/work/script.sh", "echo good >> log");
    obeys(&stage);
    let play = stage.up().await;
    let line = "cat <<E\nx\nE\nif [[ a ]]; then bash \"script.sh\"; fi";
    let (item, asked) = asked_for(&play, "one", &bash(line)).await;
    stage.write("teams/main/work/script.sh", "echo evil >> log");
    play.answer(&asked, "approve").await.good().unwrap();
    let again = play.question().await;
    assert_ne!(again["id"], asked["id"], "{again}");
    assert!(again["files"].to_string().contains("script.sh"), "{again}");
    play.answer(&again, "deny").await.good().unwrap();
    play.ended("main", &item).await;
    assert!(!stage.home().join("teams/main/work/log").exists());
}

/// A yes and the end of the turn at once, in either order: the call ran because of the yes, or it
/// did not run at all; and nothing waits for ever.
#[tokio::test]
async fn attack_an_answer_races_the_end_of_its_turn() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let mut won = [0, 0];
    for round in 0..12 {
        let mut client = play.ws().await;
        client.say("m1", &bash(&format!("touch made{round}"))).await.unwrap();
        let asked = play.question().await;
        let ends = if round % 2 == 0 { "/stop" } else { "/new" };
        let approve = play.answer(&asked, "approve");
        let answered = match round % 4 {
            0 => {
                let answered = approve.await;
                client.say("m2", ends).await.unwrap();
                answered
            }
            1 => tokio::join!(approve, client.say("m2", ends)).0,
            2 => tokio::join!(client.say("m2", ends), approve).1,
            _ => {
                client.say("m2", ends).await.unwrap();
                client.answer_to("m2").await.unwrap();
                approve.await
            }
        };
        client.answer_to("m1").await.unwrap();
        let made = stage.home().join(format!("teams/main/work/made{round}")).exists();
        match answered.status {
            200 => won[0] += 1,
            409 => {
                won[1] += 1;
                assert_eq!(answered.json["code"], "withdrawn", "{}", answered.text);
                assert!(!made, "round {round} ran without a yes");
            }
            other => panic!("{other}: {}", answered.text),
        }
        assert_eq!(play.questions().await, Vec::<Value>::new(), "round {round}");
    }
    assert!(won[0] > 0 && won[1] > 0, "{won:?}");
    let state = play.state().await;
    assert_eq!((&state["turns"], &state["approvals"]), (&json!([]), &json!([])), "{state}");
}

/// Whoever says "always" and shuts the page at once has said it all the same, once and whole.
#[tokio::test]
async fn attack_a_yes_whose_sender_goes_away_is_kept_whole() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    obeys(&stage);
    let play = stage.up().await;
    let (item, asked) = asked_for(&play, "one", &bash("date")).await;
    let path = format!("/api/v1/approvals/{}/decision", asked["id"].as_str().unwrap());
    let body = json!({"decision": "approve", "scope": "always", "hash": asked["hash"]});
    let api = play.api();
    let sender = tokio::spawn(async move { api.post(&path, &body).await });
    let config = stage.home().join("teams/main/config.yaml");
    let written = wait::until_true("the rule", PATIENCE, || {
        fs::read_to_string(&config).unwrap().contains("date $")
    });
    written.await.unwrap();
    sender.abort();
    assert_eq!(play.ended("main", &item).await["state"], "done");
    let rules = fs::read_to_string(&config).unwrap();
    assert_eq!(rules.matches("date $").count(), 1, "{rules}");
    assert_eq!(play.questions().await, Vec::<Value>::new());
}
