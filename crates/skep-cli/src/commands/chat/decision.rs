//! A pending approval decided by single keys: what each key does now, and the lines that say so.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::approvals::{PendingApprovals, ReplyAction};
use super::transcript::ChatEntry;
use crate::commands::approve::{allowed, because, details, joined, own_patterns};
use crate::print::text::{in_rows, indented};
use crate::print::{Colour, Style, TermInfo, TextLine, TextSpan, foreign, items, shortened, width};

/// How long no other key comes after one that decides.
const ALONE_MS: i64 = 400;

/// What keys do.
#[derive(Default)]
pub enum DecisionMode {
    /// One key decides, as long as nothing is written.
    #[default]
    Keys,
    /// What a lasting approval allows is chosen.
    Patterns(PatternChoice),
    /// Patterns of one's own are written.
    OwnPatterns { scope: &'static str },
    /// A note to the agent is written.
    Note,
    /// An approval that is higher than the screen is read page by page.
    Reading,
}

/// An approval that is higher than the screen.
pub struct LongApproval {
    lines: Vec<TextLine>,
    /// Of a page.
    rows: usize,
    /// The first line of the page in sight.
    from: usize,
}

impl LongApproval {
    /// `None` if it fits: the keys, the line and the status are below it.
    pub fn of(lines: Vec<TextLine>, height: usize) -> Option<Self> {
        let rows = height.saturating_sub(9).max(3);
        (lines.len() + 7 > height).then_some(Self { lines, rows, from: 0 })
    }

    fn page(&self, term: &TermInfo) -> Vec<TextLine> {
        let end = (self.from + self.rows).min(self.lines.len());
        let mut page = self.lines.get(self.from..end).unwrap_or_default().to_vec();
        let next = if end < self.lines.len() { "Space next page" } else { "Space end" };
        let place = format!("lines {}-{end} of {}", self.from + 1, self.lines.len());
        let words = [place.as_str(), next, "Up page before", "Esc back"].map(str::to_owned);
        page.extend(in_rows(&words, STRONG, term));
        page
    }
}

/// Sets of patterns to choose from.
pub struct PatternChoice {
    scope: &'static str,
    /// The empty set, the last one, is exactly this call.
    sets: Vec<(Vec<String>, Option<Value>)>,
    marked: usize,
}

impl PatternChoice {
    pub fn new(scope: &'static str, sets: Vec<Vec<String>>) -> Self {
        Self { scope, sets: sets.into_iter().map(|set| (set, None)).collect(), marked: 0 }
    }

    pub fn learn(&mut self, patterns: &[String], found: &Value) {
        for (_, known) in self.sets.iter_mut().filter(|(set, _)| set == patterns) {
            *known = Some(found.clone());
        }
    }

    /// The sets to choose from: that one only where there is such a rule. Until the hive says so,
    /// patterns for all words say it.
    fn offered(&self) -> &[(Vec<String>, Option<Value>)] {
        let whole = |set: &[String]| set.iter().all(|pattern| pattern.ends_with(" $"));
        match self.sets.split_last() {
            Some(((set, found), before)) if set.is_empty() => match found {
                Some(_) if covers(found) => &self.sets,
                None if before.iter().any(|(set, _)| whole(set)) => &self.sets,
                _ => before,
            },
            _ => &self.sets,
        }
    }

    fn marked(&self) -> Option<&(Vec<String>, Option<Value>)> {
        self.sets.get(self.marked)
    }

    /// A set is taken once it is known that it covers the call.
    fn taken(&self) -> Option<Vec<String>> {
        let (set, found) = self.marked()?;
        covers(found).then(|| set.clone())
    }
}

fn covers(found: &Option<Value>) -> bool {
    found.as_ref().is_some_and(|found| found["covers"] == true)
}

/// What a key came to.
#[derive(Default)]
pub struct KeyReply {
    pub actions: Vec<ReplyAction>,
    /// The line is replaced by this.
    pub line: Option<String>,
}

/// A key on an empty line. It decides once it stands alone: a word that is typed never does.
#[derive(Default)]
pub struct HeldKey(Option<(char, i64)>);

impl HeldKey {
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The letter, if it turned out to begin a word.
    pub fn release(&mut self) -> Option<char> {
        self.0.take().map(|(letter, _)| letter)
    }

    /// What the key does, once it has stood alone for long enough.
    pub fn due(&mut self, approvals: &mut PendingApprovals, now: i64) -> Option<KeyReply> {
        let (letter, _) = self.0.filter(|(_, since)| now - since >= ALONE_MS)?;
        self.0 = None;
        approvals.is_settled(now).then(|| pressed(approvals, letter))
    }
}

/// What the key does about the current approval; `None`: it belongs to the line.
pub fn key(
    approvals: &mut PendingApprovals,
    held: &mut HeldKey,
    event: &Event,
    line: &str,
    now: i64,
) -> Option<KeyReply> {
    let Event::Key(KeyEvent { code, modifiers, .. }) = event else { return None };
    if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    let begun = held.release();
    if !approvals.current()?["refused"].is_null() {
        return None;
    }
    // It is not shown yet: what was begun is about another one.
    if approvals.seen_since().is_none() {
        return Some(KeyReply::default());
    }
    match &approvals.mode {
        DecisionMode::Keys if line.is_empty() => menu(approvals, held, begun, *code, now),
        DecisionMode::Keys => None,
        DecisionMode::Patterns(_) => Some(pattern_key(approvals, *code)),
        DecisionMode::OwnPatterns { .. } | DecisionMode::Note if *code == KeyCode::Esc => {
            Some(back(approvals, ""))
        }
        DecisionMode::OwnPatterns { scope } if *code == KeyCode::Enter => {
            let actions = approvals.choose(scope, own_patterns(line));
            Some(KeyReply { actions, line: Some(String::new()) })
        }
        DecisionMode::Note if *code == KeyCode::Enter => {
            // The end of a typed `no` is no note.
            let note = Some(line.trim()).filter(|note| !note.is_empty() && *note != "o");
            let actions = approvals.deny(note.map(str::to_owned));
            Some(KeyReply { actions, line: Some(String::new()) })
        }
        DecisionMode::OwnPatterns { .. } | DecisionMode::Note => None,
        // What was pasted meanwhile belongs to the line.
        DecisionMode::Reading if !line.is_empty() => {
            approvals.mode = DecisionMode::Keys;
            (*code == KeyCode::Esc).then(KeyReply::default)
        }
        DecisionMode::Reading => Some(page_key(approvals, *code)),
    }
}

fn back(approvals: &mut PendingApprovals, line: &str) -> KeyReply {
    approvals.mode = DecisionMode::Keys;
    KeyReply { actions: Vec::new(), line: Some(line.to_owned()) }
}

fn menu(
    approvals: &mut PendingApprovals,
    held: &mut HeldKey,
    begun: Option<char>,
    code: KeyCode,
    now: i64,
) -> Option<KeyReply> {
    match (begun, code) {
        (Some(first), KeyCode::Char(next)) => {
            return Some(back(approvals, &format!("{first}{next}")));
        }
        (Some(letter), KeyCode::Enter) => return Some(pressed(approvals, letter)),
        // Taken back.
        (Some(_), _) => return Some(KeyReply::default()),
        (None, _) => {}
    }
    let known = matches!(code, KeyCode::Char('y' | 's' | 'a' | 'n' | 'd' | 'v') | KeyCode::Tab);
    if !known {
        return None;
    }
    // Pressed before it could be read: meant for something else.
    if approvals.is_settled(now) {
        match code {
            KeyCode::Char(letter) => held.0 = Some((letter, now)),
            _ => approvals.step(),
        }
    }
    Some(KeyReply::default())
}

fn page_key(approvals: &mut PendingApprovals, code: KeyCode) -> KeyReply {
    match (&mut approvals.unread, code) {
        (None, _) | (_, KeyCode::Esc) => return back(approvals, ""),
        (Some(long), KeyCode::Up | KeyCode::PageUp) => {
            long.from = long.from.saturating_sub(long.rows);
        }
        (Some(long), KeyCode::Char(' ' | 'v') | KeyCode::Down | KeyCode::PageDown) => {
            long.from += long.rows;
            if long.from >= long.lines.len() {
                approvals.unread = None;
                return back(approvals, "");
            }
        }
        _ => {}
    }
    KeyReply::default()
}

fn pressed(approvals: &mut PendingApprovals, letter: char) -> KeyReply {
    let actions = match letter {
        'v' if approvals.unread.is_some() => {
            approvals.mode = DecisionMode::Reading;
            Vec::new()
        }
        // It is read to its end first, as the keys say.
        'y' | 's' | 'a' if approvals.unread.is_some() => Vec::new(),
        'y' => approvals.decide(json!({"decision": "approve"})),
        's' | 'a' if !approvals.can_last() => Vec::new(),
        's' => approvals.choose("session", Vec::new()),
        'a' => approvals.choose("always", Vec::new()),
        'n' => {
            approvals.mode = DecisionMode::Note;
            Vec::new()
        }
        'd' => {
            let all = |question| because(question).into_iter().chain(details(question));
            let lines: Vec<String> = approvals.current().into_iter().flat_map(all).collect();
            vec![ReplyAction::Show(ChatEntry::Note(lines.join("\n")))]
        }
        _ => match approvals.files() {
            files if files.is_empty() => {
                let text = "The call names no file that could be shown.";
                vec![ReplyAction::Show(ChatEntry::Note(text.to_owned()))]
            }
            files => files,
        },
    };
    KeyReply { actions, line: None }
}

fn pattern_key(approvals: &mut PendingApprovals, code: KeyCode) -> KeyReply {
    let DecisionMode::Patterns(choice) = &mut approvals.mode else { return KeyReply::default() };
    let last = choice.offered().len().saturating_sub(1);
    match code {
        KeyCode::Up => choice.marked = choice.marked.saturating_sub(1),
        KeyCode::Down => choice.marked = (choice.marked + 1).min(last),
        KeyCode::Char(digit @ '1'..='9') => {
            let place = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
            choice.marked = if place <= last { place } else { choice.marked };
        }
        KeyCode::Esc => return back(approvals, ""),
        KeyCode::Char('e') => {
            let line = choice.marked().map(|(set, _)| set.join("; ")).unwrap_or_default();
            approvals.mode = DecisionMode::OwnPatterns { scope: choice.scope };
            return KeyReply { actions: Vec::new(), line: Some(line) };
        }
        KeyCode::Enter => {
            let (scope, Some(set)) = (choice.scope, choice.taken()) else {
                return KeyReply::default();
            };
            let decision = json!({"decision": "approve", "scope": scope, "patterns": set});
            return KeyReply { actions: approvals.decide(decision), line: None };
        }
        // A word, typed slowly: its first letter opened the list.
        KeyCode::Char(letter) => {
            let first = if choice.scope == "always" { 'a' } else { 's' };
            return back(approvals, &format!("{first}{letter}"));
        }
        _ => {}
    }
    KeyReply::default()
}

/// The lines above the input that say what keys do now.
pub fn prompt(approvals: &PendingApprovals, now: i64, term: &TermInfo) -> Vec<TextLine> {
    let Some(question) = approvals.current() else { return Vec::new() };
    let agent = foreign(question["agent"].as_str().unwrap_or("the agent"));
    if !question["refused"].is_null() {
        return Vec::new();
    }
    match &approvals.mode {
        DecisionMode::Keys if !approvals.is_settled(now) => Vec::new(),
        DecisionMode::Keys => keys(approvals, term),
        DecisionMode::Patterns(choice) => list(choice, &agent, &question["tool"], term),
        DecisionMode::OwnPatterns { .. } => {
            let text = "Patterns, one for each command with ; between them. Enter shows what they \
                        cover, Esc goes back.";
            hint(text, term)
        }
        DecisionMode::Reading => match &approvals.unread {
            Some(long) => long.page(term),
            None => keys(approvals, term),
        },
        DecisionMode::Note => {
            let text = format!("Note to {agent} (optional). Enter denies, Esc goes back.");
            hint(&text, term)
        }
    }
}

fn keys(approvals: &PendingApprovals, term: &TermInfo) -> Vec<TextLine> {
    let mut words: Vec<String> = match &approvals.unread {
        None if !approvals.can_last() => ["y once", "n deny"].map(str::to_owned).into(),
        None => ["y once", "s conversation", "a always", "n deny"].map(str::to_owned).into(),
        Some(long) => {
            let first = format!("v read all {} lines, then approve", long.lines.len());
            vec![first, "n deny".to_owned()]
        }
    };
    if approvals.unread.is_none() && !approvals.files().is_empty() {
        words.push("v file".to_owned());
    }
    words.push("d details".to_owned());
    words.extend(approvals.place().map(|(place, of)| format!("{place} of {of}, Tab next")));
    in_rows(&words, STRONG, term)
}

const STRONG: Style = Style { colour: Some(Colour::Yellow), ..Style::BOLD };

fn hint(text: &str, term: &TermInfo) -> Vec<TextLine> {
    indented(text, "  ", Style::FAINT, term)
}

fn list(choice: &PatternChoice, agent: &str, tool: &Value, term: &TermInfo) -> Vec<TextLine> {
    let heading = match choice.scope {
        "always" => format!("Always: writes rules for {agent}. Matches of the last calls:"),
        _ => "In this conversation. Matches of the last calls:".to_owned(),
    };
    let mut lines = hint(&heading, term);
    for (place, (set, found)) in choice.offered().iter().enumerate() {
        let count = found.as_ref().map(|found| {
            let count = |key: &str| found["last"][key].as_u64().unwrap_or(0);
            match found["covers"] == true {
                true => format!("  {} of {}", count("covered"), count("calls")),
                false => "  no".to_owned(),
            }
        });
        let count = count.unwrap_or_else(|| "  …".to_owned());
        let name = match set.as_slice() {
            [] if is_bare(found) => allowed(&Value::Null, tool),
            [] => "only exactly this call".to_owned(),
            set => joined(set),
        };
        let room = term.width.saturating_sub(width(&count) + 7);
        let mark = if place == choice.marked { term.sign("▌", ">") } else { " " };
        let style = if place == choice.marked { Style::BOLD } else { Style::PLAIN };
        let text = format!("  {mark}{} {}", place + 1, shortened(&name, room));
        lines.push(vec![TextSpan::new(text, style), TextSpan::new(count, Style::FAINT)]);
    }
    lines.extend(about_marked(choice, tool, term));
    let word = if choice.scope == "always" { "always" } else { "for this conversation" };
    let mut ways = vec!["e edit".to_owned(), "Esc back".to_owned()];
    if !choice.offered().is_empty() {
        let choose = format!("1-{} choose", choice.offered().len());
        ways.splice(0..0, [choose, format!("Enter approve {word}")]);
    }
    lines.extend(in_rows(&ways, STRONG, term));
    lines
}

/// Whether the rule has no condition.
fn is_bare(found: &Option<Value>) -> bool {
    found.as_ref().is_some_and(|found| found["allows"].as_array().is_some_and(Vec::is_empty))
}

/// The marked set whole, why it does not do, and what else it decides.
fn about_marked(choice: &PatternChoice, tool: &Value, term: &TermInfo) -> Vec<TextLine> {
    let Some((set, found)) = choice.marked() else { return Vec::new() };
    let mut lines = Vec::new();
    if width(&joined(set)) + 30 > term.width {
        lines.extend(hint(&joined(set), term));
    }
    let Some(found) = found else { return lines };
    if found["covers"] != true {
        lines.extend(hint(&foreign(found["why"].as_str().unwrap_or("it is refused")), term));
        return lines;
    }
    if set.is_empty() {
        lines.extend(hint(&format!("Allows {}", allowed(&found["allows"], tool)), term));
    }
    let others = items(&found["others"]).iter();
    let others: Vec<String> = others
        .map(|other| {
            let text = |key: &str| foreign(other[key].as_str().unwrap_or_default());
            format!("{} in {}", text("summary"), text("session_key"))
        })
        .collect();
    if !others.is_empty() {
        lines.extend(hint(&format!("Also approves: {}", others.join(", ")), term));
    }
    lines
}

/// Whether a message is what somebody would type to decide.
pub fn is_reply(text: &str) -> bool {
    let plain: String = text.trim().trim_end_matches(['.', '!', ',']).to_lowercase();
    let words = [
        "y", "yes", "yep", "yeah", "ok", "okay", "sure", "approve", "approved", "allow", "go",
        "go ahead", "do it", "n", "no", "nope", "deny", "denied", "reject",
    ];
    words.contains(&plain.as_str())
}

/// Below the input, where such a message was not sent.
pub fn explained(approvals: &PendingApprovals, text: &str, term: &TermInfo) -> Vec<TextLine> {
    let Some(question) = approvals.current() else { return Vec::new() };
    let agent = foreign(question["agent"].as_str().unwrap_or("the agent"));
    let about = foreign(question["summary"].as_str().unwrap_or("the call"));
    let text = foreign(text.trim());
    let how = match question["refused"].is_null() {
        true => format!(
            "Empty the line and press y to approve {} or n to deny it",
            shortened(&about, 40)
        ),
        false => "You may not decide this approval".to_owned(),
    };
    let text = format!(
        "Chat messages never approve anything. {how}, or press Enter again to send \"{text}\" to \
         {agent}."
    );
    hint(&text, term)
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
