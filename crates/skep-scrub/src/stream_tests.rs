#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use crate::{Scrubber, Secret, Stream, work};

/// What a text may be made of, over and over: letters, escapes of every kind and inside each
/// other, encodings, ends of words, beginnings of formats and of escapes.
const PATTERNS: [&str; 42] = [
    "x",
    "word ",
    "é",
    "\n",
    "a\n",
    "%61",
    "%25",
    "%2525",
    "%61 ",
    "%61%61%61%61%61%61\n",
    "\\u0061",
    "\\\\\\u0061",
    "\\ud83d\\udc1d",
    "\\x61",
    "\\u{61}",
    "\\n",
    "\\\n",
    "\\",
    "\\\\\\\\\\\\\\\\ ",
    "\\\"",
    "&#97;",
    "&#x000061;",
    "&#97",
    "&amp;",
    "&amp;#97;",
    "&",
    "%26%2397;",
    "%5Cu0061",
    "\\u002561",
    "&#37;36&#37;31",
    "%",
    "6a6b",
    "6A6b",
    "YWFhYWFh",
    "YWFhYWFhYWFhYWFhYWFhYWFh\n",
    "YWFhYWFhYWFhYWFhYWFhYWFh\\n",
    "-----BEGIN PRIVATE KEY-----\n\n",
    "ghp_",
    "eyJhbGciOiJIUzI1NiJ9.",
    "-ey",
    "sl.",
    "sk-ant-",
];

/// With a short secret, with one of several words, with a key file.
fn vaults() -> [Scrubber; 3] {
    let line = |number: usize| format!("{number:02}{}\n", "aB3dE5gH7jK9mN1p".repeat(4));
    let lines: String = (0..24).map(line).collect();
    let key = format!("-----BEGIN FROBNITZ-----\n{lines}-----END FROBNITZ-----\n");
    ["hive-Zz9_x8Yy7Ww6Vv5Uu4", "correct horse battery staple 77", &key].map(|value| {
        let scrubber = Scrubber::default();
        scrubber.add([Secret::new("s", value)]);
        scrubber
    })
}

fn letter_by_letter(scrubber: &Scrubber, text: &str) -> String {
    let mut stream = Stream::default();
    let pushed = text.chars().map(|letter| stream.push(scrubber, letter.to_string()));
    let mut passed: String = pushed.collect();
    passed.push_str(&stream.finish(scrubber));
    passed
}

/// So many bytes are looked at for each byte of a text at most, however long it is.
const MOST_WORK: usize = 600;

#[test]
fn a_text_in_letters_takes_time_for_its_length() {
    for (number, scrubber) in vaults().iter().enumerate() {
        for pattern in PATTERNS {
            for length in [1_250, 5_000] {
                let text: String = pattern.chars().cycle().take(length).collect();
                let clean = scrubber.clean(&text);
                let work = work::of(|| assert_eq!(letter_by_letter(scrubber, &text), clean));
                let most = MOST_WORK * text.len();
                assert!(work <= most, "{pattern:?} {length}, vault {number}: {work} > {most}");
            }
        }
    }
}

/// Runs that nothing is made of until their end comes.
#[test]
fn a_text_in_one_piece_takes_time_for_its_length() {
    let texts = [
        format!("{}z", "\\".repeat(100_000)),
        format!("{} a", "\\".repeat(100_000)),
        format!("{}{}", "YWFhYWFhYWFhYWFhYWFh\n", "a\n".repeat(50_000)),
        format!("{}{}", "YWFhYWFhYWFhYWFhYWFh\n", "\\\\\\\\q\n".repeat(20_000)),
    ];
    for scrubber in vaults() {
        for text in &texts {
            let work = work::of(|| {
                let mut stream = Stream::default();
                let passed = stream.push(&scrubber, text.clone());
                assert_eq!(passed + &stream.finish(&scrubber), *text);
            });
            assert!(work <= 16 * text.len(), "{}: {work}", &text[..30]);
        }
    }
}

/// Secrets in one run of letters, whole and in letters.
#[test]
fn a_run_full_of_secrets_takes_time_for_its_length() {
    let token = "npm_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3/";
    let [short, ..] = vaults();
    let (text, clean) = (token.repeat(300), "[secret:format.npm-token]/".repeat(300));
    let whole = work::of(|| assert_eq!(short.clean(&text), clean));
    assert!(whole <= 64 * text.len(), "{whole}");
    let letters = work::of(|| assert_eq!(letter_by_letter(&short, &text), clean));
    assert!(letters <= MOST_WORK * text.len(), "{letters}");
}

/// Tokens that overlap with each other, in one run of letters and in the body of a key.
#[test]
fn tokens_inside_tokens_take_time_for_their_length() {
    let [short, ..] = vaults();
    for before in ["", "-----BEGIN RSA PRIVATE KEY-----\n"] {
        for token in ["eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9-"] {
            let text = format!("{before}{}", token.repeat(2_000));
            let clean = short.clean(&text).into_owned();
            let whole = work::of(|| assert_eq!(short.clean(&text), clean));
            assert!(whole <= 64 * text.len(), "{before} {token}: {whole}");
            let letters = work::of(|| assert_eq!(letter_by_letter(&short, &text), clean));
            assert!(letters <= MOST_WORK * text.len(), "{before} {token}: {letters}");
        }
    }
}

/// A known secret that is not whole yet may be a line of the key before it.
#[test]
fn a_secret_in_a_key_is_a_part_of_it_in_letters_too() {
    let [short, ..] = vaults();
    let begin = "-----BEGIN PRIVATE KEY-----\n\n";
    for count in 1..7 {
        for between in ["%61", "", "\n"] {
            let secret = "hive-Zz9_x8Yy7Ww6Vv5Uu4";
            let text = format!("xxx{}{secret}{between}{secret}", begin.repeat(count));
            assert_eq!(letter_by_letter(&short, &text), short.clean(&text), "{count} {between}");
        }
    }
}

/// However long a token or a key is, no part of it is shown or kept.
#[test]
fn long_secrets_go_whole_and_do_not_wait() {
    let [short, phrase, _] = vaults();
    let letters = "Ab0Cd1Ef2Gh3Ij4K".repeat(800);
    let lines = |end: &str| format!("{}{end}", "Ab0Cd1Ef2Gh3Ij4K".repeat(4)).repeat(300);
    let key = |end: &str| {
        let (begin, last) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        format!("{begin}{end}{}Ab0==={end}{last}", lines(end))
    };
    let texts = [
        ("jwt", format!("eyJhbGciOiJIUzI1NiJ9.eyJ{letters}.{}", &letters[..43])),
        ("jwt", format!("eyJ{letters}.eyJhbGciOiJIUzI1NiJ9.{}", &letters[..43])),
        ("jwt", format!("eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.{letters}")),
        ("facebook-page-token", format!("EAAM{letters}")),
        ("private-key", key("\n")),
        ("private-key", key("\\n")),
        ("private-key", key("\r\n  ")),
    ];
    for (name, text) in &texts {
        let expected = format!("it is \"[secret:format.{name}]\" and on");
        let text = format!("it is \"{text}\" and on");
        assert_eq!(phrase.clean(&text), expected);
        for scrubber in [&short, &phrase] {
            for step in [1, 64, 1_000] {
                let (mut stream, mut passed) = (Stream::default(), String::new());
                for piece in text.as_bytes().chunks(step) {
                    let piece = String::from_utf8(piece.to_vec()).unwrap();
                    passed.push_str(&stream.push(scrubber, piece));
                    assert!(stream.held.len() < 8 << 10, "{name} {step}: {}", stream.held.len());
                }
                passed.push_str(&stream.finish(scrubber));
                assert_eq!(passed, expected, "{step}");
            }
        }
        // What overlaps with its end goes as well.
        let secret = format!("{}correct horse battery staple 77 and on", &text[..text.len() - 8]);
        let mut stream = Stream::default();
        let letters = secret.as_bytes().chunks(5).map(|it| String::from_utf8(it.to_vec()).unwrap());
        let mut passed: String = letters.map(|piece| stream.push(&phrase, piece)).collect();
        passed.push_str(&stream.finish(&phrase));
        assert_eq!(passed, phrase.clean(&secret));
    }
    // What is none passes.
    let mut stream = Stream::default();
    stream.push(&short, "ghp_".to_owned());
    assert!(stream.push(&short, letters).len() > 10 << 10);
}

/// Where a line begins a word begins, also where the line end before it is left out.
#[test]
fn a_token_behind_base64_goes_with_its_escapes() {
    let [short, ..] = vaults();
    let token = "sk-ant-api03-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQr";
    for end in ["\n", "\\n", "%0A"] {
        for lines in [40, 400] {
            let before =
                format!("{}{end}{}", "YWFhYWFh".repeat(8), format!("a{end}").repeat(lines));
            let text = format!("{before}{token}{} on", "%26%2397;".repeat(16));
            let clean = format!("{before}[secret:format.anthropic-key] on");
            assert_eq!(short.clean(&text), clean);
            assert_eq!(letter_by_letter(&short, &text), clean);
        }
    }
}

/// The end of a word lets it pass, also where much waits that was not read.
#[test]
fn the_end_of_a_long_word_lets_it_pass() {
    let [short, ..] = vaults();
    let long = Scrubber::default();
    long.add([Secret::new("s", "aB3dE5gH7jK9mN1p".repeat(20))]);
    for scrubber in [&short, &long] {
        for pattern in PATTERNS.iter().filter(|it| it.bytes().all(|byte| byte.is_ascii_graphic())) {
            for length in [10, 200, 3_000] {
                let text: String = pattern.chars().cycle().take(length).collect();
                let mut stream = Stream::default();
                let letters = text.chars().map(|letter| stream.push(scrubber, letter.to_string()));
                let mut passed: String = letters.collect();
                passed.push_str(&stream.push(scrubber, " ".to_owned()));
                assert_eq!(
                    passed,
                    scrubber.clean(&text).into_owned() + " ",
                    "{pattern:?} {length}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In letters, in pieces and as a whole: long escapes around secrets, and none.
    #[test]
    fn letters_give_what_the_whole_gives(
        parts in prop::collection::vec((prop::sample::select(&PATTERNS[..]), 1_usize..120), 1..6),
        vault in 0_usize..2,
        ends in prop::collection::vec(prop::sample::select(vec![
            "", " ", "\n", "hive-Zz9_x8Yy7Ww6Vv5Uu4", "%68ive-Zz9_x8Yy7Ww6Vv5Uu4",
            "correct horse battery staple 77", "correct horse%20battery&#32;staple 77",
            "ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdE",
        ]), 6),
        step in 1_usize..40,
    ) {
        let scrubber = &vaults()[vault];
        let text: String =
            parts.iter().zip(ends).map(|((part, count), end)| part.repeat(*count) + end).collect();
        let whole = scrubber.clean(&text).into_owned();
        prop_assert_eq!(letter_by_letter(scrubber, &text), &*whole);
        let mut stream = Stream::default();
        let letters: Vec<char> = text.chars().collect();
        let pieces = letters.chunks(step).map(|piece| piece.iter().collect::<String>());
        let mut passed: String = pieces.map(|piece| stream.push(scrubber, piece)).collect();
        passed.push_str(&stream.finish(scrubber));
        prop_assert_eq!(passed, whole);
    }
}
