//! Text for a terminal: styled spans, cleaned, measured and wrapped.
//!
//! All text is untrusted here: it may contain sequences that control the terminal, or characters
//! that reorder a line. Every span is cleaned when it is encoded, so that no caller can forget it.

use unicode_width::UnicodeWidthChar;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub colour: Option<Colour>,
    pub bold: bool,
    pub faint: bool,
    pub italic: bool,
    pub underline: bool,
    pub struck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Cyan = 36,
}

impl Style {
    pub const PLAIN: Self = Self {
        colour: None,
        bold: false,
        faint: false,
        italic: false,
        underline: false,
        struck: false,
    };
    pub const FAINT: Self = Self { faint: true, ..Self::PLAIN };
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };

    pub const fn of(colour: Colour) -> Self {
        Self { colour: Some(colour), ..Self::PLAIN }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSpan {
    pub text: String,
    pub style: Style,
}

impl TextSpan {
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::PLAIN)
    }
}

pub type TextLine = Vec<TextSpan>;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermInfo {
    pub width: usize,
    pub colour: bool,
    pub unicode: bool,
}

impl TermInfo {
    /// The sign, or its replacement on an ASCII terminal.
    pub fn sign(&self, sign: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { sign } else { ascii }
    }
}

/// Whether the character can control a terminal, or hide or reorder text.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A character as its code point.
pub fn named(letter: char) -> String {
    format!("‹U+{:04X}›", u32::from(letter))
}

/// The text without hostile characters. Line ends stay, tabs become spaces.
pub fn harmless(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => clean.push('\n'),
            '\t' => clean.push_str("    "),
            letter if is_hostile(letter) => {}
            letter => clean.push(letter),
        }
    }
    clean
}

/// The ASCII replacement of common signs; a question mark for the rest.
fn ascii(letter: char) -> &'static str {
    match letter {
        '‘' | '’' | '′' => "'",
        '“' | '”' | '«' | '»' => "\"",
        '–' | '—' | '−' | '‐' | '‑' => "-",
        '…' => "...",
        '•' | '·' | '●' => "*",
        '→' => "->",
        '←' => "<-",
        '×' => "x",
        '\u{a0}' | '\u{202f}' => " ",
        '✓' | '✔' => "v",
        _ => "?",
    }
}

pub fn width_of(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// Columns of a text that has been cleaned.
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

pub fn line_width(line: &[TextSpan]) -> usize {
    line.iter().map(|span| width(&span.text)).sum()
}

/// One line for the terminal, without its line end: our own colours around cleaned text.
pub fn encode(line: &[TextSpan], term: &TermInfo) -> String {
    let mut out = String::new();
    for span in line {
        let mut text = harmless(&span.text).replace('\n', " ");
        if !term.unicode {
            let mut buffer = [0; 4];
            let plain = |letter: char| match letter.is_ascii() {
                true => letter.encode_utf8(&mut buffer).to_owned(),
                false => ascii(letter).to_owned(),
            };
            text = text.chars().map(plain).collect();
        }
        if text.is_empty() {
            continue;
        }
        match term.colour && span.style != Style::PLAIN {
            true => {
                out.push_str(&sequence(span.style));
                out.push_str(&text);
                out.push_str("\x1b[0m");
            }
            false => out.push_str(&text),
        }
    }
    out
}

fn sequence(style: Style) -> String {
    let mut codes = Vec::new();
    let switches = [
        (style.bold, 1),
        (style.faint, 2),
        (style.italic, 3),
        (style.underline, 4),
        (style.struck, 9),
    ];
    codes.extend(switches.iter().filter(|(on, _)| *on).map(|(_, code)| code.to_string()));
    codes.extend(style.colour.map(|colour| (colour as u8).to_string()));
    format!("\x1b[{}m", codes.join(";"))
}

/// Breaks pieces into lines of at most `width` columns: at spaces where it can, inside words where
/// it must. Line ends in the text are kept.
pub fn wrap(spans: &[TextSpan], width: usize) -> Vec<TextLine> {
    let width = width.max(2);
    let mut wrapping = LineWrapper { lines: Vec::new(), line: Vec::new(), columns: 0, space: None };
    for span in spans {
        for letter in harmless(&span.text).chars() {
            wrapping.take(letter, span.style, width);
        }
    }
    wrapping.end_line();
    wrapping.lines
}

struct LineWrapper {
    lines: Vec<TextLine>,
    line: Vec<(char, Style)>,
    columns: usize,
    /// Where the line can be broken: the index of its last space.
    space: Option<usize>,
}

impl LineWrapper {
    fn take(&mut self, letter: char, style: Style, width: usize) {
        if letter == '\n' {
            self.end_line();
            return;
        }
        let columns = width_of(letter);
        if self.columns + columns > width {
            if letter == ' ' {
                // The space at the end of a full line is the break.
                self.end_line();
                return;
            }
            self.break_line();
        }
        if letter == ' ' && self.line.iter().any(|(letter, _)| *letter != ' ') {
            self.space = Some(self.line.len());
        }
        self.line.push((letter, style));
        self.columns += columns;
    }

    fn break_line(&mut self) {
        let Some(space) = self.space else {
            self.end_line();
            return;
        };
        let rest = self.line.split_off(space + 1);
        self.line.truncate(space);
        self.end_line();
        self.columns = rest.iter().map(|(letter, _)| width_of(*letter)).sum();
        self.line = rest;
    }

    fn end_line(&mut self) {
        let mut line: TextLine = Vec::new();
        for (letter, style) in self.line.drain(..) {
            match line.last_mut() {
                Some(span) if span.style == style => span.text.push(letter),
                _ => line.push(TextSpan::new(letter, style)),
            }
        }
        self.lines.push(line);
        self.columns = 0;
        self.space = None;
    }
}

/// Text with a sign before its first line and room for it before the others.
pub fn indented(text: &str, sign: &str, style: Style, term: &TermInfo) -> Vec<TextLine> {
    let columns = width(sign);
    let room = term.width.saturating_sub(columns);
    let lines = wrap(&[TextSpan::new(text.trim_end(), style)], room).into_iter().enumerate();
    let lines = lines.map(|(at, mut line)| {
        let margin =
            if at == 0 { TextSpan::new(sign, style) } else { TextSpan::plain(" ".repeat(columns)) };
        line.insert(0, margin);
        line
    });
    lines.collect()
}

/// Words with room between them, in as many rows as they need.
pub fn in_rows(words: &[String], style: Style, term: &TermInfo) -> Vec<TextLine> {
    let mut rows: Vec<String> = Vec::new();
    for word in words {
        match rows.last_mut() {
            Some(row) if width(row) + width(word) + 3 < term.width => *row += &format!("   {word}"),
            _ => rows.push(format!("  {word}")),
        }
    }
    rows.into_iter().map(|row| vec![TextSpan::new(row, style)]).collect()
}

/// The beginning of a text in one line of at most `width` columns.
pub fn shortened(text: &str, width: usize) -> String {
    let clean = harmless(text);
    let words = clean.split_whitespace().flat_map(|word| [" ", word]).skip(1);
    let mut short = String::new();
    let mut columns = 0;
    for letter in words.flat_map(str::chars) {
        columns += width_of(letter);
        if columns > width {
            while !short.is_empty() && self::width(&short) >= width {
                short.pop();
            }
            return short + "…";
        }
        short.push(letter);
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let lines = wrap(&[TextSpan::plain(text)], width);
        lines.iter().map(|line| line.iter().map(|span| span.text.as_str()).collect()).collect()
    }

    #[test]
    fn wrapping() {
        let cases: &[(&str, usize, &[&str])] = &[
            ("", 10, &[""]),
            ("one two three", 7, &["one two", "three"]),
            ("one two three", 8, &["one two", "three"]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("ab abcdefghij", 4, &["ab", "abcd", "efgh", "ij"]),
            ("  indented words", 10, &["  indented", "words"]),
            ("a\n\nb", 10, &["a", "", "b"]),
            ("日本語の文", 5, &["日本", "語の", "文"]),
            ("e\u{301}e\u{301}e\u{301}", 2, &["e\u{301}e\u{301}", "e\u{301}"]),
        ];
        for (text, width, lines) in cases {
            assert_eq!(wrapped(text, *width), *lines, "{text:?} in {width}");
        }
    }

    #[test]
    fn what_drives_or_misleads_a_terminal_is_taken_out() {
        let cases = [
            ("a\x1b]0;title\x07b\x1b[2J\u{9b}c\r\nd\te", "a]0;titleb[2Jc\nd    e"),
            ("\x1b]52;c;aGk=\x07", "]52;c;aGk="),
            ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "]8;;http://evil\\click]8;;\\"),
            ("user\u{202e}txt.exe\u{2066}", "usertxt.exe"),
            ("a\u{200b}\u{feff}\u{e0041}b\u{ad}", "ab"),
            ("e\u{301} 👩‍👧 日本", "e\u{301} 👩‍👧 日本"),
        ];
        for (text, clean) in cases {
            assert_eq!(harmless(text), clean, "{text:?}");
        }
        let term = TermInfo { width: 80, colour: true, unicode: false };
        let line = [TextSpan::new("“é” — \x1b[31m…", Style::BOLD)];
        assert_eq!(encode(&line, &term), "\x1b[1m\"?\" - [31m...\x1b[0m");
    }

    #[test]
    fn shortening() {
        let cases =
            [("one\n two", 20, "one two"), ("one two", 6, "one t…"), ("日本語", 5, "日本…")];
        for (text, width, short) in cases {
            assert_eq!(shortened(text, width), short);
        }
    }

    proptest! {
        #[test]
        fn lines_fit_and_hold_no_control_byte(
            letters in prop::collection::vec(any::<char>(), 0..200),
            columns in 2usize..60,
        ) {
            let text = String::from_iter(letters);
            let term = TermInfo { width: columns, colour: false, unicode: true };
            for line in wrap(&[TextSpan::plain(&text)], columns) {
                prop_assert!(line_width(&line) <= columns);
                let shown = encode(&line, &term);
                prop_assert!(!shown.chars().any(is_hostile), "{shown:?}");
            }
            prop_assert!(width(&shortened(&text, columns)) <= columns);
        }
    }
}
