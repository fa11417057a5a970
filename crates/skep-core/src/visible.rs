//! Text that a person decides by: whole, and without characters that show something else than
//! what is there.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Blanks in a row that stay as they are, and line ends among them.
const BLANKS: usize = 80;
const LINE_ENDS: usize = 10;

/// The text with everything that is invisible or that moves other text named by its number. Line
/// ends and tabs stay, unless there are so many that what follows them would be out of sight.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let solid = rest.trim_start_matches([' ', '\t', '\n']);
        let (blank, after) = rest.split_at(rest.len() - solid.len());
        if !blank.is_empty() {
            shown.push_str(&bounded(blank));
            rest = after;
            continue;
        }
        match is_deceptive(c) {
            // Writing to a String cannot fail.
            true => drop(write!(shown, "‹U+{:04X}›", u32::from(c))),
            false => shown.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

fn bounded(blank: &str) -> Cow<'_, str> {
    let line_ends = blank.bytes().filter(|byte| *byte == b'\n').count();
    match blank.len() > BLANKS || line_ends > LINE_ENDS {
        true => format!("‹{} blanks, {line_ends} line ends›", blank.len() - line_ends).into(),
        false => blank.into(),
    }
}

/// Control characters, marks of direction, characters without width, blanks that are no blanks,
/// and tags.
fn is_deceptive(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{00AD}'
        | '\u{034F}'
        | '\u{061C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        '\u{00A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => true,
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}' => true,
        c => c.is_control(),
    }
}

/// The arguments of a call for a person: one line for each, texts as they are.
pub fn shown_arguments(arguments: &Value) -> String {
    let Value::Object(fields) = arguments else { return visible(&arguments.to_string()) };
    let lines = fields.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) if text.contains('\n') => {
                format!("\n  {}", visible(text).replace('\n', "\n  "))
            }
            Value::String(text) => format!(" {}", visible(text)),
            other => format!(" {}", visible(&other.to_string())),
        };
        // A name is in one line, so that no other argument can be made to stand there.
        format!("{}:{value}", visible(name).replace('\n', "‹U+000A›"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gate_what_is_hidden_is_shown() {
        let cases = [
            ("rm -rf build", "rm -rf build"),
            ("a\u{1b}[2Kb", "a‹U+001B›[2Kb"),
            ("a\u{202e}txt.exe", "a‹U+202E›txt.exe"),
            ("a\rb\u{8}c\u{7f}", "a‹U+000D›b‹U+0008›c‹U+007F›"),
            ("a\u{200b}b\u{feff}", "a‹U+200B›b‹U+FEFF›"),
            ("a\u{e0041}", "a‹U+E0041›"),
            ("a\u{a0}b\u{2028}c", "a‹U+00A0›b‹U+2028›c"),
            ("\u{9b}31m", "‹U+009B›31m"),
            ("two\nlines\tand tabs: äöü 語 🐝", "two\nlines\tand tabs: äöü 語 🐝"),
        ];
        for (text, expected) in cases {
            assert_eq!(visible(text), expected);
        }
        // What stands behind a screen of nothing is not out of sight.
        let (blanks, lines) = (" ".repeat(5000), "\n".repeat(300));
        assert_eq!(visible(&format!("ls{blanks}; rm")), "ls‹5000 blanks, 0 line ends›; rm");
        assert_eq!(visible(&format!("ls{lines}\trm")), "ls‹1 blanks, 300 line ends›rm");
        let indented = format!("a\n{}b\n\n\nc", " ".repeat(60));
        assert_eq!(visible(&indented), indented);
        let long = "x".repeat(20_000) + "\u{202e}";
        assert_eq!(visible(&long), "x".repeat(20_000) + "‹U+202E›");
    }

    #[test]
    fn gate_arguments_are_shown_whole() {
        let arguments =
            json!({"command": "a\nb\u{1b}", "timeout_ms": 5, "k\u{202e}": ["\u{200b}"]});
        let expected = "command:\n  a\n  b‹U+001B›\ntimeout_ms: 5\nk‹U+202E›: [\"‹U+200B›\"]";
        assert_eq!(shown_arguments(&arguments), expected);
        assert_eq!(shown_arguments(&json!("x")), "\"x\"");
        assert_eq!(shown_arguments(&json!({"a\ncommand": "ls"})), "a‹U+000A›command: ls");
    }
}
