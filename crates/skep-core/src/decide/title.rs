//! What a conversation is called until somebody names it.

use crate::vocab::message::{Body, Role};

/// Characters of a title.
const TITLE: usize = 60;
/// Characters of the longest word that is expected behind others.
const LONG_WORD: usize = 30;
/// Fewer letters and digits than this name nothing: "y", "ok".
const SHORTEST: usize = 4;
/// A first sentence shorter than this is followed by the one that says what it is about: "Hi!".
const SENTENCE: usize = 12;

/// The title that a message gives to its conversation; empty where it says too little.
pub fn of(body: &Body) -> String {
    if body.role != Role::User || !body.is_spoken() {
        return String::new();
    }
    derived(&body.plain_text())
}

/// The first sentence or line, without markdown.
fn derived(text: &str) -> String {
    // Far more than a title takes: a long message is not walked to its end.
    let lines = text.lines().take(50).filter(|line| !line.trim_start().starts_with("```"));
    let mut lines = lines.map(|line| bare(line.trim()));
    let Some(line) = lines.find(|line| weight(line) >= SHORTEST) else { return String::new() };
    let title = first_words(sentence(&line), TITLE);
    title.trim_end_matches(['.', ',', ':', ';', ' ']).to_owned()
}

fn weight(text: &str) -> usize {
    text.chars().take(TITLE).filter(|character| character.is_alphanumeric()).count()
}

/// A line without the marks of headings, quotes, lists, emphasis and code.
fn bare(line: &str) -> String {
    let mut rest = line.trim_start_matches(['#', '>', '-', '*', '+', ' ']);
    let digits = rest.trim_start_matches(|character: char| character.is_ascii_digit());
    if digits.len() < rest.len() {
        rest = digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")).unwrap_or(rest);
    }
    if let Some((word, after)) = rest.strip_prefix('/').and_then(|word| word.split_once(' '))
        && word.chars().all(char::is_alphabetic)
    {
        rest = after;
    }
    rest.replace(['`', '*'], "").replace("__", "").replace("~~", "")
}

fn sentence(line: &str) -> &str {
    let ends = line.match_indices(['.', '?', '!', '。', '？', '！']);
    let mut ends = ends.map(|(at, mark)| at + mark.len());
    let is_end = |end: &usize| {
        *end >= SENTENCE && line[*end..].chars().next().is_none_or(char::is_whitespace)
    };
    ends.find(is_end).map_or(line, |end| &line[..end])
}

/// Whether more words may have stood behind an automatic title: the next one did not fit.
pub fn may_be_cut(title: &str) -> bool {
    title.chars().count() >= TITLE - LONG_WORD
}

/// One line of at most so many characters, cut between two words.
pub fn first_words(text: &str, most: usize) -> String {
    let mut words = String::new();
    // A long text is not walked to its end.
    for word in text.split_whitespace().take(most) {
        let room = most.saturating_sub(words.chars().count() + usize::from(!words.is_empty()));
        if words.is_empty() {
            words.extend(word.chars().take(room));
        } else if word.chars().count() <= room {
            words.push(' ');
            words.push_str(word);
        } else {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::message::Block;

    #[test]
    fn titles() {
        let long = "Compare the totals of this winter with those of the last one, room by room";
        let cases = [
            ("y", ""),
            ("ok!", ""),
            ("", ""),
            ("hello", "hello"),
            ("  Fix the build\n\nIt fails since Monday.", "Fix the build"),
            ("Hi! Where is the invoice of May? I need it.", "Hi! Where is the invoice of May?"),
            ("Read prices.toml and round it. Then stop.", "Read prices.toml and round it"),
            ("# **Winter** prices", "Winter prices"),
            ("> - `cargo test` fails:", "cargo test fails"),
            ("2. see the __plan__ first", "see the plan first"),
            ("/review the last change", "the last change"),
            ("/etc/hosts has a wrong line", "/etc/hosts has a wrong line"),
            ("```sh\nls -la /srv\n```", "ls -la /srv"),
            ("y\nand then the second line", "and then the second line"),
            (long, "Compare the totals of this winter with those of the last"),
            ("Öffnungszeiten für den Winter?", "Öffnungszeiten für den Winter?"),
        ];
        for (text, title) in cases {
            assert_eq!(derived(text), title, "{text:?}");
        }
        assert_eq!(derived(&"x".repeat(100)), "x".repeat(60));
    }

    #[test]
    fn only_what_a_person_wrote_names_a_conversation() {
        let said =
            Body { role: Role::User, ..Body::assistant(vec![Block::text("the invoice")], None) };
        assert_eq!(of(&said), "the invoice");
        assert_eq!(of(&Body { role: Role::Assistant, ..said }), "");
    }
}
