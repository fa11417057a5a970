#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::vocab::ids::{AgentName, CallId, SessionId, TurnId};

/// Rows from words: `1u10` is ten bytes of a user in turn 1, `a` an assistant, `c` an assistant
/// that calls, `r` a result, `s` a system row.
fn rows(words: &str) -> Vec<Arc<Message>> {
    let row = |(seq, word): (i64, &str)| {
        let (turn, kind, size) = (&word[..1], &word[1..2], word[2..].parse::<usize>().unwrap());
        let text = Block::text("x".repeat(size));
        let call = Block::ToolCall {
            id: CallId::new("c"),
            name: "look".into(),
            arguments: json!({"t": "x".repeat(size)}),
        };
        let mut body = match kind {
            "c" => Body::assistant(vec![call], None),
            "r" => Body::tool_result(CallId::new("c"), "look", "x".repeat(size), false),
            _ => Body::assistant(vec![text], None),
        };
        body.role = match kind {
            "u" => Role::User,
            "s" => Role::System,
            "r" => Role::ToolResult,
            _ => Role::Assistant,
        };
        Arc::new(Message {
            tag: "history".into(),
            id: word.into(),
            agent_id: AgentName::new("main"),
            session_id: SessionId::new("s"),
            turn: TurnId::new(turn),
            seq,
            timestamp: 0,
            body,
        })
    };
    (1..).zip(words.split_whitespace()).map(row).collect()
}

#[test]
fn where_a_session_is_cut() {
    let cases = [
        // As much as fits into a quarter stays whole.
        ("1u100 1a900 2u100 2a900 3u100 3a100", Some(4)),
        ("1u900 1a900 2u50 2a50 3u50 3a50 4u50", Some(2)),
        // Nothing fits: the last turn stays all the same.
        ("1u1000 1a1000 2u2000 2a2000", Some(2)),
        // One turn: between its steps, at an assistant, never before a result.
        ("1u100 1c100 1r4000 1c100 1r100", Some(3)),
        ("1u100 1c100 1r4000 1c100 1r9000", Some(3)),
        // Before the last turn there is too little: inside it there is enough.
        ("1u10 1a10 2u10 2c10 2r5000 2c10 2r10", Some(5)),
        // Nothing that could go.
        ("1u9000", None),
        ("1u10 1c10 1r9000", None),
        ("", None),
        // What is told to people only weighs nothing.
        ("1u500 1a500 2s9000 2u100", Some(2)),
    ];
    for (words, expected) in cases {
        assert_eq!(cut(&rows(words)), expected, "{words}");
    }
}

#[test]
fn where_it_is_cut_when_a_person_asks() {
    let cases = [
        ("", None),
        ("1s10", None),
        ("1u10 1a10", Some(2)),
        ("1u10 1a10 2u10 2a10", Some(2)),
        ("1u900 1a900 2u900 2a900 3u9 3a9", Some(4)),
    ];
    for (words, expected) in cases {
        assert_eq!(cut_asked(&rows(words)), expected, "{words}");
    }
}

#[test]
fn full_is_three_quarters_of_the_window() {
    let table = [(0, 100, false), (74, 100, false), (75, 100, true), (u64::MAX, 100, true)];
    for (used, window, expected) in table {
        assert_eq!(is_full(used, window), expected, "{used} of {window}");
    }
}

#[test]
fn a_seam_says_to_programs_what_it_says_to_people() {
    let told = Seam { upto: 12, messages: 9, reason: Reason::Full };
    let body = seam(&told, "notes");
    assert_eq!(seam_of(&body), Some((told, "notes")));
    assert!(!body.is_spoken(), "the simple view leaves it out");
    let mut other = body.clone();
    other.role = Role::User;
    assert_eq!(seam_of(&other), None, "nobody else can write one");
}

#[test]
fn notes_without_a_model_are_bounded() {
    let many = (0..200).map(|_| "1u9000 1c10 1r10 1a9000 ").collect::<String>();
    let notes = plain_notes(&rows(&many));
    assert!(notes.contains("Tools used so far: look"));
    assert!(notes.len() < (NEWEST + 2) * (TEXT_CHARACTERS + 100), "{}", notes.len());
}
