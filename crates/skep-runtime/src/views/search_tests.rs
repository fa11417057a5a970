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

/// The first half of a value at the end of an excerpt, the second at its beginning, or a match in
/// the middle of it.
#[test]
fn attack_a_secret_is_not_cut_apart_by_an_excerpt() {
    let value = "value-of-an-excerpt-0123456789";
    skep_scrub::known().add([skep_scrub::Secret::new("vault.EXCERPT", value)]);
    let plain = |text: &str| text.replace(['<', '>'], "");
    let marked =
        |text: &str| text.replace('<', &MARK.0.to_string()).replace('>', &MARK.1.to_string());
    for gap in 0..EXCERPT + 40 {
        let text = format!("<match> {}{value}", "y".repeat(gap));
        let (shown, ..) = excerpt(&plain(&text), &marked(&text));
        assert!(!shown.contains("value-of"), "{gap}: {shown}");
        let text = format!("{value}{} <match>", "y".repeat(gap));
        let (shown, ..) = excerpt(&plain(&text), &marked(&text));
        assert!(!shown.contains("6789"), "{gap}: {shown}");
    }
    let text = "a <match> in value-of-an-<excerpt>-0123456789 and a <match> behind";
    let (shown, _, _, marks) = excerpt(&plain(text), &marked(text));
    assert_eq!(shown, "a match in [secret:vault.EXCERPT] and a match behind");
    assert_eq!(marks, [(2, 5), (40, 5)]);
}
