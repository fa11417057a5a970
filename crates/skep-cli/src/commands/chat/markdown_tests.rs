#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::markdown::render;
use crate::print::text::{TermInfo, encode, line_width};

fn term(width: usize) -> TermInfo {
    TermInfo { width, colour: false, unicode: true }
}

fn shown(text: &str, width: usize) -> String {
    let term = term(width);
    let lines = render(text, &term);
    lines.iter().map(|line| encode(line, &term) + "\n").collect()
}

#[test]
fn every_kind_of_block() {
    let text = "# Title\nSome *soft* and **loud** words that go on, with `code` and a \
        [link](https://example.org/x).\n\n- one\n- two\n  1. inner\n  2. more\n- [x] done\n\n\
        > said\n> before\n\n```rust\nfn main() {}\n```\n\n---\n\n<b>raw</b> ~~gone~~  \nbroken\n\n\
        ![a cat](cat.png) <https://example.org>\n\n| name | size |\n|---|---|\n| a `b` | 1 |\n\
        | long name | 22 |\n";
    insta::assert_snapshot!(shown(text, 40), @r"
    # Title

    Some soft and loud words that go on,
    with `code` and a link
    (https://example.org/x).

    • one
    • two
      1. inner
      2. more
    • [x] done

    ▌ said before

      rust
      fn main() {}

    ────────────────────────────────────────

    <b>raw</b> gone
    broken

    [image] a cat (cat.png)
    https://example.org

    name       size
    ─────────  ────
    a `b`      1
    long name  22
    ");
}

#[test]
fn colours_are_ours_and_end_with_their_piece() {
    let term = TermInfo { width: 40, colour: true, unicode: true };
    let lines = render("**a** `b` \x1b[31mc", &term);
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(encode(line, &term), "\x1b[1ma\x1b[0m \x1b[36mb\x1b[0m [31mc");
}

#[test]
fn a_narrow_terminal_gets_its_tables_as_lists() {
    let text = "| name | a rather wide column | third |\n|---|---|---|\n| x | words in it | y |\n";
    insta::assert_snapshot!(shown(text, 12), @r"
    name: x
    a rather
    wide column:
    words in it
    third: y
    ");
    insta::assert_snapshot!(shown(text, 30), @r"
    name  a rather wide      third
          column
    ────  ─────────────────  ─────
    x     words in it        y
    ");
}

#[test]
fn columns_are_aligned_as_the_table_says() {
    let text = "| left | right | middle |\n|:--|--:|:-:|\n| a | 1 | x |\n| bb | 200 | yy |\n";
    insta::assert_snapshot!(shown(text, 40), @r"
    left  right  middle
    ────  ─────  ──────
    a         1    x
    bb      200    yy
    ");
}

#[test]
fn code_has_colours_for_comments_strings_numbers_and_keywords() {
    let term = TermInfo { width: 60, colour: true, unicode: true };
    let coloured = |tag: &str, code: &str| {
        let lines = render(&format!("```{tag}\n{code}\n```"), &term);
        let line = lines.last().unwrap();
        encode(line, &term).replace('\x1b', "")
    };
    let cases = [
        ("rust", "let a: &'a str = f(\"x\\\"\", 'y', 12u8); // no"),
        ("sh", "for a in b; do echo $# \"a #b\" it's; done # no"),
        ("py", "def f(x): return None or 'x'"),
        ("sql", "SELECT a FROM b WHERE c = 'd' -- no"),
        ("json", "{\"a\": [1.5, true, null], \"u\": \"http://x\"}"),
        ("unknown", "let a = 1"),
    ];
    let shown: Vec<String> = cases.iter().map(|(tag, code)| coloured(tag, code)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
      [34mlet[0m a: &'a str = f([32m"x\""[0m, [32m'y'[0m, [36m12u8[0m); [2m// no[0m
      [34mfor[0m a [34min[0m b; [34mdo[0m echo $# [32m"a #b"[0m it's; [34mdone[0m [2m# no[0m
      [34mdef[0m f(x): [34mreturn[0m [34mNone[0m [34mor[0m [32m'x'[0m
      [34mSELECT[0m a [34mFROM[0m b [34mWHERE[0m c = [32m'd'[0m [2m-- no[0m
      {[32m"a"[0m: [[36m1[0m.[36m5[0m, [34mtrue[0m, [34mnull[0m], [32m"u"[0m: [32m"http://x"[0m}
      [36mlet a = 1[0m
    "#);
    let plain = TermInfo { colour: false, ..term };
    let lines = render("```rust\nlet a = 1; // b\n```", &plain);
    assert_eq!(encode(lines.last().unwrap(), &plain), "  let a = 1; // b");
}

#[test]
fn a_text_that_grows_only_changes_at_its_end() {
    let text = "First.\n\n```\ncode one\ncode two\n```\nLast words.";
    let whole = shown(text, 40);
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        let part = shown(&text[..end], 40);
        let stable = part.trim_end().rfind('\n').unwrap_or(0);
        // Of a fence only its first ticks may be there; then they are words.
        if !text[..end].ends_with('`') {
            assert!(whole.starts_with(&part[..stable]), "{part}");
        }
    }
}

/// Letters that mean something, and some that mean harm.
fn hostile() -> impl Strategy<Value = String> {
    let letters = "#*_`~[]()<>|!-+>\n\n\n  \tab1.:/\\\x1b\x07\r\u{8}\u{9b}\u{202e}\u{2066}\u{0}é日";
    let letters: Vec<char> = letters.chars().collect();
    let letter = prop_oneof![6 => prop::sample::select(letters), 1 => any::<char>()];
    prop::collection::vec(letter, 0..300).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn no_text_reaches_the_terminal_raw(text in hostile(), width in 10usize..100) {
        for (colour, unicode) in [(false, true), (false, false)] {
            let term = TermInfo { width, colour, unicode };
            for line in render(&text, &term) {
                let shown = encode(&line, &term);
                prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
                prop_assert!(!shown.contains(['\u{202e}', '\u{2066}']), "{shown:?}");
                prop_assert!(unicode || shown.is_ascii(), "{shown:?}");
            }
        }
        let term = TermInfo { width, colour: true, unicode: true };
        for line in render(&text, &term) {
            // Only sequences that set a style.
            let shown = encode(&line, &term);
            for after in shown.split('\x1b').skip(1) {
                let end = after.find('m').unwrap();
                prop_assert!(after.starts_with('['), "{shown:?}");
                prop_assert!(after[1..end].bytes().all(|b| b.is_ascii_digit() || b == b';'));
            }
            prop_assert!(line_width(&line) <= width, "{shown:?}");
        }
    }
}
