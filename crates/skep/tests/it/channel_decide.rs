//! A person at a terminal decides: with `skep approve`, one question after the other, and in the
//! middle of `skep chat`.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::{Reply, Terminal, locate};

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
const CONTROL_D: &str = "\x04";

/// The message is the command; its answer is said.
async fn obeys() -> Stage {
    let stage = Stage::patient().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let said = request.last_user_text();
            Reply::new().tool("bash", json!({"command": said.rsplit('\n').next().unwrap()}))
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
    stage
}

fn terminal(stage: &Stage, command: &str) -> Terminal {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).argument(command);
    start.on_terminal(120, 60).unwrap()
}

async fn waits(play: &Play, session: &str, command: &str) -> String {
    let item = play.item("main", session, command).await;
    play.until_state("main", &item, "waiting").await;
    item
}

async fn answer(play: &Play, item: &str) -> String {
    let ended = play.ended("main", item).await;
    ended["response"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn channel_approve_asks_about_each_and_shows_what_a_lasting_yes_covers() {
    let stage = obeys().await;
    let play = stage.up().await;
    let one = waits(&play, "one", "echo a b").await;
    let two = waits(&play, "two", "echo c").await;
    let three = waits(&play, "three", "date +%Y").await;
    let four = waits(&play, "four", "rm important").await;
    let mut terminal = terminal(&stage, "approve");
    // The oldest first, whole.
    let shown = terminal.sees("Enter to leave it:").await.unwrap();
    for line in ["bash of main", "session  one", "  command: echo a b"] {
        assert!(shown.contains(line), "{line} not in {shown}");
    }
    assert!(!shown.contains("echo c"), "one at a time: {shown}");
    terminal.press("a\r").unwrap();
    let patterns = terminal.sees("a pattern of your own, Enter to go back:").await.unwrap();
    assert!(patterns.contains("  1  echo a b $\n  2  echo a\n  3  echo\n"), "{patterns}");
    // One that would not answer it leads back to the question.
    terminal.press("ls\r").unwrap();
    terminal.sees("that would not answer this question").await.unwrap();
    terminal.press("a\r").unwrap();
    let twice = |text: &str| text.matches("Enter to go back:").count() == 2;
    terminal.until("the patterns again", twice).await.unwrap();
    terminal.press("3\r").unwrap();
    let covers = terminal.sees("is that what you want?").await.unwrap();
    let too = "it covers this call, and answers these that wait too:\n  bash in two: echo c";
    assert!(covers.contains(too), "{covers}");
    terminal.press("y\r").unwrap();
    terminal.sees("approved always: bash of main").await.unwrap();
    // The second is decided with it and not asked about.
    let third = terminal.sees("  command: date +%Y").await.unwrap();
    assert!(third.contains("was decided meanwhile") && !third.contains("session  two"), "{third}");
    terminal.press("s\re\r").unwrap();
    terminal.sees("it covers this call, and nothing else that waits").await.unwrap();
    terminal.press("y\r").unwrap();
    terminal.sees("approved session: bash of main").await.unwrap();
    terminal.sees("  command: rm important").await.unwrap();
    terminal.press("n\r").unwrap();
    terminal.sees("why, for the agent").await.unwrap();
    terminal.press("use the trash\r").unwrap();
    terminal.sees("denied once: bash of main").await.unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));

    assert_eq!(answer(&play, &one).await, "it said: a b\n[exit code 0]");
    assert_eq!(answer(&play, &two).await, "it said: c\n[exit code 0]");
    assert!(answer(&play, &three).await.ends_with("[exit code 0]"));
    let denied = answer(&play, &four).await;
    let no = "it said: approval_denied: the call of `bash` was not run: operator denied it and \
              says: use the trash";
    assert!(denied.starts_with(no), "{denied}");
    let config = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
    assert!(config.contains(r#"{effect: allow, tool: "bash", command: "echo"}"#), "{config}");
    assert_eq!(play.questions().await, Vec::<Value>::new());
}

#[tokio::test]
async fn channel_chat_decides_in_place() {
    let stage = obeys().await;
    let play = stage.up().await;
    let mut terminal = terminal(&stage, "chat");
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("/approve\r").unwrap();
    terminal.sees("Nothing here waits for you.").await.unwrap();
    let elsewhere = waits(&play, "elsewhere", "echo c").await;
    terminal.press("echo a b\r").unwrap();
    let shown = terminal.sees("/deny WHY").await.unwrap();
    for line in ["? bash of main waits for you", "command: echo a b", "/approve always echo a ·"] {
        assert!(shown.contains(line), "{line} not in {shown}");
    }
    assert!(!shown.contains("echo c"), "what waits in another conversation is not asked here");
    // Talk decides nothing; it waits to be heard.
    terminal.press("yes, do it\r").unwrap();
    terminal.sees("waiting: yes, do it").await.unwrap();
    assert_eq!(play.questions().await.len(), 2);
    terminal.press("/approve always echo\r").unwrap();
    let covers = terminal.sees("The same line once more").await.unwrap();
    assert!(covers.contains("also what waits elsewhere: bash in elsewhere: echo c"));
    assert_eq!(play.questions().await.len(), 2, "shown, not done");
    terminal.press("/approve always echo\r").unwrap();
    terminal.sees("The question is approved by operator, always.").await.unwrap();
    assert_eq!(answer(&play, &elsewhere).await, "it said: c\n[exit code 0]");
    // What was said meanwhile is heard now: asked about, and denied with a reason.
    let heard = terminal.sees("command: yes, do it").await.unwrap();
    assert!(heard.contains("● bash echo a b"), "{heard}");
    terminal.press("/deny use words\r").unwrap();
    terminal.sees("The question is denied by operator.").await.unwrap();
    terminal.sees("operator denied it and says: use words").await.unwrap();
    // Whoever comes back finds what waits.
    terminal.press("date +%Y\r").unwrap();
    terminal.sees("command: date +%Y").await.unwrap();
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    let mut again = self::terminal(&stage, "chat");
    again.sees("command: date +%Y").await.unwrap();
    again.press("/approve\r").unwrap();
    again.sees("The question is approved by operator, once.").await.unwrap();
    again.until("its answer", |text| text.contains("it said: 2")).await.unwrap();
    assert_eq!(play.questions().await, Vec::<Value>::new());
    again.press(CONTROL_D).unwrap();
    assert_eq!(again.wait().await.unwrap().code(), Some(0));
}
