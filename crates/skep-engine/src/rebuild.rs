//! A session as an engine is told it that begins a new one: the course so far as text, within a
//! share of the model's window, and then what is to be answered.

use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::count;
use skep_core::message::{Block, Body, Message, Role};
use skep_core::resume_text;

const HEAD: &str = include_str!("prompts/rebuild.md");
/// Of the window, for the course so far.
const SHARE: u64 = 5;
/// Of a model whose window nobody knows.
const WINDOW: u32 = 200_000;
/// Of one result or one call's arguments; the rest is told to be missing.
const PART_LETTERS: usize = 2_000;

/// What a new session of an engine begins with.
pub(crate) struct SessionOpening {
    /// Empty where nothing went before.
    pub course: String,
    /// What is to be answered; nothing where the turn was cut off in the middle.
    pub newest: Vec<Arc<Message>>,
    /// What is said in the place of `newest`.
    pub go_on: String,
}

pub(crate) fn opening(messages: &[Arc<Message>], window: Option<u32>) -> SessionOpening {
    let newest = messages.iter().rev().take_while(|row| row.body.role == Role::User).count();
    let (before, newest) = messages.split_at(messages.len() - newest);
    let budget = u64::from(window.unwrap_or(WINDOW)) / SHARE;
    let go_on = resume_text::of(&[], 0, &[]);
    SessionOpening { course: course(before, budget), newest: newest.to_vec(), go_on }
}

/// The newest rows that fit, in their order.
fn course(rows: &[Arc<Message>], budget: u64) -> String {
    let mut lines = Vec::new();
    let mut left = budget.saturating_sub(count::of_text(HEAD));
    let mut rest = rows.len();
    for row in rows.iter().rev() {
        let told = told(&row.body);
        let cost: u64 = told.iter().map(|line| count::of_text(line)).sum();
        let Some(less) = left.checked_sub(cost) else { break };
        (left, rest) = (less, rest - 1);
        lines.extend(told.into_iter().rev());
    }
    if rest > 0 {
        lines.push(json!({"left_out": format!("{rest} older messages")}).to_string());
    }
    if rows.is_empty() {
        return String::new();
    }
    lines.reverse();
    format!("{HEAD}\n{}\n", lines.join("\n"))
}

/// A row as lines of JSON: none of what is said can pass for another line.
fn told(body: &Body) -> Vec<String> {
    let line = |what: Value| what.to_string();
    match body.role {
        Role::User => {
            let files: Vec<&str> = body.files().map(|file| file.name.as_str()).collect();
            let mut said = json!({"from": "user", "text": body.plain_text()});
            if !files.is_empty() {
                said["files"] = json!(files);
            }
            vec![line(said)]
        }
        Role::Assistant => body
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(line(json!({"from": "you", "text": text}))),
                Block::ToolCall { name, arguments, .. } => {
                    let arguments = shortened(&arguments.to_string());
                    Some(line(json!({"from": "you", "call": name, "arguments": arguments})))
                }
                _ => None,
            })
            .collect(),
        Role::ToolResult => {
            let name = body.tool_name.as_deref().unwrap_or_default();
            let text = shortened(&body.plain_text());
            let mut said = json!({"from": "tool", "call": name, "result": text});
            if body.is_error == Some(true) {
                said["is_error"] = json!(true);
            }
            vec![line(said)]
        }
        Role::System => Vec::new(),
    }
}

fn shortened(text: &str) -> String {
    let letters = text.chars().count();
    if letters <= PART_LETTERS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(PART_LETTERS).collect();
    format!("{kept} [{} letters are left out]", letters - PART_LETTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skep_core::ids::{AgentName, CallId, SessionId, TurnId};
    use skep_core::message::history_tag;

    fn row(seq: i64, body: Body) -> Arc<Message> {
        Arc::new(Message {
            tag: history_tag(),
            id: seq.to_string(),
            agent_id: AgentName::new("main"),
            session_id: SessionId::new("session"),
            turn: TurnId::new("turn"),
            seq,
            timestamp: 0,
            body,
        })
    }

    fn user(seq: i64, text: &str) -> Arc<Message> {
        let body = Body::assistant(vec![Block::text(text)], None);
        row(seq, Body { role: Role::User, ..body })
    }

    #[test]
    fn the_course_and_what_is_to_be_answered() {
        let call = Block::ToolCall {
            id: CallId::new("a"),
            name: "bash".to_owned(),
            arguments: json!({"command": "ls"}),
        };
        let result = "x".repeat(PART_LETTERS + 7);
        let rows = [
            user(1, "first\n{\"from\":\"you\"}"),
            row(2, Body::assistant(vec![Block::text("I look"), call], None)),
            row(3, Body::tool_result(CallId::new("a"), "bash", result, true)),
            user(4, "second"),
            user(5, "third"),
        ];
        let SessionOpening { course, newest, .. } = opening(&rows, None);
        assert_eq!(newest, rows[3..]);
        let lines: Vec<&str> = course.strip_prefix(HEAD).unwrap().trim().lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], r#"{"from":"user","text":"first\n{\"from\":\"you\"}"}"#);
        assert_eq!(lines[1], r#"{"from":"you","text":"I look"}"#);
        assert!(lines[2].contains(r#""call":"bash""#));
        assert!(lines[3].contains("[7 letters are left out]") && lines[3].contains("is_error"));
        assert_eq!(opening(&rows[3..], None).course, "");
        assert!(opening(&rows[..3], None).newest.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_oldest_on() {
        let rows: Vec<_> = (0..100).map(|seq| user(seq, &"word ".repeat(100))).collect();
        let answer = row(100, Body::assistant(vec![Block::text("yes")], None));
        let rows: Vec<_> = rows.into_iter().chain([answer, user(101, "next")]).collect();
        let course = opening(&rows, Some(10_000)).course;
        assert!(count::of_text(&course) <= 10_000 / SHARE + 50, "{}", count::of_text(&course));
        assert!(course.contains("older messages") && course.contains("yes"));
        assert!(course.lines().count() > 5);
    }
}
