//! Approvals that are pending in this conversation, and the replies of the person at the terminal:
//! by one key, or by command.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::commands::ApprovalReply;
use super::connection::{ChatCommand, ChatRead};
use super::decision::{DecisionMode, LongApproval, PatternChoice};
use super::transcript::ChatEntry;
use crate::commands::approve::{choices, covers_path};
use crate::hive::escaped;
use crate::print::{foreign, items};

/// Keys pressed sooner than this after an approval came in sight were meant for something else.
const SETTLE_MS: i64 = 400;

/// What the terminal does with a reply.
#[derive(Debug, PartialEq)]
pub enum ReplyAction {
    Send(ChatCommand),
    Show(ChatEntry),
}

#[derive(Default)]
pub struct PendingApprovals {
    /// Oldest first.
    open: Vec<Value>,
    /// Decisions on their way.
    sent: HashSet<String>,
    /// The one that keys are about; the first if there is none.
    chosen: Option<String>,
    /// The one in sight, and since when.
    in_sight: Option<(String, i64)>,
    pub mode: DecisionMode,
    /// The one in sight if it is higher than the screen, until it was read to its end.
    pub unread: Option<LongApproval>,
    /// The current approval when the line was started: a reply never applies to a later one.
    about: Option<String>,
}

impl PendingApprovals {
    /// Replaces the pending approvals, newest first as the hive lists them.
    pub fn know(&mut self, mut open: Vec<Value>) {
        // Two of one moment stay in the order in which they were asked.
        open.reverse();
        open.sort_by_key(|question| question["asked_at"].as_i64());
        self.open = open;
    }

    /// The approval that was decided, if it is one of these.
    pub fn decided(&mut self, id: &str) -> Option<Value> {
        self.sent.remove(id);
        let place = self.open.iter().position(|question| question["id"] == id)?;
        Some(self.open.remove(place))
    }

    /// A decision was refused.
    pub fn refused(&mut self, id: &str) {
        self.sent.remove(id);
    }

    /// Those that wait for a decision, and the place of the current one.
    fn waiting(&self) -> (Vec<&Value>, usize) {
        let id = |one: &Value| one["id"].as_str().unwrap_or_default().to_owned();
        let open = self.open.iter().filter(|one| !self.sent.contains(&id(one)));
        let open: Vec<&Value> = open.collect();
        let chosen = open.iter().position(|one| Some(id(one)) == self.chosen);
        (open, chosen.unwrap_or(0))
    }

    /// The approval that keys decide.
    pub fn current(&self) -> Option<&Value> {
        let (open, place) = self.waiting();
        open.get(place).copied()
    }

    /// Whether more than this one call can be approved.
    pub fn can_last(&self) -> bool {
        self.current().is_some_and(|question| question["once_only"].is_null())
    }

    /// `1 of 2`; nothing if there is one only.
    pub fn place(&self) -> Option<(usize, usize)> {
        let (open, place) = self.waiting();
        (open.len() > 1).then_some((place + 1, open.len()))
    }

    /// Brings the current approval in sight; returns it if it is to be shown now, which is before
    /// any key decides it. What was begun about another one is over.
    pub fn look(&mut self, now: i64) -> Option<Value> {
        let id = self.current().and_then(|one| one["id"].as_str()).map(str::to_owned);
        if self.in_sight.as_ref().map(|(id, _)| id) == id.as_ref() {
            return None;
        }
        self.in_sight = id.map(|id| (id, now));
        (self.mode, self.unread) = (DecisionMode::Keys, None);
        self.current().cloned()
    }

    /// Since when the current approval is in sight.
    pub fn seen_since(&self) -> Option<i64> {
        let (id, since) = self.in_sight.as_ref()?;
        (self.current()?["id"] == id.as_str()).then_some(*since)
    }

    /// Whether one key decides now.
    pub fn is_settled(&self, now: i64) -> bool {
        self.seen_since().is_some_and(|since| now - since >= SETTLE_MS)
    }

    /// Whether keys decide soon, and not yet.
    pub fn settles(&self, now: i64) -> bool {
        self.seen_since().is_some() && !self.is_settled(now)
    }

    /// Goes on to the next one.
    pub fn step(&mut self) {
        let (open, place) = self.waiting();
        let next = open.get((place + 1) % open.len().max(1));
        self.chosen = next.and_then(|next| next["id"].as_str()).map(str::to_owned);
    }

    /// What patterns cover has arrived.
    pub fn covers(&mut self, patterns: &[String], found: &Value) {
        if let DecisionMode::Patterns(choice) = &mut self.mode {
            choice.learn(patterns, found);
        }
    }

    pub fn begin_line(&mut self) {
        self.about = self.current().and_then(|one| one["id"].as_str()).map(str::to_owned);
    }

    /// Decides on the current approval.
    pub fn decide(&mut self, decision: Value) -> Vec<ReplyAction> {
        let Some(question) = self.current() else { return Vec::new() };
        let mut frame = decision;
        frame["type"] = "approve".into();
        (frame["id"], frame["hash"]) = (question["id"].clone(), question["hash"].clone());
        self.sent.extend(frame["id"].as_str().map(str::to_owned));
        self.mode = DecisionMode::Keys;
        vec![ReplyAction::Send(ChatCommand::Frame(frame))]
    }

    pub fn deny(&mut self, note: Option<String>) -> Vec<ReplyAction> {
        self.decide(match note {
            Some(note) => json!({"decision": "deny", "note": note}),
            None => json!({"decision": "deny"}),
        })
    }

    /// A reply by command.
    pub fn answer(&mut self, answer: ApprovalReply) -> Vec<ReplyAction> {
        let note = |text: &str| vec![ReplyAction::Show(ChatEntry::Note(text.to_owned()))];
        let Some(about) = self.about.clone() else { return note("No approval waits here.") };
        let waits = |one: &&Value| one["id"] == about.as_str() && !self.sent.contains(&about);
        if !self.open.iter().any(|one| waits(&one)) {
            return note("That approval needs no decision any more.");
        }
        self.chosen = Some(about);
        match answer {
            ApprovalReply::Deny { note } => self.deny(note),
            ApprovalReply::Once => self.decide(json!({"decision": "approve"})),
            ApprovalReply::Lasting { .. } if !self.can_last() => {
                let why = self.current().and_then(|question| question["once_only"].as_str());
                note(&foreign(why.unwrap_or_default()))
            }
            ApprovalReply::Lasting { scope, patterns } => self.choose(scope, patterns),
        }
    }

    /// Opens the list of patterns for a lasting approval, one's own first, and asks what each
    /// covers.
    pub fn choose(&mut self, scope: &'static str, own: Vec<String>) -> Vec<ReplyAction> {
        let Some(question) = self.current() else { return Vec::new() };
        let id = question["id"].as_str().unwrap_or_default().to_owned();
        let mut sets = choices(question);
        if !own.is_empty() {
            sets.insert(0, own);
        }
        sets.push(Vec::new());
        self.mode = DecisionMode::Patterns(PatternChoice::new(scope, sets.clone()));
        let ask = |set: Vec<String>| {
            let path = covers_path(&id, scope, &set);
            ReplyAction::Send(ChatCommand::Read(ChatRead::Covers(set), path))
        };
        sets.into_iter().map(ask).collect()
    }

    /// The files of the current approval whose content can be shown.
    pub fn files(&self) -> Vec<ReplyAction> {
        let Some(question) = self.current() else { return Vec::new() };
        let files = items(&question["files"]).iter().enumerate();
        let files = files.filter(|(_, file)| file["kind"] == "file" && file["sha256"].is_string());
        let id = escaped(question["id"].as_str().unwrap_or_default());
        let path = |number: usize| format!("/api/v1/approvals/{id}/files/{number}");
        let read = |(number, _)| ReplyAction::Send(ChatCommand::Read(ChatRead::File, path(number)));
        files.map(read).take(FILES).collect()
    }
}

/// Files that are shown at once.
const FILES: usize = 5;

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
            [ReplyAction::Show(ChatEntry::Note("No approval waits here.".into()))]
        );
        approvals.know(vec![question("b", 2), question("a", 1)]);
        approvals.begin_line();
        // Somebody else answers the first while the line is written, and another one comes.
        approvals.know(vec![question("b", 2), question("c", 3)]);
        let late = [ReplyAction::Show(ChatEntry::Note(
            "That approval needs no decision any more.".into(),
        ))];
        assert_eq!(approvals.answer(ApprovalReply::Once), late);
        approvals.begin_line();
        let frame = json!({"type": "approve", "id": "b", "hash": "hash of b", "decision": "deny",
                           "note": "not now"});
        let no = || ApprovalReply::Deny { note: Some("not now".into()) };
        assert_eq!(approvals.answer(no()), [ReplyAction::Send(ChatCommand::Frame(frame.clone()))]);
        // On its way: decided once, unless the hive refuses it.
        assert_eq!(approvals.answer(no()), late);
        approvals.refused("b");
        assert_eq!(approvals.answer(no()), [ReplyAction::Send(ChatCommand::Frame(frame))]);
    }

    #[test]
    fn channel_a_lasting_yes_is_shown_before_it_is_given() {
        let mut approvals = PendingApprovals::default();
        approvals.know(vec![question("a", 1)]);
        approvals.look(0);
        approvals.begin_line();
        let mut asked = |own: &[&str]| {
            let patterns = own.iter().map(|own| (*own).to_owned()).collect();
            approvals.answer(ApprovalReply::Lasting { scope: "always", patterns })
        };
        let preview = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|pattern| (*pattern).to_owned()).collect();
            let path = covers_path("a", "always", &set);
            ReplyAction::Send(ChatCommand::Read(ChatRead::Covers(set), path))
        };
        // The list says what each covers; nothing is decided before one is taken from it.
        assert_eq!(asked(&[]), [preview(&["echo a $"]), preview(&["echo"]), preview(&[])]);
        let own = [preview(&["ls"]), preview(&["echo a $"]), preview(&["echo"]), preview(&[])];
        assert_eq!(asked(&["ls"]), own);
        assert!(matches!(approvals.mode, DecisionMode::Patterns(_)) && approvals.sent.is_empty());
    }

    #[test]
    fn channel_keys_wait_until_the_approval_was_in_sight() {
        let mut approvals = PendingApprovals::default();
        approvals.look(10_000);
        assert!(!approvals.is_settled(20_000) && !approvals.settles(20_000));
        // Of one moment, newest first as the hive lists them.
        approvals.know(vec![question("b", 1), question("a", 1)]);
        assert_eq!(approvals.look(10_000), Some(question("a", 1)));
        assert_eq!(approvals.look(10_001), None, "shown once");
        assert!(approvals.settles(10_399) && approvals.is_settled(10_400));
        assert_eq!(approvals.place(), Some((1, 2)));
        let sent = approvals.decide(json!({"decision": "approve"}));
        let [ReplyAction::Send(ChatCommand::Frame(frame))] = sent.as_slice() else {
            panic!("decided")
        };
        assert_eq!(frame["id"], "a");
        // The next one comes into sight now, is shown, and keys wait again.
        assert_eq!(approvals.look(10_500), Some(question("b", 1)));
        assert!(!approvals.is_settled(10_800) && approvals.is_settled(10_900));
        assert_eq!(
            (approvals.current().unwrap()["id"].as_str(), approvals.place()),
            (Some("b"), None)
        );
        approvals.refused("a");
        assert_eq!(approvals.place(), Some((1, 2)));
        assert_eq!(approvals.look(11_000).unwrap()["id"], "a");
        approvals.step();
        assert_eq!(approvals.look(12_000).unwrap()["id"], "b", "shown again before it is decided");
        assert_eq!((approvals.place(), approvals.is_settled(12_399)), (Some((2, 2)), false));
    }
}
