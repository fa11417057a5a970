//! A newcomer's first minute, without any key.

use serde_json::json;
use skep_testkit::hive::Start;
use skep_testkit::{Reply, locate};

use crate::stage::Stage;

#[tokio::test]
async fn a_bare_machine_gets_an_answer_with_a_tool_call() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let skep = locate::skep().unwrap();
    let mut hive = Start::up(&skep, &home).listening().await.unwrap();
    let command = |arguments: &[&str]| {
        arguments.iter().fold(Start::new(&skep, &home), |start, word| start.argument(*word))
    };
    let sent = command(&["send", "main", "hello", "--wait"]).finish().await.unwrap();
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(sent.stdout.contains("You said: hello"), "{}", sent.stdout);
    let shown = command(&["history", "show", "main", "--view", "full"]).finish().await.unwrap();
    assert!(shown.stdout.contains("calls read {\"file_path\":\"welcome.md\"}"), "{}", shown.stdout);
    assert!(shown.stdout.contains("# Welcome to your hive"), "{}", shown.stdout);
    let down = command(&["down"]).finish().await.unwrap();
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    let ended = hive.wait(std::time::Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn a_message_over_the_real_wire_is_answered_and_kept() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("a bee in a skep"));
    let play = stage.up().await;
    let answer = play.ask("main", "what are you?").await;
    assert_eq!(answer["state"], "done");
    assert_eq!(answer["response"]["content"], "a bee in a skep");
    let history = play.history("main", "main").await;
    let said: Vec<_> = history.iter().map(|row| (&row["role"], &row["content"][0])).collect();
    assert_eq!(
        said,
        [
            (&json!("user"), &json!({"type": "text", "text": "what are you?"})),
            (&json!("assistant"), &json!({"type": "text", "text": "a bee in a skep"})),
        ]
    );
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}
