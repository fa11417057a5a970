//! Calls of this conversation that wait for a person, and what the person at the terminal says
//! about them.

use serde_json::{Value, json};

use super::commands::Answer;
use crate::print::output::foreign;

/// What is to be done about an answer.
#[derive(Debug, PartialEq)]
pub enum Said {
    /// The frame for the hive.
    Decide(Value),
    /// First it is shown what a pattern covers.
    Preview {
        id: String,
        pattern: String,
    },
    Note(String),
}

#[derive(Default)]
pub struct Questions {
    /// The oldest first.
    open: Vec<Value>,
    /// What stood first when the line was begun: an answer is about nothing that came later.
    about: Option<String>,
    /// The pattern whose reach was shown last, and of which question.
    previewed: Option<(String, String)>,
}

impl Questions {
    /// What is open now; gives back what was not shown before.
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

    pub fn answer(&mut self, answer: Answer) -> Said {
        let note = |text: &str| Said::Note(text.to_owned());
        let Some(about) = &self.about else { return note("Nothing here waits for you.") };
        let Some(question) = self.open.iter().find(|one| one["id"] == about.as_str()) else {
            return note("That question needs no answer any more.");
        };
        let mut frame = json!({"type": "approve", "id": about, "hash": question["hash"]});
        match answer {
            Answer::Deny { note } => {
                frame["decision"] = "deny".into();
                frame["note"] = note.map_or(Value::Null, Value::from);
            }
            Answer::Once => frame["decision"] = "approve".into(),
            Answer::Session { pattern } => {
                (frame["decision"], frame["scope"]) = ("approve".into(), "session".into());
                frame["pattern"] = pattern.map_or(Value::Null, Value::from);
            }
            Answer::Always { pattern: None } => {
                let patterns = patterns(question);
                return Said::Note(match patterns.is_empty() {
                    true => "Say what is allowed from now on: /approve always PATTERN".to_owned(),
                    false => format!("Say what is allowed from now on: {}", patterns.join(" or ")),
                });
            }
            Answer::Always { pattern: Some(pattern) } => {
                let shown = Some((about.clone(), pattern.clone()));
                if self.previewed != shown {
                    let id = about.clone();
                    self.previewed = shown;
                    return Said::Preview { id, pattern };
                }
                (frame["decision"], frame["scope"]) = ("approve".into(), "always".into());
                frame["pattern"] = pattern.into();
            }
        }
        if let Some(fields) = frame.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        Said::Decide(frame)
    }
}

/// The commands that a lasting yes to this question may be given with.
pub fn patterns(question: &Value) -> Vec<String> {
    let patterns = question["patterns"].as_array().into_iter().flatten();
    let named = patterns.filter_map(Value::as_str);
    named.map(|pattern| format!("/approve always {}", foreign(pattern))).collect()
}

/// What a pattern covers, in words.
pub fn covered(pattern: &str, found: &Value) -> String {
    let pattern = foreign(pattern);
    if found["covers"] != true {
        let why = foreign(found["why"].as_str().unwrap_or_default());
        return format!("`{pattern}` would not answer this question: {why}");
    }
    let others = found["others"].as_array().into_iter().flatten();
    let others: Vec<String> = others
        .map(|other| {
            let text = |key: &str| foreign(other[key].as_str().unwrap_or_default());
            format!("{} in {}: {}", text("tool"), text("session_key"), text("shown"))
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
               "patterns": ["echo a $", "echo"]})
    }

    #[test]
    fn channel_an_answer_is_about_what_stood_first_when_the_line_was_begun() {
        let mut questions = Questions::default();
        assert_eq!(
            questions.answer(Answer::Once),
            Said::Note("Nothing here waits for you.".into())
        );
        assert_eq!(questions.know(vec![question("b", 2), question("a", 1)]).len(), 2);
        questions.begin_line();
        // Somebody else answers the first while the line is written, and another one comes.
        assert_eq!(questions.know(vec![question("b", 2), question("c", 3)]), [question("c", 3)]);
        let late = Said::Note("That question needs no answer any more.".into());
        assert_eq!(questions.answer(Answer::Once), late);
        questions.begin_line();
        let frame = json!({"type": "approve", "id": "b", "hash": "hash of b", "decision": "deny",
                           "note": "not now"});
        let no = Answer::Deny { note: Some("not now".into()) };
        assert_eq!(questions.answer(no), Said::Decide(frame));
    }

    #[test]
    fn channel_a_lasting_yes_is_shown_before_it_is_given() {
        let mut questions = Questions::default();
        questions.know(vec![question("a", 1)]);
        questions.begin_line();
        let always = |pattern: Option<&str>| Answer::Always { pattern: pattern.map(str::to_owned) };
        let Said::Note(which) = questions.answer(always(None)) else { panic!("no pattern") };
        assert_eq!(
            which,
            "Say what is allowed from now on: /approve always echo a $ or /approve always echo"
        );
        let preview = |pattern: &str| Said::Preview { id: "a".into(), pattern: pattern.to_owned() };
        assert_eq!(questions.answer(always(Some("echo"))), preview("echo"));
        assert_eq!(questions.answer(always(Some("ls"))), preview("ls"));
        let Said::Decide(frame) = questions.answer(always(Some("ls"))) else { panic!("shown") };
        assert_eq!((&frame["scope"], &frame["pattern"]), (&json!("always"), &json!("ls")));
    }
}
