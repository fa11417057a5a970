#![allow(clippy::unwrap_used)]
use super::super::connection::{ChatCommand, ChatRead};
use super::*;

struct Desk {
    approvals: PendingApprovals,
    held: HeldKey,
    line: String,
    now: i64,
}

impl Desk {
    fn new() -> Self {
        let mut approvals = PendingApprovals::default();
        approvals.know(vec![json!({
            "id": "a", "hash": "h", "asked_at": 1, "agent": "main", "summary": "a && b",
            "files": [{"kind": "file", "path": "x", "sha256": "0"}],
            "commands": [{"text": "a", "patterns": ["a x $", "a"]},
                         {"text": "b", "patterns": ["b $"]}],
        })]);
        approvals.look(0);
        Self { approvals, held: HeldKey::default(), line: String::new(), now: 1000 }
    }

    /// Frames that went out; the line takes what no decision takes.
    fn press(&mut self, code: KeyCode) -> Vec<ReplyAction> {
        let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        self.now += 50;
        let reply = key(&mut self.approvals, &mut self.held, &event, &self.line, self.now);
        match (reply, code) {
            (Some(reply), _) => {
                self.line = reply.line.unwrap_or_else(|| self.line.clone());
                return reply.actions;
            }
            (None, KeyCode::Char(letter)) => self.line.push(letter),
            (None, _) => {}
        }
        Vec::new()
    }

    /// A word, with this long from key to key.
    fn write_at(&mut self, text: &str, pace: i64) -> Vec<ReplyAction> {
        let mut actions = Vec::new();
        for letter in text.chars() {
            actions.extend(self.press(KeyCode::Char(letter)));
            self.now += pace;
            let due = self.held.due(&mut self.approvals, self.now);
            actions.extend(due.into_iter().flat_map(|reply| reply.actions));
        }
        actions
    }

    /// Keys, each alone.
    fn write(&mut self, text: &str) -> Vec<ReplyAction> {
        self.write_at(text, 500)
    }

    fn shown(&self, columns: usize) -> String {
        let term = TermInfo { width: columns, colour: false, unicode: true };
        let lines = prompt(&self.approvals, self.now, &term);
        let line = |line: TextLine| line.into_iter().map(|span| span.text).collect::<String>();
        lines.into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn channel_an_approval_higher_than_the_screen_is_read_before_it_is_approved() {
    let mut desk = Desk::new();
    let line = |at: usize| vec![TextSpan::plain(format!("line {at}"))];
    let lines = |count| (1..=count).map(line).collect::<Vec<_>>();
    assert!(LongApproval::of(lines(17), 24).is_none());
    desk.approvals.unread = LongApproval::of(lines(40), 24);
    assert_eq!(desk.shown(80), "  v read all 40 lines, then approve   n deny   d details");
    assert_eq!(desk.write("ysa"), []);
    desk.write("v");
    assert!(desk.shown(80).starts_with("line 1\nline 2\n"), "{}", desk.shown(80));
    desk.write(" ");
    desk.press(KeyCode::Up);
    assert!(desk.shown(80).ends_with(
        "  lines 1-15 of 40   Space next page   Up page before   \
                                      Esc back"
    ));
    desk.write("  ");
    assert!(desk.shown(80).contains("line 40\n  lines 31-40 of 40   Space end"));
    desk.press(KeyCode::Esc);
    assert_eq!(desk.write("y"), [], "not to its end");
    desk.write("v ");
    assert!(desk.shown(80).starts_with("  y once"), "{}", desk.shown(80));
    assert_eq!(desk.write("y"), [frame(json!({}))]);
}

fn frame(extra: Value) -> ReplyAction {
    let mut frame = json!({"type": "approve", "id": "a", "hash": "h", "decision": "approve"});
    for (name, value) in extra.as_object().unwrap() {
        frame[name] = value.clone();
    }
    ReplyAction::Send(ChatCommand::Frame(frame))
}

#[test]
fn channel_one_key_decides_and_a_typed_word_is_no_message() {
    let mut desk = Desk::new();
    assert_eq!(
        desk.shown(80),
        "  y once   s conversation   a always   n deny   v file   d details"
    );
    let narrow = "  y once   s conversation   a always\n  n deny   v file   d details";
    assert_eq!(desk.shown(40), narrow);
    assert_eq!(desk.write("y"), [frame(json!({}))]);
    // Enter says that it stands alone.
    let mut desk = Desk::new();
    desk.press(KeyCode::Char('y'));
    assert_eq!(desk.press(KeyCode::Enter), [frame(json!({}))]);
    // Words decide nothing, at any pace of a hand; nor does the Enter after them.
    for word in ["yes", "you must not", "stop", "abort", "already", "dont"] {
        for pace in [0, 50, 200, 300] {
            let mut desk = Desk::new();
            assert_eq!(desk.write_at(word, pace), [], "{word} at {pace}");
            assert_eq!(desk.line, word, "at {pace}");
            assert_eq!(desk.press(KeyCode::Enter), [], "{word}");
        }
    }
    // Slower than that the first letter is a key; the list it opens is left by the next.
    let mut desk = Desk::new();
    desk.write("stop");
    assert_eq!(desk.line, "stop");
    assert_eq!(desk.press(KeyCode::Enter), []);
    // What is being written stays a message.
    let mut desk = Desk::new();
    desk.line = "hm ".to_owned();
    assert_eq!(desk.write("yes"), []);
    assert_eq!(desk.line, "hm yes");
    // A key that came too soon does nothing.
    let mut desk = Desk::new();
    desk.now = 100;
    assert_eq!((desk.press(KeyCode::Char('y')), desk.line.as_str()), (Vec::new(), ""));
    assert_eq!(desk.shown(80), "");
    assert!(!desk.held.is_held());
}

#[test]
fn channel_a_key_denies_with_a_note_or_without() {
    for (typed, note) in [("", None), ("o", None), ("use the copy", Some("use the copy"))] {
        let mut desk = Desk::new();
        assert_eq!(desk.write("n"), []);
        assert!(desk.shown(80).contains("Note to main (optional)"));
        desk.write(typed);
        let mut deny = json!({"decision": "deny"});
        if let Some(note) = note {
            deny["note"] = note.into();
        }
        assert_eq!(desk.press(KeyCode::Enter), [frame(deny)]);
        assert_eq!(desk.line, "");
    }
    let mut desk = Desk::new();
    desk.write("nno");
    desk.press(KeyCode::Esc);
    assert!(desk.shown(80).starts_with("  y once"));
    assert_eq!(desk.line, "");
}

#[test]
fn channel_patterns_are_chosen_once_it_is_known_what_they_cover() {
    let mut desk = Desk::new();
    let asked = desk.write("a");
    let sets = [json!(["a x $", "b $"]), json!(["a", "b $"]), json!([])];
    let preview = |scope: &str, set: &Value| {
        let set: Vec<String> = serde_json::from_value(set.clone()).unwrap();
        let path = crate::commands::approve::covers_path("a", scope, &set);
        ReplyAction::Send(ChatCommand::Read(ChatRead::Covers(set), path))
    };
    assert_eq!(asked, sets.iter().map(|set| preview("always", set)).collect::<Vec<_>>());
    assert_eq!(desk.press(KeyCode::Enter), [], "not before it is known");
    let found = json!({"covers": true, "others": [], "last": {"calls": 5, "covered": 2}});
    for set in &sets {
        let set: Vec<String> = serde_json::from_value(set.clone()).unwrap();
        desk.approvals.covers(&set, &found);
    }
    let shown = desk.shown(80);
    assert!(shown.contains("▌1 a x $ and b $  2 of 5"), "{shown}");
    assert!(shown.contains("3 only exactly this call"), "{shown}");
    desk.press(KeyCode::Down);
    let scoped = json!({"scope": "always", "patterns": ["a", "b $"]});
    assert_eq!(desk.press(KeyCode::Enter), [frame(scoped)]);
    // One's own.
    let mut desk = Desk::new();
    desk.write("s2e");
    assert_eq!(desk.line, "a; b $");
    desk.write(" c");
    let asked = desk.press(KeyCode::Enter);
    assert_eq!(asked.first(), Some(&preview("session", &json!(["a", "b $ c"]))));
    let no = json!({"covers": false, "why": "no part of this call"});
    desk.approvals.covers(&["a".to_owned(), "b $ c".to_owned()], &no);
    assert!(desk.shown(80).contains("no part of this call"));
    assert_eq!(desk.press(KeyCode::Enter), []);
    desk.press(KeyCode::Esc);
    assert!(desk.shown(80).starts_with("  y once"));
}

#[test]
fn channel_what_no_rule_can_stand_for_is_offered_once_alone() {
    let mut desk = Desk::new();
    desk.write("s");
    let no = json!({"covers": false, "why": "no rule can stand for it"});
    desk.approvals.covers(&[], &no);
    assert!(!desk.shown(80).contains("exactly this call"), "{}", desk.shown(80));
    // A rule without a condition is never called exactly this call.
    let bare =
        json!({"covers": true, "allows": [], "others": [], "last": {"calls": 1, "covered": 1}});
    desk.approvals.covers(&[], &bare);
    let shown = desk.shown(80);
    assert!(shown.contains("3 every call of"), "{shown}");
    assert!(!shown.contains("exactly this call"), "{shown}");

    let mut desk = Desk::new();
    let mut question = desk.approvals.current().unwrap().clone();
    question["once_only"] = "it names no command".into();
    desk.approvals.know(vec![question]);
    assert_eq!((desk.write("s"), desk.write("a")), (Vec::new(), Vec::new()));
    let shown = desk.shown(80);
    assert!(shown.contains("y once") && shown.contains("n deny"), "{shown}");
    assert!(!shown.contains("conversation") && !shown.contains("always"), "{shown}");
}

#[test]
fn channel_what_somebody_would_type_to_decide() {
    for text in ["yes", " OK. ", "No!", "go ahead", "y"] {
        assert!(is_reply(text), "{text}");
    }
    for text in ["yes, do it with care", "no idea", "", "okay then"] {
        assert!(!is_reply(text), "{text}");
    }
}
