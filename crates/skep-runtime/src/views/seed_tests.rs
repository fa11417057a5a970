//! A history of another program becomes messages and the same lines again.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use skep_core::ids::AgentName;
use skep_core::message::Message;

use crate::door::HistoryForm;
use crate::views::transcript;

const LINES: &str = include_str!("seed_history.jsonl");

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(text: &str) -> Vec<Message> {
    transcript::read(&AgentName::new("main"), text).unwrap()
}

fn written(messages: &[Message], form: HistoryForm) -> String {
    messages.iter().map(|message| transcript::write(message, form, "You").unwrap()).collect()
}

#[test]
fn it_gets_ids_turns_order_and_milliseconds() {
    let messages = read(LINES);
    let facts: Vec<_> = messages
        .iter()
        .map(|it| (it.seq, it.timestamp, it.turn.0.rsplit('-').next().unwrap().to_owned()))
        .collect();
    let t = |seq: i64, ms: i64, turn: &str| (seq, 1_726_000_000_000 + ms, turn.to_owned());
    let expected = [
        t(1, 0, "t1"),
        t(2, 1250, "t1"),
        t(3, 2000, "t1"),
        // The result that nobody wrote down stands where the model goes on.
        t(4, 3000, "t1"),
        t(5, 3000, "t1"),
        t(6, 4000, "t2"),
        t(7, 4000, "t2"),
    ];
    assert_eq!(facts, expected);
    let meta = messages[1].body.meta.as_ref().unwrap();
    assert_eq!((meta.model.as_str(), meta.provider.as_str()), ("m-1", "p"));
    assert_eq!(messages[3].body.tool_call_id.as_ref().unwrap().as_str(), "c2");
    let imported = |at: usize| messages[at].body.details.as_ref().unwrap()["imported"].clone();
    assert_eq!(imported(0), json!({"content": "hello"}));
    assert_eq!(imported(4)["topic"], "t1");
    assert_eq!(imported(5), json!({"id": "own-id"}));
    assert_eq!(messages[2].body.details, Some(json!({"diff": "-a"})));
    // The same history is the same session, in each agent its own.
    assert_eq!(read(LINES), messages);
    let other = transcript::read(&AgentName::new("cto"), LINES).unwrap();
    assert_ne!(other[0].session_id, messages[0].session_id);
}

#[test]
fn a_round_trip_changes_nothing() {
    let messages = read(LINES);
    let seed = written(&messages, HistoryForm::Seed);
    assert_eq!(lines(&seed), lines(LINES));
    // Through our own form, too.
    let own = written(&messages, HistoryForm::Skep);
    assert_eq!(read(&own), messages);
    assert_eq!(written(&read(&own), HistoryForm::Seed), seed);
    // A history of ours, out as a seed and in again, says the same.
    let bare = seed.replace(r#","id":"own-id""#, "");
    let again = written(&read(&bare), HistoryForm::Seed);
    assert_eq!(lines(&again), lines(&bare));
}

#[test]
fn what_is_no_message_is_refused_with_its_line() {
    let first = r#"{"role":"user","content":"x"}"#;
    for (line, why) in [
        ("[]", "line 2: this is not JSON"),
        (r#"{"content":"x"}"#, "line 2: `role` is missing"),
        (r#"{"role":"user","content":7}"#, "line 2: `content` is neither"),
        (r#"{"role":"king","content":"x"}"#, "line 2: this is not a message"),
        (r#"{"role":"user","content":[{"type":"dance"}]}"#, "line 2: this is not a message"),
        (r#"{"role":"toolResult","content":"x"}"#, "line 2: `toolCallId` is missing"),
        (r#"{"role":"toolResult","content":"x","toolCallId":"c"}"#, "line 2: no call before"),
    ] {
        let read = transcript::read(&AgentName::new("main"), &format!("{first}\n{line}\n"));
        let said = read.unwrap_err();
        assert!(said.starts_with(why), "{line}: {said}");
    }
}
