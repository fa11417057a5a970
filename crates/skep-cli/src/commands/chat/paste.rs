//! Large pastes: one sign in the input line, whole in the message.

use crate::print::text::{harmless, shortened, width};

/// A paste is folded from this many lines or characters on.
const LINES: usize = 10;
const CHARACTERS: usize = 1000;
/// Columns of the beginning that the sign shows.
const BEGINNING: usize = 28;
/// One of these stands for a paste in the line: noncharacters, which no text has.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd2}'..='\u{fdef}';
/// These are around it in the input history.
const BEGINS: char = '\u{fdd0}';
const ENDS: char = '\u{fdd1}';

#[derive(Default)]
pub struct Pastes(Vec<String>);

/// `900 B`, `18 kB`.
pub fn size(bytes: u64) -> String {
    if bytes < 1000 { format!("{bytes} B") } else { format!("{} kB", bytes / 1000) }
}

impl Pastes {
    /// What is written into the line for this paste.
    pub fn fold(&mut self, text: &str) -> String {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        // Line ends and tabs stay; other control characters and our own signs are removed.
        let text = text.split('\t').map(harmless).collect::<Vec<_>>().join("\t");
        let text = text.replace(|letter| (BEGINS..=*MARKS.end()).contains(&letter), "");
        match text.lines().count() >= LINES || text.chars().count() >= CHARACTERS {
            true => self.mark(text),
            false => text,
        }
    }

    /// More pastes than there are signs stay as they are.
    fn mark(&mut self, text: String) -> String {
        let place = self.0.iter().position(|known| *known == text);
        let place = place.unwrap_or(self.0.len());
        let Some(mark) = MARKS.clone().nth(place) else { return text };
        if place == self.0.len() {
            self.0.push(text);
        }
        mark.to_string()
    }

    /// The paste that a sign stands for.
    fn of(&self, letter: char) -> Option<&str> {
        let place = MARKS.clone().position(|mark| mark == letter)?;
        self.0.get(place).map(String::as_str)
    }

    pub fn are_in(&self, line: &str) -> bool {
        line.chars().any(|letter| self.of(letter).is_some())
    }

    /// The message that the line stands for.
    pub fn unfold(&self, line: &str) -> String {
        self.replaced(line, |text| text.to_owned())
    }

    /// The line as the history keeps it.
    pub fn kept(&self, line: &str) -> String {
        self.replaced(line, |text| format!("{BEGINS}{text}{ENDS}"))
    }

    fn replaced(&self, line: &str, by: impl Fn(&str) -> String) -> String {
        let letters = line.chars();
        letters.map(|letter| self.of(letter).map_or_else(|| letter.to_string(), &by)).collect()
    }

    /// The line from the history.
    pub fn recalled(&mut self, kept: &str) -> String {
        let mut pieces = kept.split(BEGINS);
        let mut line = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (text, after) = piece.split_once(ENDS).unwrap_or((piece, ""));
            line += &(self.mark(text.to_owned()) + after);
        }
        line
    }

    /// How the letter is shown where this many columns are left, of so many.
    pub fn shown(&self, letter: char, left: usize, columns: usize) -> Option<String> {
        let text = self.of(letter)?;
        let size = size(text.len() as u64);
        let short = format!("[pasted {} lines, {size}", text.lines().count());
        let whole = format!("{short}: \"{}\"]", shortened(text, BEGINNING));
        let room = if width(&short) < left { left } else { columns };
        Some(if width(&whole) <= room { whole } else { short + "]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_paste_is_one_sign_and_the_whole_message() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.fold("a\r\n\tb\rc\u{1b}[2J\u{fdd2}"), "a\n\tb\nc[2J");
        assert_eq!(pastes.fold(&"x\n".repeat(9)), "x\n".repeat(9));
        let (many, long) = ("x\n".repeat(10), "y".repeat(1000));
        let line = format!("why {} or {}?", pastes.fold(&many), pastes.fold(&long));
        assert_eq!(line.chars().count(), 11, "{line:?}");
        assert_eq!(pastes.unfold(&line), format!("why {many} or {long}?"));
        let kept = pastes.kept(&line);
        assert!(kept.contains(&many));
        assert_eq!(pastes.recalled(&kept), line, "no new sign for the same paste");
        let mut later = Pastes::default();
        let again = later.recalled(&kept);
        assert_eq!((later.unfold(&again), later.are_in(&again)), (pastes.unfold(&line), true));
        let shown = |left, columns| later.shown('\u{fdd2}', left, columns);
        let whole = "[pasted 10 lines, 20 B: \"x x x x x x x x x x\"]";
        assert_eq!(shown(60, 77).as_deref(), Some(whole));
        assert_eq!(shown(30, 77).as_deref(), Some("[pasted 10 lines, 20 B]"));
        assert_eq!(shown(10, 37).as_deref(), Some("[pasted 10 lines, 20 B]"));
        assert_eq!(later.shown('x', 60, 77), None);
    }
}
