//! What a person is shown before they decide: one line, the agent's words, the network, what each
//! command of a line needs, and the files as they were judged.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::{Answer, Api};
use skep_testkit::wait::PATIENCE;

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";

/// Says the words, and asks for the command that is the last line of the message.
async fn stage(words: &'static str) -> Stage {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.model.answer_with(move |request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            let command = text.rsplit("run: ").next().unwrap().to_owned();
            Reply::new().text(words).tool("bash", json!({"command": command}))
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
    stage
}

async fn asked(play: &Play, session: &str, command: &str) -> (String, Value) {
    let item = play.item("main", session, &format!("run: {command}")).await;
    play.until_state("main", &item, "waiting").await;
    let questions = play.questions().await;
    (item, questions.into_iter().find(|one| one["session_key"] == session).unwrap())
}

async fn covers(play: &Play, question: &Value, scope: &str, patterns: &[&str]) -> Value {
    let patterns: String =
        json!(patterns).to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let id = question["id"].as_str().unwrap();
    let path = format!("/api/v1/approvals/{id}/covers?scope={scope}&patterns={patterns}");
    play.api().get(&path).await.unwrap().good().unwrap()
}

async fn file(api: &Api, question: &Value, number: usize) -> Answer {
    let id = question["id"].as_str().unwrap();
    api.get(&format!("/api/v1/approvals/{id}/files/{number}")).await.unwrap()
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.json["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn gate_a_question_says_in_one_line_what_the_agent_wants_and_in_its_words_why() {
    let hostile = "I tidy up.\u{1b}[2J\u{202e} Say yes.";
    let stage = stage(hostile).await;
    let host = format!("{ASKS}sandbox: {{level: host}}\n");
    let play = stage.up().await;
    let (_, question) =
        asked(&play, "one", "psql \"$URL\" \\\n  --single \u{1b}[31m\\\n  -f a").await;
    assert_eq!(question["summary"], "psql \"$URL\" …");
    assert_eq!(question["words"], "I tidy up.‹U+001B›[2J‹U+202E› Say yes.");
    assert_eq!(
        (&question["sandbox"], &question["network"]),
        (&json!("confined"), &json!("listed"))
    );
    let brief = play.state().await["approvals"][0].clone();
    assert_eq!(brief["summary"], question["summary"]);
    // Neither many lines nor long ones reach a list.
    let (_, many) = asked(&play, "two", &"echo y\n".repeat(3000)).await;
    assert_eq!(many["summary"], "echo y …");
    let (_, long) = asked(&play, "three", &format!("echo {}", "x".repeat(9000))).await;
    assert_eq!(long["summary"].as_str().unwrap().chars().count(), 162);
    crate::fault_config::noticed(&play, || stage.write("teams/main/config.yaml", &host)).await;
    let now = &play.questions().await[0];
    assert_eq!((&now["sandbox"], &now["network"]), (&json!("host"), &json!("open")));
}

#[tokio::test]
async fn gate_the_agents_words_are_bounded_and_left_out_where_there_are_none() {
    let stage = stage("").await;
    let play = stage.up().await;
    let (_, question) = asked(&play, "one", "echo a").await;
    assert_eq!(question["words"], Value::Null, "{question}");
    let long = "words\n".repeat(2000);
    stage.model.push(Reply::new().text(&long).tool("bash", json!({"command": "echo b"})));
    let (_, question) = asked(&play, "two", "echo b").await;
    let words = question["words"].as_str().unwrap();
    assert!(words.starts_with("words\nwords\n") && words.ends_with(" …"), "{words}");
    assert_eq!(words.chars().count(), 1002);
}

#[tokio::test]
async fn gate_a_lasting_yes_to_a_line_covers_every_command_of_it_and_nothing_else() {
    let stage = stage("I build.").await;
    let play = stage.up().await;
    let (item, question) = asked(&play, "one", "echo a b && date +%Y | wc -l").await;
    let part = |text: &str, patterns: &[&str]| json!({"text": text, "patterns": patterns});
    let parts = [
        part("echo a b", &["echo a b $", "echo a", "echo"]),
        part("date +%Y", &["date +%Y $", "date"]),
        part("wc -l", &["wc -l $", "wc"]),
    ];
    assert_eq!(question["commands"], json!(parts));
    let found = covers(&play, &question, "always", &["echo", "date", "wc"]).await;
    assert_eq!(
        (&found["covers"], &found["last"]),
        (&json!(true), &json!({"calls": 1, "covered": 1}))
    );
    // One command less is not enough, whichever it is.
    for left in [["echo", "date"], ["echo", "wc"], ["date", "wc"]] {
        assert_eq!(covers(&play, &question, "always", &left).await["covers"], false, "{left:?}");
        for scope in ["session", "always"] {
            let wish = json!({"decision": "approve", "scope": scope, "patterns": left});
            let refused = play.decision(&question, wish).await;
            assert_eq!(code(&refused), (409, "still_asked"), "{left:?}: {}", refused.text);
        }
    }
    // Nothing is granted on the side: neither another program nor more than the line has commands.
    for more in [vec!["echo", "date", "rm"], vec!["echo", "echo a", "date", "wc"]] {
        let found = covers(&play, &question, "always", &more).await;
        assert_eq!(found["covers"], false, "{more:?}: {found}");
        let wish = json!({"decision": "approve", "scope": "session", "patterns": more});
        let refused = play.decision(&question, wish).await;
        assert!(refused.status == 400 || refused.status == 409, "{more:?}: {}", refused.text);
    }
    let wish = json!({"decision": "approve", "scope": "session",
                      "patterns": ["echo", "date", "wc", "wc"]});
    let done = play.decision(&question, wish).await.good().unwrap();
    assert_eq!(done["decision"]["patterns"], json!(["echo", "date", "wc", "wc"]));
    let ended = play.ended("main", &item).await;
    assert!(ended["response"]["content"].as_str().unwrap().contains("exit code 0"), "{ended}");
    // In this conversation such lines run; with one more command they ask.
    let again = play.item("main", "one", "run: date +%m && echo c").await;
    play.ended("main", &again).await;
    let (_, more) = asked(&play, "one", "echo c && rm -rf x").await;
    let found = covers(&play, &more, "always", &["rm"]).await;
    assert_eq!(found["covers"], false, "a rule for always has to cover all: {found}");
    assert_eq!(found["last"], json!({"calls": 3, "covered": 0}));
    let wish =
        json!({"decision": "approve", "scope": "always", "patterns": ["echo", "rm -rf x $"]});
    play.decision(&more, wish).await.good().unwrap();
    let config = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
    for rule in [r#"command: "echo"}"#, r#"command: "rm -rf x $"}"#] {
        assert!(config.contains(rule), "{config}");
    }
}

/// A yes is taken exactly where its preview says so, and from then on the gate lets through exactly
/// what was previewed.
#[tokio::test]
async fn gate_the_preview_of_a_lasting_yes_is_what_the_gate_does() {
    let cases: [(&str, &[&str], [bool; 2]); 8] = [
        ("echo a", &["echo"], [true, true]),
        // A grant answers a rule that is more specific; a rule for always does not win over it.
        ("rm -rf x", &["rm"], [true, false]),
        // What was granted before counts along.
        ("echo b && date +%Y", &["date"], [true, true]),
        ("wc -l && uname", &["wc"], [false, false]),
        ("wc -c", &["uname"], [false, false]),
        ("uname \"$HOME\"", &["uname"], [false, false]),
        ("tee f", &[], [true, true]),
        ("echo c; shutdown", &["echo"], [false, false]),
    ];
    for (at, scope) in ["session", "always"].into_iter().enumerate() {
        let stage = stage("I work.").await;
        let more = "  - {effect: ask, tool: bash, command: 'rm -rf'}\n";
        stage.write("teams/main/config.yaml", &format!("{ASKS}{more}"));
        let play = stage.up().await;
        for (command, patterns, expected) in cases {
            let (item, question) = asked(&play, "one", command).await;
            let found = covers(&play, &question, scope, patterns).await;
            assert_eq!(found["covers"], expected[at], "{scope} {command}: {found}");
            let wish = json!({"decision": "approve", "scope": scope, "patterns": patterns});
            let decided = play.decision(&question, wish).await;
            assert_eq!(decided.status == 200, expected[at], "{scope}: {}", decided.text);
            if decided.status == 200 {
                assert_eq!(decided.json["decision"]["patterns"], found["allows"]);
                play.ended("main", &item).await;
                let again = play.item("main", "one", &format!("run: {command}")).await;
                play.ended("main", &again).await;
                continue;
            }
            play.answer(&question, "deny").await;
            play.ended("main", &item).await;
            // Such grants, made all the same, do not let it through.
            let mut made = Vec::new();
            for pattern in patterns.iter().filter(|_| scope == "session") {
                let grant = json!({"tool": "bash", "command": pattern, "minutes": 5});
                let grant = play.api().post("/api/v1/agents/main/grants", &grant).await.unwrap();
                made.push(grant.good().unwrap()["id"].as_str().unwrap().to_owned());
            }
            let (again, question) = asked(&play, "one", command).await;
            play.answer(&question, "deny").await;
            play.ended("main", &again).await;
            for id in made {
                play.api().delete(&format!("/api/v1/grants/{id}")).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn gate_a_yes_for_a_conversation_says_what_it_allows_and_where() {
    let stage = stage("I look.").await;
    stage.write("teams/main/config.yaml", &format!("{ASKS}  - {{effect: ask, tool: look}}\n"));
    let play = stage.up().await;
    let (_, there) = asked(&play, "two", "id -u").await;
    let (item, here) = asked(&play, "one", "id -u").await;
    // Only what waits in the same conversation is answered with it.
    assert_eq!(covers(&play, &here, "session", &["id"]).await["others"], json!([]));
    let others = covers(&play, &here, "always", &["id"]).await["others"].clone();
    assert_eq!(others[0]["id"], there["id"]);
    // Without a pattern: what the call names.
    let found = covers(&play, &here, "session", &[]).await;
    assert_eq!((&found["covers"], &found["allows"]), (&json!(true), &json!(["id -u $"])));
    let mut events = play.api().events("/api/v1/events").await.unwrap();
    let wish = json!({"decision": "approve", "scope": "session"});
    let done = play.decision(&here, wish.clone()).await.good().unwrap();
    assert_eq!(done["decision"]["patterns"], json!(["id -u $"]));
    let decided = loop {
        let event = events.next_within(PATIENCE).await.unwrap().unwrap();
        let event: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if event["type"] == "approval_decided" {
            break event;
        }
    };
    assert_eq!(decided["patterns"], json!(["id -u $"]));
    play.ended("main", &item).await;
    // A tool that names nothing of the kind: every call of it.
    stage.model.push(Reply::new().tool("look", json!({"text": "a"})));
    let (item, look) = asked(&play, "one", "look").await;
    let found = covers(&play, &look, "session", &[]).await;
    assert_eq!((&found["covers"], &found["allows"]), (&json!(true), &json!([])));
    play.decision(&look, wish).await.good().unwrap();
    play.ended("main", &item).await;
    stage.model.push(Reply::new().tool("look", json!({"text": "b"})));
    let other = play.item("main", "one", "run: look").await;
    play.ended("main", &other).await;
}

#[tokio::test]
async fn gate_a_pinned_file_is_shown_as_it_was_judged() {
    let stage = stage("I run it.").await;
    stage.write("teams/main/work/a.sh", "echo a\u{1b}[2J\u{202e}\n");
    stage.write("teams/main/work/long.sh", &"echo y\n".repeat(20_000));
    stage.write("teams/main/work/huge.sh", &"echo y\n".repeat(200_000));
    stage.write("teams/main/work/key.sh", "echo rig-key-canary-1f7c\n");
    fs::write(stage.home().join("teams/main/work/raw"), [0xff, 0xfe, 0]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", stage.home().join("teams/main/work/out")).unwrap();
    let play = stage.up().await;
    let command = "cat a.sh long.sh huge.sh key.sh raw out missing";
    let (item, question) = asked(&play, "one", command).await;
    let files = question["files"].as_array().unwrap();
    let at = |path: &str| files.iter().position(|file| file["path"] == path).unwrap();
    let api = play.api();
    let shown = file(&api, &question, at("a.sh")).await.good().unwrap();
    let text = "echo a‹U+001B›[2J‹U+202E›\n";
    let expected = json!({"path": "a.sh", "bytes": 14, "lines": 1, "text": text, "cut": false});
    assert_eq!(shown, expected);
    let long = file(&api, &question, at("long.sh")).await.good().unwrap();
    assert_eq!((&long["lines"], &long["cut"]), (&json!(20_000), &json!(true)));
    assert!(long["text"].as_str().unwrap().len() < 60_000);
    let raw = file(&api, &question, at("raw")).await.good().unwrap();
    assert_eq!((&raw["text"], &raw["bytes"]), (&Value::Null, &json!(3)));
    assert_eq!(code(&file(&api, &question, at("huge.sh")).await), (409, "too_large"));
    let key = file(&api, &question, at("key.sh")).await;
    assert!(key.status == 200 && !key.text.contains("canary-1f7c"), "{}", key.text);
    // Nothing outside the workspace, and nothing that is not listed.
    let outside = files.iter().position(|file| file["path"] == "out");
    for number in outside.into_iter().chain([files.len(), 4_000_000_000]) {
        assert_eq!(code(&file(&api, &question, number).await), (404, "unknown_file"));
    }
    // For those who see the question, and nobody else.
    let made = json!({"name": "paul", "role": "user"});
    let made = api.post("/api/v1/tokens", &made).await.unwrap().good().unwrap();
    let paul = play.hive.api(made["token"].as_str()).unwrap();
    assert_eq!(code(&file(&paul, &question, at("a.sh")).await), (404, "unknown_approval"));
    // Whoever asks does not read the file that way, before a no or after it.
    let wish = json!({"message": "run: cat a.sh", "session_key": "his"});
    let sent = paul.post("/api/v1/agents/main/messages", &wish).await.unwrap().good().unwrap();
    let his = sent["item_id"].as_str().unwrap();
    play.until_state("main", his, "waiting").await;
    let open = paul.get("/api/v1/approvals").await.unwrap().good().unwrap();
    let own = &open["approvals"][0];
    assert_eq!(own["files"][0]["path"], "a.sh", "{open}");
    assert_eq!(code(&file(&paul, own, 0).await), (403, "not_approver"));
    assert_eq!(file(&api, own, 0).await.good().unwrap()["text"], text);
    // Nor does he see how busy others keep the agent.
    let agents = paul.get("/api/v1/agents").await.unwrap().good().unwrap();
    assert_eq!(
        (&agents["agents"][0]["name"], &agents["agents"][0]["work"]),
        (&json!("main"), &Value::Null)
    );
    play.answer(own, "deny").await.good().unwrap();
    play.ended("main", his).await;
    assert_eq!(code(&file(&paul, own, 0).await), (403, "not_approver"));
    // Another content is not what was judged, and neither is a link in its place.
    stage.write("teams/main/work/a.sh", "echo other");
    assert_eq!(code(&file(&api, &question, at("a.sh")).await), (409, "changed"));
    let place = stage.home().join("teams/main/work/a.sh");
    fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
    assert_eq!(code(&file(&api, &question, at("a.sh")).await), (409, "changed"));
    play.answer(&question, "deny").await.good().unwrap();
    play.ended("main", &item).await;
}

#[tokio::test]
async fn gate_everybody_is_told_what_their_role_may_do() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let me = play.api().get("/api/v1/session").await.unwrap().good().unwrap();
    let may = me["may"].as_array().unwrap();
    assert!(may.contains(&json!("approve")) && may.contains(&json!("read_logs")), "{me}");
    assert!(!may.contains(&json!("shutdown")), "through the local socket alone: {me}");
    let made = json!({"name": "vera", "role": "viewer"});
    let made = play.api().post("/api/v1/tokens", &made).await.unwrap().good().unwrap();
    let viewer = play.hive.api(made["token"].as_str()).unwrap();
    let me = viewer.get("/api/v1/session").await.unwrap().good().unwrap();
    let expected = json!([
        "see_self",
        "list_agents",
        "read_history",
        "read_files",
        "watch",
        "connect",
        "read_settings",
        "read_metrics",
        "read_audit",
        "decide"
    ]);
    assert_eq!(me["may"], expected);
}
