//! What agents ask the operator, at the doors of a person: over the WebSocket and in the terminal.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::{Reply, Terminal, WsClient, locate};

use crate::stage::{Play, Stage};

/// `main` asks which colour it is, and says the answer.
async fn asking(stage: &Stage) -> Play {
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (text.split_once("\nAnswer:\n"), request.steps_done()) {
            (Some((_, answer)), _) => Reply::say(&format!("It is {answer}.")),
            (None, 0) => Reply::new().tool("escalate", json!({"message": "Which colour?"})),
            (None, _) => Reply::say("I have asked."),
        }
    });
    stage.up().await
}

/// A durable frame, whatever came before it.
async fn durable(client: &mut WsClient, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        if let Some(frame) = client.durable().values().find(|frame| fits(frame)) {
            return frame.clone();
        }
        client.next().await.unwrap().unwrap();
    }
}

/// The next live event of this kind.
async fn event(client: &mut WsClient, kind: &str) -> Value {
    let is = |frame: &Value| frame["event"]["type"] == kind;
    client.find(kind, is).await.unwrap()["event"].clone()
}

#[tokio::test]
async fn org_a_question_to_the_operator_is_told_and_answered_over_the_websocket() {
    let stage = Stage::new().await;
    let play = asking(&stage).await;
    let mut client = play.ws().await;
    let subscribe = json!({"type": "subscribe", "agent": "main", "session": client.channel()});
    client.send(&subscribe).await.unwrap();
    client.say("m1", "paint it").await.unwrap();
    let asked = event(&mut client, "question_asked").await;
    let key = json!(client.channel());
    assert_eq!((&asked["agent"], &asked["session_key"]), (&json!("main"), &key), "{asked}");
    assert!(asked["expires_at"].as_i64() > asked["at"].as_i64(), "{asked}");
    let first = durable(&mut client, |frame| frame["type"] == "response").await;
    assert_eq!(first["content"], "I have asked.");
    let answer = |text: &str| json!({"type": "answer", "id": asked["question"], "answer": text});
    client.send(&answer(" ")).await.unwrap();
    let refused = client.next_of("error").await.unwrap();
    assert_eq!(
        (&refused["code"], &refused["message_id"]),
        (&json!("invalid_answer"), &asked["question"])
    );
    client.send(&answer("blue")).await.unwrap();
    let answered = client.next_of("answered").await.unwrap();
    assert_eq!(answered["question"], asked["question"]);
    client.send(&answer("red")).await.unwrap();
    assert_eq!(client.next_of("error").await.unwrap()["code"], "already_ended");
    let last = durable(&mut client, |frame| frame["about"] == "m1").await;
    assert_eq!(last["content"], "It is blue.");
    // The end was told once, before anything came of it.
    let since = asked["seq"].as_i64().unwrap();
    let mut watcher = play.ws().await;
    let subscribe = json!({"type": "subscribe", "agent": "main", "since": since});
    watcher.send(&subscribe).await.unwrap();
    let ended = event(&mut watcher, "question_ended").await;
    assert_eq!((&ended["question"], &ended["state"]), (&asked["question"], &json!("answered")));
    assert_eq!(ended["session"], asked["session"]);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_question_that_is_cancelled_is_told_to_need_no_answer() {
    let stage = Stage::new().await;
    let play = asking(&stage).await;
    let mut client = play.ws().await;
    client.send(&json!({"type": "subscribe", "agent": "main"})).await.unwrap();
    client.say("m1", "paint it").await.unwrap();
    let asked = event(&mut client, "question_asked").await;
    durable(&mut client, |frame| frame["type"] == "response").await;
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    let root = listed["questions"][0]["root"].as_str().unwrap();
    let path = format!("/api/v1/inbox/{root}/cancel");
    play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
    let ended = event(&mut client, "question_ended").await;
    assert_eq!((&ended["question"], &ended["state"]), (&asked["question"], &json!("withdrawn")));
}

fn chat(stage: &Stage) -> Terminal {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).argument("chat");
    start.on_terminal(80, 40).unwrap()
}

#[tokio::test]
async fn org_a_question_to_the_operator_is_answered_in_the_terminal() {
    let stage = Stage::new().await;
    let _play = asking(&stage).await;
    let mut first = chat(&stage);
    first.sees("/help for commands").await.unwrap();
    first.press("/answer nothing\r").unwrap();
    first.sees("No question waits here.").await.unwrap();
    first.press("paint it\r").unwrap();
    let shown = first.sees("main waits for an answer: /answer TEXT").await.unwrap();
    assert!(shown.contains("⬡ main asks\n  │ Which colour?\n  until "), "{shown}");
    // Another terminal finds it there.
    let mut second = chat(&stage);
    second.sees("main waits for an answer: /answer TEXT").await.unwrap();
    second.press("/answer the blue one\r").unwrap();
    for terminal in [&mut first, &mut second] {
        terminal.sees("✓ answered: Which colour?").await.unwrap();
        let shown = terminal.sees("It is the blue one.").await.unwrap();
        assert!(!shown.contains("waits for an answer"), "{shown}");
    }
    for mut terminal in [first, second] {
        terminal.press("\x04").unwrap();
        assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    }
}
