//! Files that are swapped between a question and its answer: what a person said yes to runs, and
//! nothing else, however the command names it.

use std::fs;
use std::os::unix::fs::symlink;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
const WORK: &str = "teams/main/work";

/// Runs the command that the message is, and says what came of it.
fn obeys(stage: &Stage) {
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            let command: Value = serde_json::from_str(text.rsplit('\n').next().unwrap()).unwrap();
            Reply::new().tool("bash", json!({"command": command}))
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
}

/// `[command, file]` in each line.
fn spellings() -> Vec<(String, String)> {
    let lines = include_str!("../../../skep-turn/src/gate/spellings.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn open_questions(play: &Play, count: usize) -> Vec<Value> {
    let path = "/api/v1/approvals?state=open&agent=main&limit=500";
    let found = wait::until_async("every question", PATIENCE, async || {
        let page = play.api().get(path).await.unwrap().good().unwrap();
        let open = page["approvals"].as_array().unwrap().clone();
        (open.len() >= count).then_some(open)
    });
    found.await.unwrap()
}

#[tokio::test]
async fn gate_a_swapped_file_is_asked_about_again_however_it_is_spelled() {
    let all = spellings();
    assert!(all.len() >= 57, "seven of the issue and fifty more");
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    let files = ["run.py", "mk", "lib.sh", "sub/run.py", "pkg/run.py", "sub/deep/x.sh", "other"];
    for file in files {
        stage.write(&format!("{WORK}/{file}"), "touch ran\n");
    }
    let work = stage.home().join(WORK);
    symlink("run.py", work.join("link")).unwrap();
    symlink("sub", work.join("cur")).unwrap();
    obeys(&stage);
    let play = stage.up().await;
    let sent = all.iter().enumerate().map(async |(number, (command, _))| {
        play.item("main", &format!("s{number}"), &json!(command).to_string()).await
    });
    let items: Vec<String> = stream::iter(sent).buffer_unordered(8).collect().await;
    let asked = open_questions(&play, items.len()).await;
    // The same size, in place; what was not there is made.
    for (_, file) in &all {
        stage.write(&format!("{WORK}/{file}"), "touch evl\n");
    }
    let answers = asked.iter().map(|question| play.answer(question, "approve"));
    let answers: Vec<_> = stream::iter(answers).buffer_unordered(8).collect().await;
    answers.into_iter().for_each(|answer| drop(answer.good().unwrap()));
    let again = open_questions(&play, items.len()).await;
    for (number, (command, _)) in all.iter().enumerate() {
        let session = format!("s{number}");
        let of = |questions: &[Value]| {
            let found = questions.iter().find(|one| one["session_key"] == session);
            found.map(|one| one["id"].clone())
        };
        let (first, second) = (of(&asked), of(&again));
        assert!(second.is_some() && first != second, "{command}: not asked again");
    }
    let turns = play.state().await["turns"].as_array().unwrap().clone();
    for turn in &turns {
        let said = turn["waiting_for"].as_str().unwrap();
        assert!(said.starts_with("approval of bash again, because "), "{said}");
    }
    assert_eq!(turns.len(), items.len());
    let made = |name: &str| ["", "sub/", "pkg/", "sub/deep/"].map(|at| format!("{at}{name}"));
    let ran: Vec<_> = made("ran").into_iter().chain(made("evl")).collect();
    assert!(ran.iter().all(|name| !work.join(name).exists()), "something ran");
}

/// A plain line runs, whatever else changed; any other is told by the whole workspace.
#[tokio::test]
async fn gate_a_plain_line_is_not_held_up_by_other_files() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.write(&format!("{WORK}/run.sh"), "echo ran >> log\n");
    obeys(&stage);
    let play = stage.up().await;
    let work = stage.home().join(WORK);
    for (command, bound) in [("sh run.sh", "named"), ("sh run.sh $NOTHING", "workspace")] {
        let item = play.item("main", bound, &json!(command).to_string()).await;
        let asked = play.question().await;
        assert_eq!(asked["bound"], bound, "{asked}");
        stage.write(&format!("{WORK}/notes-{bound}"), "new");
        play.answer(&asked, "approve").await.good().unwrap();
        if bound == "workspace" {
            let again = play.question().await;
            assert_ne!(again["id"], asked["id"]);
            let said = play.state().await["turns"][0]["waiting_for"].clone();
            let expected = "approval of bash again, because notes-workspace changed";
            assert_eq!(said, expected);
            assert_eq!(fs::read_to_string(work.join("log")).unwrap(), "ran\n");
            play.answer(&again, "approve").await.good().unwrap();
        }
        assert_eq!(play.ended("main", &item).await["state"], "done");
    }
    assert_eq!(fs::read_to_string(work.join("log")).unwrap(), "ran\nran\n");
}

/// What cannot be bound is said, and a yes to it does not last.
#[tokio::test]
async fn gate_a_workspace_that_cannot_be_bound_is_said_and_approved_once_only() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    fs::create_dir_all(stage.home().join(WORK).join("d/".repeat(140))).unwrap();
    obeys(&stage);
    let play = stage.up().await;
    let item = play.item("main", "main", "\"echo $NOTHING\"").await;
    let asked = play.question().await;
    assert_eq!(asked["bound"], "nothing", "{asked}");
    let said = play.state().await["turns"][0]["waiting_for"].clone();
    assert_eq!(said, "approval of bash; files are not bound");
    for scope in ["session", "always"] {
        let wish = json!({"decision": "approve", "scope": scope, "patterns": ["echo"]});
        let refused = play.decision(&asked, wish).await;
        assert_eq!((refused.status, &refused.json["code"]), (409, &json!("not_bound")), "{scope}");
    }
    play.answer(&asked, "approve").await.good().unwrap();
    assert_eq!(play.ended("main", &item).await["state"], "done");
}
