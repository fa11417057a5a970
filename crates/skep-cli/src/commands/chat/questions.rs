//! What the agent asks and tells the operator in this conversation, and the answers of the person
//! at the terminal. A chat message is no answer: the command `/answer` is.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::approvals::ReplyAction;
use super::connection::ChatCommand;
use super::transcript::ChatEntry;
use crate::print::text::indented;
use crate::print::{Style, TermInfo, TextLine, foreign, items, shortened, time};

/// Of a question that is named again.
const NAMED: usize = 60;

#[derive(Default)]
pub struct PendingQuestions {
    /// Oldest first, as the hive lists them.
    open: Vec<Value>,
    /// Answers on their way.
    sent: HashSet<String>,
    /// Those that stand in the conversation.
    shown: HashSet<String>,
    /// The current question when the line was started: an answer never applies to a later one.
    about: Option<String>,
}

impl PendingQuestions {
    /// Replaces the pending questions; returns those that are to be shown.
    pub fn know(&mut self, open: Vec<Value>) -> Vec<ChatEntry> {
        let new = open.iter().filter(|one| self.shown.insert(id(one))).cloned();
        let new = new.map(ChatEntry::Asked).collect();
        self.open = open;
        new
    }

    /// The one that an answer is for: a question before a message, which nobody waits for.
    pub fn current(&self) -> Option<&Value> {
        let mut open = self.open.iter().filter(|one| !self.sent.contains(&id(one)));
        open.clone().find(|one| !is_message(one)).or_else(|| open.next())
    }

    pub fn begin_line(&mut self) {
        self.about = self.current().map(id);
    }

    pub fn answer(&mut self, answer: Option<String>) -> Vec<ReplyAction> {
        let note = |text: &str| vec![ReplyAction::Show(ChatEntry::Note(text.to_owned()))];
        let Some(about) = self.about.clone() else { return note("No question waits here.") };
        let open = self.open.iter().find(|one| id(one) == about);
        let Some(question) = open.filter(|_| !self.sent.contains(&about)) else {
            return note("That question needs no answer any more.");
        };
        let Some(answer) = answer else { return note("The answer stands behind it: /answer TEXT") };
        let mut options = items(&question["options"]).iter().filter_map(Value::as_str);
        let frame = match options.any(|option| option == answer) {
            true => json!({"type": "answer", "id": about, "options": [answer]}),
            false => json!({"type": "answer", "id": about, "answer": answer}),
        };
        self.sent.insert(about);
        vec![ReplyAction::Send(ChatCommand::Frame(frame))]
    }

    /// An answer was refused.
    pub fn refused(&mut self, id: &str) {
        self.sent.remove(id);
    }

    /// Nobody waits for an answer any more.
    pub fn ended(&mut self, event: &Value) -> Option<ChatEntry> {
        let ended = event["question"].as_str().unwrap_or_default();
        self.sent.remove(ended);
        let place = self.open.iter().position(|one| id(one) == ended)?;
        let text = first_line(&self.open.remove(place));
        let word = event["state"].as_str().unwrap_or("ended");
        let at = event["at"].as_i64().map(time::clock).unwrap_or_default();
        Some(ChatEntry::Decided(format!("{word}: {text}   {at}")))
    }
}

/// The line above the input that says how to answer.
pub fn prompt(questions: &PendingQuestions, term: &TermInfo) -> Vec<TextLine> {
    let Some(question) = questions.current() else { return Vec::new() };
    let agent = foreign(question["agent"].as_str().unwrap_or("the agent"));
    let text = match is_message(question) {
        true => format!("{agent} has written: /answer TEXT replies"),
        false => format!("{agent} waits for an answer: /answer TEXT"),
    };
    indented(&text, "  ", Style::FAINT, term)
}

/// For whoever is not at a terminal: `main asks: …; answer with: …`.
pub fn notice(question: &Value) -> String {
    let agent = foreign(question["agent"].as_str().unwrap_or_default());
    let (text, id) = (first_line(question), id(question));
    match is_message(question) {
        true => format!("skep: {agent} writes: {text}; reply with: skep ask {id} 'TEXT'"),
        false => format!("skep: {agent} asks: {text}; answer with: skep ask {id} 'ANSWER'"),
    }
}

/// It is told something, and nobody waits for a reply.
pub fn is_message(question: &Value) -> bool {
    question["kind"] == "message"
}

fn first_line(question: &Value) -> String {
    let text = foreign(question["text"].as_str().unwrap_or_default());
    shortened(text.lines().next().unwrap_or_default(), NAMED)
}

fn id(question: &Value) -> String {
    question["id"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> Value {
        json!({"id": id, "agent": "main", "text": format!("Which {id}?\nReason: none")})
    }

    fn note(text: &str) -> Vec<ReplyAction> {
        vec![ReplyAction::Show(ChatEntry::Note(text.to_owned()))]
    }

    fn answer(questions: &mut PendingQuestions, text: &str) -> Vec<ReplyAction> {
        questions.begin_line();
        questions.answer(Some(text.to_owned()))
    }

    #[test]
    fn an_answer_is_for_the_question_that_was_there_when_it_was_begun() {
        let mut questions = PendingQuestions::default();
        assert_eq!(answer(&mut questions, "blue"), note("No question waits here."));
        let (a, b) = (question("a"), question("b"));
        let shown = questions.know(vec![a.clone(), b.clone()]);
        assert_eq!(shown, [ChatEntry::Asked(a.clone()), ChatEntry::Asked(b.clone())]);
        assert_eq!(questions.know(vec![a, b.clone()]), [], "shown once");
        questions.begin_line();
        assert_eq!(questions.answer(None), note("The answer stands behind it: /answer TEXT"));
        questions.know(vec![b]);
        let late = note("That question needs no answer any more.");
        assert_eq!(questions.answer(Some("blue".to_owned())), late);
        let frame = json!({"type": "answer", "id": "b", "answer": "blue"});
        let sent = [ReplyAction::Send(ChatCommand::Frame(frame))];
        assert_eq!(answer(&mut questions, "blue"), sent);
        assert!(questions.current().is_none());
        questions.refused("b");
        assert_eq!(answer(&mut questions, "blue"), sent);
    }

    #[test]
    fn a_question_goes_before_a_message_and_an_option_is_chosen_by_its_words() {
        let mut questions = PendingQuestions::default();
        let told = json!({"id": "m", "kind": "message", "agent": "main", "text": "I begin."});
        let mut asked = question("q");
        asked["options"] = json!(["red", "blue"]);
        questions.know(vec![told, asked]);
        let send = |frame| [ReplyAction::Send(ChatCommand::Frame(frame))];
        let chosen = json!({"type": "answer", "id": "q", "options": ["blue"]});
        assert_eq!(answer(&mut questions, "blue"), send(chosen));
        let reply = json!({"type": "answer", "id": "m", "answer": "good"});
        assert_eq!(answer(&mut questions, "good"), send(reply));
    }

    fn decided(entry: Option<ChatEntry>) -> String {
        match entry {
            Some(ChatEntry::Decided(line)) => line,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_became_of_a_question_is_one_line() {
        let mut questions = PendingQuestions::default();
        questions.know(vec![question("a"), question("b")]);
        let event = json!({"question": "a", "state": "answered", "at": 0});
        let line = decided(questions.ended(&event));
        assert!(line.starts_with("answered: Which a?   "), "{line}");
        assert_eq!(questions.ended(&event), None, "told once");
        let event = json!({"question": "b", "state": "expired", "at": 0});
        let line = decided(questions.ended(&event));
        assert!(line.starts_with("expired: Which b?   "), "{line}");
        assert!(questions.current().is_none());
    }
}
