//! Excerpts: the place of the first match, in characters.

use super::*;

fn marked(text: &str) -> String {
    text.replace('[', &MARK.0.to_string()).replace(']', &MARK.1.to_string())
}

#[test]
fn an_excerpt_begins_near_its_first_match() {
    let plain = |text: &str| text.replace(['[', ']'], "");
    let cut = |text: &str| excerpt(&plain(text), &marked(text));
    let short = "ein [Bär] und noch ein [bar]";
    assert_eq!(
        cut(short),
        ("ein Bär und noch ein bar".to_owned(), 0, false, vec![(4, 3), (21, 3)])
    );

    let long = format!("{}[match] {}[late]", "wörd ".repeat(100), "x ".repeat(200));
    let (shown, at, more, marks) = cut(&long);
    assert!(shown.starts_with("wörd ") && more, "{shown}");
    assert_eq!((shown.chars().count(), marks.as_slice()), (EXCERPT, &[(500 - at, 5)][..]));
    assert_eq!(shown.chars().skip(500 - at).take(5).collect::<String>(), "match");

    let solid = format!("{}[match]", "x".repeat(300));
    let (shown, at, more, marks) = cut(&solid);
    assert_eq!((shown.chars().count(), at, more, marks), (LEAD + 5, 240, false, vec![(LEAD, 5)]));
}

/// Whoever writes the marks into a message gets no marks, and nobody else's are moved.
#[test]
fn attack_a_text_with_the_marks_in_it_has_none() {
    let text = format!("a{}b cat", MARK.0);
    let (shown, at, _, marks) = excerpt(&text, &format!("a{}b {}cat{}", MARK.0, MARK.0, MARK.1));
    assert_eq!((shown, at, marks), (text, 0, Vec::new()));
}
