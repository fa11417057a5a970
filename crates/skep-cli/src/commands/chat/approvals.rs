//! Approvals that are pending in this conversation, and the replies of the person at the terminal.

use serde_json::{Value, json};

use super::commands::ApprovalReply;
use crate::commands::approve::choices;
use crate::print::{foreign, items};

/// What the terminal does with a reply.
#[derive(Debug, PartialEq)]
pub enum ReplyAction {
    /// The frame for the hive.
    Decide(Value),
    /// Show what a pattern covers before the rule is written.
    Preview {
        id: String,
        patterns: Vec<String>,
    },
    Note(String),
}

#[derive(Default)]
pub struct PendingApprovals {
    /// Oldest first.
    open: Vec<Value>,
    /// The first pending approval when the line was started: a reply never applies to a later one.
    about: Option<String>,
    /// The approval and patterns of the last preview.
    previewed: Option<(String, Vec<String>)>,
}

impl PendingApprovals {
    /// Replaces the pending approvals; returns the new ones.
    pub fn know(&mut self, mut open: Vec<Value>) -> Vec<Value> {
        open.sort_by_key(|question| question["asked_at"].as_i64());
        let known = |one: &Value| self.open.iter().any(|old| old["id"] == one["id"]);
        let fresh = open.iter().filter(|one| !known(one)).cloned().collect();
        self.open = open;
        fresh
    }

    pub fn decided(&mut self, id: &str) {
        self.open.retain(|question| question["id"] != id);
    }

    pub fn begin_line(&mut self) {
        self.about = self.open.first().and_then(|one| one["id"].as_str()).map(str::to_owned);
    }

    pub fn answer(&mut self, answer: ApprovalReply) -> ReplyAction {
        let note = |text: &str| ReplyAction::Note(text.to_owned());
        let Some(about) = &self.about else { return note("Nothing here waits for you.") };
        let Some(question) = self.open.iter().find(|one| one["id"] == about.as_str()) else {
            return note("That question needs no answer any more.");
        };
        let mut frame = json!({"type": "approve", "id": about, "hash": question["hash"]});
        match answer {
            ApprovalReply::Deny { note } => {
                frame["decision"] = "deny".into();
                frame["note"] = note.map_or(Value::Null, Value::from);
            }
            ApprovalReply::Once => frame["decision"] = "approve".into(),
            ApprovalReply::Session { patterns } => {
                (frame["decision"], frame["scope"]) = ("approve".into(), "session".into());
                frame["patterns"] = patterns.into();
            }
            ApprovalReply::Always { patterns } if patterns.is_empty() => {
                let ways = self::patterns(question);
                return ReplyAction::Note(match ways.is_empty() {
                    true => "Say what is allowed from now on: /approve always PATTERN".to_owned(),
                    false => format!("Say what is allowed from now on: {}", ways.join(" or ")),
                });
            }
            ApprovalReply::Always { patterns } => {
                let shown = Some((about.clone(), patterns.clone()));
                if self.previewed != shown {
                    let id = about.clone();
                    self.previewed = shown;
                    return ReplyAction::Preview { id, patterns };
                }
                (frame["decision"], frame["scope"]) = ("approve".into(), "always".into());
                frame["patterns"] = patterns.into();
            }
        }
        if let Some(fields) = frame.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        ReplyAction::Decide(frame)
    }
}

/// The commands for a lasting approval of this call.
pub fn patterns(question: &Value) -> Vec<String> {
    let typed = |patterns: &Vec<String>| foreign(&patterns.join("; "));
    choices(question).iter().map(|set| format!("/approve always {}", typed(set))).collect()
}

/// Describes what patterns cover.
pub fn covered(patterns: &[String], found: &Value) -> String {
    let pattern = foreign(&patterns.join("; "));
    if found["covers"] != true {
        let why = foreign(found["why"].as_str().unwrap_or_default());
        return format!("`{pattern}` would not answer this question: {why}");
    }
    let others = items(&found["others"]).iter();
    let others: Vec<String> = others
        .map(|other| {
            let text = |key: &str| foreign(other[key].as_str().unwrap_or_default());
            format!("{} in {}: {}", text("tool"), text("session_key"), text("summary"))
        })
        .collect();
    let also = match others.is_empty() {
        true => "no other call that waits".to_owned(),
        false => format!("also what waits elsewhere: {}", others.join("; ")),
    };
    format!(
        "`{pattern}` covers this call and {also}. The same line once more writes the rule: \
         /approve always {pattern}"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn question(id: &str, asked_at: i64) -> Value {
        json!({"id": id, "hash": format!("hash of {id}"), "asked_at": asked_at,
               "commands": [{"text": "echo a", "patterns": ["echo a $", "echo"]}]})
    }

    #[test]
    fn channel_an_answer_is_about_what_stood_first_when_the_line_was_begun() {
        let mut approvals = PendingApprovals::default();
        assert_eq!(
            approvals.answer(ApprovalReply::Once),
            ReplyAction::Note("Nothing here waits for you.".into())
        );
        assert_eq!(approvals.know(vec![question("b", 2), question("a", 1)]).len(), 2);
        approvals.begin_line();
        // Somebody else answers the first while the line is written, and another one comes.
        assert_eq!(approvals.know(vec![question("b", 2), question("c", 3)]), [question("c", 3)]);
        let late = ReplyAction::Note("That question needs no answer any more.".into());
        assert_eq!(approvals.answer(ApprovalReply::Once), late);
        approvals.begin_line();
        let frame = json!({"type": "approve", "id": "b", "hash": "hash of b", "decision": "deny",
                           "note": "not now"});
        let no = ApprovalReply::Deny { note: Some("not now".into()) };
        assert_eq!(approvals.answer(no), ReplyAction::Decide(frame));
    }

    #[test]
    fn channel_a_lasting_yes_is_shown_before_it_is_given() {
        let mut approvals = PendingApprovals::default();
        approvals.know(vec![question("a", 1)]);
        approvals.begin_line();
        let always = |pattern: Option<&str>| ApprovalReply::Always {
            patterns: pattern.into_iter().map(str::to_owned).collect(),
        };
        let ReplyAction::Note(which) = approvals.answer(always(None)) else { panic!("no pattern") };
        assert_eq!(
            which,
            "Say what is allowed from now on: /approve always echo a $ or /approve always echo"
        );
        let preview = |pattern: &str| ReplyAction::Preview {
            id: "a".into(),
            patterns: vec![pattern.to_owned()],
        };
        assert_eq!(approvals.answer(always(Some("echo"))), preview("echo"));
        assert_eq!(approvals.answer(always(Some("ls"))), preview("ls"));
        let ReplyAction::Decide(frame) = approvals.answer(always(Some("ls"))) else {
            panic!("shown")
        };
        assert_eq!((&frame["scope"], &frame["patterns"]), (&json!("always"), &json!(["ls"])));
    }
}
