//! `/resume`: a list of conversations to choose from.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use skep_guard::random;

use crate::print::text::in_rows;
use crate::print::{Colour, Style, TermInfo, TextLine, TextSpan, items, shortened, time, width};

/// Columns of the name and of the time; the last message has the rest, if that is some.
const NAME: usize = 28;
const TIME: usize = 11;
const ROOM: usize = 16;

/// What a key came to.
#[derive(Debug, PartialEq)]
pub enum PickerAction {
    Stay,
    /// List the conversations of all agents, or of one again.
    List,
    Open(Value),
    Back,
}

#[derive(Default)]
pub struct Picker {
    agent: String,
    pub all_agents: bool,
    /// The latest first; `None` until the hive has told them.
    sessions: Option<Vec<Value>>,
    filter: String,
    marked: usize,
}

impl Picker {
    pub fn new(agent: &str, all_agents: bool) -> Self {
        Self { agent: agent.to_owned(), all_agents, ..Self::default() }
    }

    /// The conversations of an agent have arrived.
    pub fn know(&mut self, page: &Value) {
        let sessions = self.sessions.get_or_insert_default();
        let listed = items(&page["sessions"]).iter().filter(|session| session["archived"] != true);
        sessions.extend(listed.cloned());
        // The hive's order has the pinned ones first.
        if self.all_agents {
            sessions.sort_by_key(|session| -session["last_at"].as_i64().unwrap_or(0));
        }
    }

    /// Those whose name, key, agent and last message have the words of the filter.
    fn found(&self) -> Vec<&Value> {
        let words = self.filter.to_lowercase();
        let fits = |session: &&Value| {
            let texts = ["title", "session_key", "agent", "last_message"].map(|key| &session[key]);
            let texts = texts.map(|text| text.as_str().unwrap_or_default().to_lowercase());
            words.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
        };
        self.sessions.iter().flatten().filter(fits).collect()
    }

    pub fn key(&mut self, event: &Event) -> PickerAction {
        let Event::Key(KeyEvent { code, modifiers, .. }) = event else {
            return PickerAction::Stay;
        };
        let (before, count) = (std::mem::take(&mut self.marked), self.found().len());
        match (code, *modifiers) {
            (KeyCode::Up, _) => self.marked = before.saturating_sub(1),
            (KeyCode::Down, _) => self.marked = (before + 1).min(count.saturating_sub(1)),
            (KeyCode::Enter, _) => {
                let chosen = self.found().get(before).copied().cloned();
                return chosen.map_or(PickerAction::Stay, PickerAction::Open);
            }
            (KeyCode::Tab, _) => return PickerAction::List,
            (KeyCode::Char('n'), KeyModifiers::CONTROL) => {
                let key = format!("chat-{}", random::uuid().simple());
                let new = json!({"agent": self.agent, "session_key": &key[..13], "current": true});
                return PickerAction::Open(new);
            }
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => {
                return PickerAction::Back;
            }
            (KeyCode::Backspace, _) => drop(self.filter.pop()),
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT) => {
                self.filter.push(*letter);
            }
            _ => self.marked = before,
        }
        PickerAction::Stay
    }

    /// The list in so many rows, and the column of the cursor in the first.
    pub fn lines(&self, rows: usize, now: i64, term: &TermInfo) -> (Vec<TextLine>, usize) {
        let found = self.found();
        let head = format!("Resume   filter: {}", self.filter);
        let column = width(&head);
        let (whose, key) = match self.all_agents {
            true => ("all agents", "Tab one agent"),
            false => (self.agent.as_str(), "Tab all agents"),
        };
        let all = self.sessions.as_ref().map_or("…".to_owned(), |all| all.len().to_string());
        let count = format!("   {} of {all}, {whose}", found.len());
        let mut lines =
            vec![vec![TextSpan::new(head, Style::BOLD), TextSpan::new(count, Style::FAINT)]];
        let rows = rows.saturating_sub(4).max(1);
        let first = (self.marked + 1).saturating_sub(rows);
        let shown = found.iter().enumerate().skip(first).take(rows);
        lines.extend(shown.map(|(at, it)| self.line(it, at == self.marked, now, term)));
        let keys = ["Up Down select", "Enter open", key, "Ctrl-N new", "Esc back"];
        lines.extend(in_rows(&keys.map(str::to_owned), Style::FAINT, term));
        (lines, column)
    }

    fn line(&self, session: &Value, marked: bool, now: i64, term: &TermInfo) -> TextLine {
        let text = |key: &str| session[key].as_str().unwrap_or_default();
        let (sign, colour) = match text("state") {
            "running" => (term.sign("● ", "* "), Colour::Green),
            "waiting" => (term.sign("⬡ ", "? "), Colour::Yellow),
            "queued" => (term.sign("○ ", "o "), Colour::Yellow),
            "failed" => (term.sign("▲ ", "! "), Colour::Red),
            _ => ("  ", Colour::Green),
        };
        let at = |key: &str| time::short(session[key].as_i64().unwrap_or(now), now);
        let agent = if self.all_agents { format!("{}: ", text("agent")) } else { String::new() };
        let name = match text("title") {
            "" => format!("{agent}{}, {}", text("session_key"), at("created_at")),
            title => format!("{agent}{title}"),
        };
        let said = match text("last_error") {
            "" => text("last_message").to_owned(),
            error => format!("{}: {error}", text("state")),
        };
        let room = NAME.min(term.width.saturating_sub(5 + TIME));
        let name = shortened(&name, room);
        let gap = " ".repeat((room + 1).saturating_sub(width(&name)));
        let left = term.width.saturating_sub(5 + room + TIME);
        let said = if left < ROOM { String::new() } else { shortened(&said, left) };
        let style = if marked { Style::BOLD } else { Style::PLAIN };
        vec![
            TextSpan::new(if marked { term.sign(" ▌", " >") } else { "  " }, Style::BOLD),
            TextSpan::new(sign, Style::of(colour)),
            TextSpan::new(format!("{name}{gap}{:<TIME$}", at("last_at")), style),
            TextSpan::new(said, Style::FAINT),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn press(picker: &mut Picker, code: KeyCode) -> PickerAction {
        picker.key(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn shown(picker: &Picker, columns: usize, rows: usize) -> String {
        let term = TermInfo { width: columns, colour: false, unicode: true };
        // A Monday.
        let (lines, _) = picker.lines(rows, 1_772_443_200_000, &term);
        let line = |line: &TextLine| line.iter().map(|span| span.text.as_str()).collect::<String>();
        let lines: Vec<String> = lines.iter().map(|it| line(it).trim_end().to_owned()).collect();
        lines.join("\n")
    }

    fn picker() -> Picker {
        let session = |id: u32, title: &str, state: &str, last_at: i64, said: &str| {
            json!({"id": id, "agent": "main", "session_key": "main", "title": title,
                   "state": state, "last_at": last_at, "created_at": 0, "last_message": said})
        };
        let mut failed = session(2, "Prices of the shop", "failed", 1_772_439_600_000, "x");
        failed["last_error"] = json!("key rejected (401)");
        let sessions = vec![
            session(1, "Winter price list", "running", 1_772_443_000_000, "Only October."),
            failed,
            session(3, "", "idle", 1_772_120_000_000, "Translated."),
            session(4, "A name that is far too long for its column", "idle", 1_600_000_000_000, ""),
        ];
        let mut picker = Picker::new("main", false);
        picker.know(&json!({ "sessions": sessions }));
        picker
    }

    #[test]
    fn a_list_fits_the_terminal_and_is_filtered() {
        let mut picker = picker();
        insta::assert_snapshot!(shown(&picker, 80, 20), @r"
        Resume   filter:    4 of 4, main
         ▌● Winter price list            09:16      Only October.
          ▲ Prices of the shop           08:20      failed: key rejected (401)
            main, 1970-01-01             Thu        Translated.
            A name that is far too long… 2020-09-13
          Up Down select   Enter open   Tab all agents   Ctrl-N new   Esc back
        ");
        for letter in "pri".chars() {
            press(&mut picker, KeyCode::Char(letter));
        }
        press(&mut picker, KeyCode::Down);
        press(&mut picker, KeyCode::Down);
        insta::assert_snapshot!(shown(&picker, 40, 20), @r"
        Resume   filter: pri   2 of 4, main
          ● Winter price list        09:16
         ▌▲ Prices of the shop       08:20
          Up Down select   Enter open
          Tab all agents   Ctrl-N new
          Esc back
        ");
        let PickerAction::Open(it) = press(&mut picker, KeyCode::Enter) else { panic!() };
        assert_eq!(it["id"], 2);
        press(&mut picker, KeyCode::Char('q'));
        assert_eq!(press(&mut picker, KeyCode::Enter), PickerAction::Stay);
        assert_eq!(press(&mut picker, KeyCode::Tab), PickerAction::List);
        assert_eq!(press(&mut picker, KeyCode::Esc), PickerAction::Back);
    }

    #[test]
    fn the_marked_one_is_in_sight() {
        let mut picker = picker();
        (0..9).for_each(|_| drop(press(&mut picker, KeyCode::Down)));
        let shown = shown(&picker, 80, 6);
        assert!(shown.contains("▌  A name that is far too long…"), "{shown}");
        assert!(!shown.contains("Winter price list"), "{shown}");
    }
}
