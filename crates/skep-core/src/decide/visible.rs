//! Text that a person decides by: whole, and without characters that show something else than
//! what is there.

use std::borrow::Cow;
use std::fmt::Write as _;

use icu_properties::props::{
    BinaryProperty, DefaultIgnorableCodePoint, EnumeratedProperty, GeneralCategory,
    GeneralCategoryGroup,
};
use serde_json::Value;

/// Blanks in a row that stay as they are, and line ends among them.
const BLANKS: usize = 80;
const LINE_ENDS: usize = 10;

/// The text with everything that is invisible or that moves other text named by its number. Line
/// ends and tabs stay, unless there are so many that what follows them would be out of sight.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    // How many marks the letter before could still take.
    let mut room = 0;
    while let Some(c) = rest.chars().next() {
        let solid = rest.trim_start_matches([' ', '\t', '\n']);
        let (blank, after) = rest.split_at(rest.len() - solid.len());
        if !blank.is_empty() {
            shown.push_str(&bounded(blank));
            rest = after;
            room = 0;
            continue;
        }
        let sort = sort(c);
        match sort {
            Sort::Seen => shown.push(c),
            Sort::Mark if room > 0 => shown.push(c),
            // Writing to a String cannot fail.
            Sort::Mark | Sort::Hidden => drop(write!(shown, "‹U+{:04X}›", u32::from(c))),
        }
        room = match sort {
            Sort::Seen => MARKS,
            Sort::Mark => room.saturating_sub(1),
            Sort::Hidden => 0,
        };
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

/// Accents that may stand on one letter; more would cover the lines around it.
const MARKS: usize = 3;

/// Symbols and letters by their class that are printed as nothing.
const BLANK: [char; 4] = ['\u{2800}', '\u{FFFC}', '\u{16FE4}', '\u{1D159}'];

/// What a character is to a reader. Letters, numbers, punctuation and symbols are seen; whatever
/// Unicode has beside them is not: controls, formats, blanks but for the plain one, private use,
/// and what is not assigned.
#[derive(PartialEq, Eq)]
enum Sort {
    Seen,
    /// It stands on the letter before it.
    Mark,
    Hidden,
}

fn sort(c: char) -> Sort {
    if (' '..='~').contains(&c) {
        return Sort::Seen;
    }
    let class = GeneralCategory::for_char(c);
    let seen = [
        GeneralCategoryGroup::Letter,
        GeneralCategoryGroup::Number,
        GeneralCategoryGroup::Punctuation,
        GeneralCategoryGroup::Symbol,
    ];
    if DefaultIgnorableCodePoint::for_char(c) || BLANK.contains(&c) {
        Sort::Hidden
    } else if seen.iter().any(|group| group.contains(class)) {
        Sort::Seen
    } else if GeneralCategoryGroup::Mark.contains(class) {
        Sort::Mark
    } else {
        Sort::Hidden
    }
}

/// Whether a character hides text, moves it or says something that no reader sees. Joiners and
/// marks that choose between two pictures of a sign do not: scripts and signs are written so.
pub fn misleads(c: char) -> bool {
    match c {
        '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => false,
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' => true,
        c => c.is_control() || DefaultIgnorableCodePoint::for_char(c),
    }
}

/// Whether there is nothing to read in a text.
pub fn is_blank(text: &str) -> bool {
    !text.chars().any(|c| c != ' ' && sort(c) == Sort::Seen)
}

/// Whether a text can be the name of a file of settings: one line that shows what it is, and
/// neither hidden nor an option.
pub fn is_plain_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(char::is_alphanumeric)
        && !name.ends_with(' ')
        && !name.contains(['/', '\\', '\n', '\t'])
        && visible(name) == name
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

/// Characters of a summary.
const SUMMARY: usize = 160;

/// What a call is about in one line, for lists and titles: the first line of its command, else its
/// path, its address or its first argument. `…` stands for whatever is left out.
pub fn summary(arguments: &Value) -> String {
    let named = ["command", "file_path", "path", "url", "host"];
    let named = named.iter().find_map(|key| arguments.get(*key)?.as_str());
    let text = named.map_or_else(|| shown_arguments(arguments).into(), Cow::Borrowed);
    let text = text.trim_matches([' ', '\t', '\n']);
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    // The end of a line that goes on in the next one.
    let line = if rest.is_empty() { line } else { line.trim_end_matches(['\\', ' ', '\t']) };
    let (short, cut) = shortened(line, SUMMARY);
    let seen = visible(short).replace('\t', " ");
    let (short, longer) = shortened(&seen, SUMMARY);
    match cut || longer || !rest.is_empty() {
        true => format!("{short} …"),
        false => short.to_owned(),
    }
}

/// What a call that changes the hive would do, in one line that begins with a verb.
pub fn change_summary(tool: &str, arguments: &Value) -> String {
    let name = ["name", "agent"].iter().find_map(|key| arguments.get(*key)?.as_str());
    let name = name.map(|name| visible(&bounded_text(name, SUMMARY)).replace('\n', " "));
    let below = arguments.get("cascade").and_then(Value::as_bool) == Some(true);
    match (tool, name) {
        ("spawn_team", Some(name)) => format!("make the team {name}"),
        ("request_spawn", Some(name)) => format!("make the agent {name}"),
        ("shutdown_team", Some(name)) if below => {
            format!("remove the team {name} and all agents below it, for good")
        }
        ("shutdown_team", Some(name)) => format!("remove the team {name}, for good"),
        ("kill", Some(name)) => format!("stop the agent {name}"),
        ("start" | "restart", Some(name)) => format!("{tool} the agent {name}"),
        _ => format!("change the hive with {tool}: {}", summary(arguments)),
    }
}

/// What a text ends with that was cut.
pub const CUT: &str = " …";

/// A text for people within bounds: whole, or its beginning with `…`.
pub fn bounded_text(text: &str, most: usize) -> String {
    let (short, cut) = shortened(text, most);
    let end = if cut { CUT } else { "" };
    format!("{}{end}", visible(short))
}

/// The first characters, and whether that is not all.
fn shortened(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
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
    fn gate_every_character_is_seen_or_named() {
        // One of each way to hide: fillers, selectors, tags, soft hyphen, blanks, private use,
        // unassigned, joiners, blank symbols, a mark without a letter.
        let hidden = "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{180e}\u{200c}\u{200d}\u{2003}\
                      \u{2060}\u{2062}\u{2800}\u{3000}\u{3164}\u{fe0f}\u{ffa0}\u{fffc}\u{e000}\
                      \u{378}\u{1d159}\u{1d173}\u{16fe4}\u{e0100}\u{e0001}\u{e0fff}\u{85}";
        for c in hidden.chars() {
            assert_eq!(visible(&format!("a{c}b")), format!("a‹U+{:04X}›b", u32::from(c)));
        }
        let seen = "é e\u{301} ñ ß ж 語 한 ก\u{e33} अ\u{93f} 🐝 € ½ ² – “x” …";
        assert_eq!(visible(seen), seen);
        assert_eq!(visible("a \u{301}b"), "a ‹U+0301›b", "a mark on nothing");
        let flood = format!("a{}b", "\u{301}".repeat(5));
        assert_eq!(visible(&flood), "a\u{301}\u{301}\u{301}‹U+0301›‹U+0301›b");
        for c in (0..=0x10_FFFF).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(c == '\n' || c == '\t' || visible(&c.to_string()).starts_with('‹'), "{c:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_blank() {
        for blank in ["", " \n\t", "\u{200b}\u{2060}", "\u{3164} \u{2800}", "\u{301}", "\u{a0}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        assert!(!is_blank("\u{200b}.") && !is_blank("語"));
    }

    #[test]
    fn names_of_settings_files() {
        for good in ["a.md", "Regeln für alle.md", "10_style-guide (new).md", "語.md"] {
            assert!(is_plain_name(good), "{good}");
        }
        let long = "x".repeat(101);
        let bad = [
            "",
            ".",
            "..",
            ".a.md",
            "-rf.md",
            " a.md",
            "a.md ",
            "a/b.md",
            "a\\b",
            "a\nb.md",
            "a\tb",
            "a\u{1b}[2J.md",
            "a\u{202e}dm.x",
            "a\u{200b}.md",
            "a\u{a0}b.md",
            &long,
        ];
        for bad in bad {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn gate_a_summary_is_one_bounded_line() {
        let long = "x".repeat(5000);
        let cases = [
            (json!({"command": "ls"}), "ls".to_owned()),
            (
                json!({"timeout_ms": 5, "command": "psql \"$URL\" \\\n  -f a.sql"}),
                "psql \"$URL\" …".to_owned(),
            ),
            (
                json!({"command": "\n\n  cargo build &&\n\trsync a b"}),
                "cargo build && …".to_owned(),
            ),
            (json!({"command": "a\tb\n"}), "a b".to_owned()),
            (json!({"file_path": "src/a.rs", "content": "x\ny"}), "src/a.rs".to_owned()),
            (json!({"url": "https://example.org/a"}), "https://example.org/a".to_owned()),
            (json!({"text": "hello\nyou"}), "text: …".to_owned()),
            (json!({}), String::new()),
            (json!(7), "7".to_owned()),
            // What moves, hides or ends lines does so in no list.
            (
                json!({"command": "ls\u{1b}[2K\u{202e}\r\u{2028}x"}),
                "ls‹U+001B›[2K‹U+202E›‹U+000D›‹U+2028›x".to_owned(),
            ),
            (json!({"command": long}), format!("{} …", "x".repeat(160))),
            (json!({"command": "y\n".repeat(4000)}), "y …".to_owned()),
            (json!({"path": "a\nb"}), "a …".to_owned()),
        ];
        for (arguments, expected) in cases {
            assert_eq!(summary(&arguments), expected);
        }
        let hidden = summary(&json!({"command": "\u{202e}".repeat(900)}));
        assert!(hidden.chars().count() <= 162, "{hidden}");
        assert_eq!(bounded_text("a\u{1b}\nbc", 4), "a‹U+001B›\nb …");
        assert_eq!(bounded_text("abcd", 4), "abcd");
    }

    #[test]
    fn gate_a_change_of_the_hive_is_told_by_what_it_does() {
        let cases = [
            ("spawn_team", json!({"name": "a", "scope_accepts": ["x"]}), "make the team a"),
            ("shutdown_team", json!({"name": "a"}), "remove the team a, for good"),
            (
                "shutdown_team",
                json!({"name": "a", "cascade": true}),
                "remove the team a and all agents below it, for good",
            ),
            ("kill", json!({"agent": "a\n\u{202e}b"}), "stop the agent a ‹U+202E›b"),
            ("restart", json!({"agent": "a"}), "restart the agent a"),
            ("write", json!({"path": "a.md"}), "change the hive with write: a.md"),
            ("spawn_team", json!({}), "change the hive with spawn_team: "),
        ];
        for (tool, arguments, expected) in cases {
            assert_eq!(change_summary(tool, &arguments), expected);
        }
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
