#![allow(clippy::unwrap_used)]

use aho_corasick::AhoCorasickKind;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY: &str = "sk-ant-api03-Zz9_x/+=\"é";

pub(super) fn scrubber(values: &[&str]) -> Scrubber {
    let scrubber = Scrubber::default();
    let secrets = values.iter().enumerate().map(|(n, value)| Secret::new(format!("s{n}"), *value));
    assert_eq!(scrubber.add(secrets), Vec::<String>::new());
    scrubber
}

fn all_forms(value: &str) -> Vec<String> {
    let base64 = [forms::base64(value.as_bytes()), forms::base64_twice(value.as_bytes())];
    let base64 = base64.into_iter().flatten().map(|form| form.digits);
    forms::of(value).into_iter().chain(base64).collect()
}

pub(super) fn streamed(scrubber: &Scrubber, pieces: &[&str]) -> String {
    let mut stream = Stream::default();
    let mut out: String =
        pieces.iter().map(|piece| stream.push(scrubber, (*piece).to_owned())).collect();
    out.push_str(&stream.finish(scrubber));
    out
}

#[test]
fn every_usual_form_is_replaced() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    let scrubber = scrubber(&[KEY]);
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let once = serde_json::to_string(KEY).unwrap();
    let cases = [
        format!("before {KEY} after"),
        format!("{{\"error\":{once}}}"),
        serde_json::to_string(&once).unwrap(),
        format!("{KEY:?}"),
        "?k=sk-ant-api03-Zz9_x%2F%2B%3D%22%C3%A9&more".to_owned(),
        "?k=sk-ant-api03-Zz9_x%2f%2b%3d%22%c3%a9&more".to_owned(),
        format!("hex {hex}"),
        hex.to_uppercase(),
        "sk-ant-api03-Zz9_x/+=&quot;é".to_owned(),
    ];
    for case in cases {
        let cleaned = scrubber.clean(&case).into_owned();
        assert_eq!(cleaned.matches("[secret:s0]").count(), 1, "{case} -> {cleaned}");
    }
    for before in ["", "a", "ab", "abc"] {
        let text = format!("{before}{KEY} and more");
        for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
            assert!(scrubber.clean(&encoded).contains("[secret:s0]"), "{encoded}");
        }
    }
}

/// Each digit in a case of its own, whole and in pieces cut anywhere.
#[test]
fn hex_in_both_cases_is_replaced() {
    let scrubber = scrubber(&[KEY]);
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    for turn in 1..5 {
        let digits = hex.char_indices().map(|(at, digit)| match at % turn {
            0 => digit.to_ascii_uppercase(),
            _ => digit,
        });
        let text = format!("Ab {}, sha F00dfeedF00dfeed", digits.collect::<String>());
        let expected = "Ab [secret:s0], sha F00dfeedF00dfeed";
        assert_eq!(scrubber.clean(&text), expected);
        for at in 0..text.len() {
            let (first, second) = text.split_at(at);
            let told = streamed(&scrubber, &[first, second]);
            assert!(told.contains("[secret:s0]") && !told.contains(&text[5..25]), "{at}: {told}");
        }
    }
}

#[test]
fn texts_without_a_secret_stay_as_they_are() {
    let scrubber = scrubber(&[KEY]);
    assert!(matches!(scrubber.clean("sk-ant-api03-Zz9_"), Cow::Borrowed(_)));
    assert!(matches!(Scrubber::default().clean(KEY), Cow::Borrowed(_)));
    let mut value = json!({"a": ["b", 1, null]});
    assert!(!scrubber.clean_json(&mut value));
    assert_eq!(value, json!({"a": ["b", 1, null]}));
}

#[test]
fn short_ones_are_named_and_left() {
    let scrubber = Scrubber::default();
    let added = scrubber.add([Secret::new("short", "1234567"), Secret::new("long", "12345678")]);
    assert_eq!(added, ["short"]);
    assert_eq!(scrubber.clean("1234567 12345678"), "1234567 [secret:long]");
}

#[test]
fn later_secrets_join_the_earlier_ones() {
    let scrubber = scrubber(&["first-secret"]);
    scrubber.add([Secret::new("new", "second-secret"), Secret::new("again", "first-secret")]);
    let cleaned = scrubber.clean("first-secret second-secret").into_owned();
    assert_eq!(cleaned, "[secret:s0] [secret:new]");
    assert!(scrubber.is_marked(&cleaned));
    assert!(scrubber.is_json_marked(&json!({"a": [cleaned]})));
    assert!(!scrubber.is_marked("[secret:other]"));
}

#[test]
fn json_is_cleaned_in_keys_and_values() {
    let scrubber = scrubber(&["hidden-value"]);
    let mut value = json!({"hidden-value": {"k": ["x hidden-value y"]}, "n": 7});
    assert!(scrubber.clean_json(&mut value));
    assert_eq!(value, json!({"[secret:s0]": {"k": ["x [secret:s0] y"]}, "n": 7}));
}

/// An answer whose fields have other names is none.
#[test]
fn names_of_fields_stay() {
    let scrubber = scrubber(&["approvals", "session_key"]);
    let mut value = json!({"approvals": [{"session_key": "the approvals"}]});
    let expected = json!({"approvals": [{"session_key": "the [secret:s0]"}]});
    assert_eq!(scrubber.clean_json_text(value.to_string()), expected.to_string());
    assert!(scrubber.clean_json(&mut value));
    assert_eq!(value, expected);
    let mut fields = json!({"approvals": []});
    assert!(!scrubber.clean_json(&mut fields));
}

#[test]
fn a_secret_is_forgotten_once_no_name_has_it() {
    let scrubber = scrubber_with(&["shared-secret-1"], &["own-secret-0123456789"]);
    let before = scrubber.version();
    scrubber.add([Secret::new("other", "shared-secret-1")]);
    scrubber.add([Secret::new("people", "own-secret-0123456789")]);
    let text = "shared-secret-1 own-secret-0123456789";
    assert_eq!(scrubber.clean(text), "[secret:s0] [secret:people]");
    scrubber.forget(&[Secret::new("s0", "shared-secret-1"), Secret::new("s0", "unknown-value")]);
    scrubber.forget(&[Secret::new("people", "own-secret-0123456789")]);
    assert_eq!(scrubber.clean(text), "[secret:other] [secret:a0]");
    scrubber.forget(&[Secret::new("other", "shared-secret-1")]);
    scrubber.forget(&[Secret::new("a0", "own-secret-0123456789")]);
    assert_eq!(scrubber.clean(text), text);
    assert_eq!(scrubber.version(), before + 6);
}

/// A value that looks like a piece of JSON takes nothing from the JSON around it.
#[test]
fn a_json_text_stays_one() {
    let scrubber = scrubber(&["\",\"role\":\"", "12345678"]);
    let text = r#"{"id":"a","role":"x","at":123456789,"t":"12345678 \",\"role\":\""}"#;
    let cleaned = scrubber.clean_json_text(text.to_owned());
    let expected = r#"{"id":"a","role":"x","at":123456789,"t":"[secret:s1] [secret:s0]"}"#;
    assert_eq!(cleaned, expected);
    assert_eq!(scrubber.clean_json_text("no JSON 12345678".to_owned()), "no JSON [secret:s1]");
}

#[test]
fn a_secret_split_at_any_byte_never_passes() {
    let key = "sk-9/+=\"é";
    let scrubber = scrubber(&[key]);
    let text = format!("key: {key}!");
    for (at, _) in text.char_indices() {
        let mut stream = Stream::default();
        let first = stream.push(&scrubber, text[..at].to_owned());
        assert!(!first.contains("sk-"), "{first}");
        let second = stream.push(&scrubber, text[at..].to_owned());
        let last = stream.finish(&scrubber);
        assert_eq!(format!("{first}{second}{last}"), "key: [secret:s0]!");
        assert!(stream.has_found());
    }
}

#[test]
fn every_word_waits_for_its_end_and_no_longer() {
    let scrubber = scrubber(&["sk-ant-0123456789"]);
    let mut stream = Stream::default();
    let shown = ["file", "s", " a", "s", "k-", "ant ", "xy", "\n"]
        .map(|piece| stream.push(&scrubber, piece.to_owned()));
    assert_eq!(shown, ["", "", "files ", "", "", "ask-ant ", "", "xy\n"]);
    assert_eq!(stream.push(&scrubber, "蜂の巣箱".to_owned()), "蜂の巣箱");
    // No more waits than a secret is long, in its longest form.
    let long = "x".repeat(1_000);
    let shown = stream.push(&scrubber, long.clone()).len();
    assert!((900..=1_000 - 3 * 17).contains(&shown), "{shown}");
    assert_eq!(stream.finish(&scrubber).len(), 1_000 - shown);
}

#[test]
fn of_a_phrase_every_text_waits_as_long() {
    let scrubber = scrubber(&["correct horse battery"]);
    for text in ["correct horse bat", "another word here"] {
        let mut stream = Stream::default();
        assert_eq!(stream.push(&scrubber, text.to_owned()), "");
        assert_eq!(stream.finish(&scrubber), text);
    }
    assert_eq!(streamed(&scrubber, &["a correct horse", " battery, a"]), "a [secret:s0], a");
}

#[test]
fn what_only_looks_like_the_beginning_comes_out_again() {
    let scrubber = scrubber(&["abcabcabd"]);
    assert_eq!(streamed(&scrubber, &["abcabc", "abcab", "d", "ab"]), "abc[secret:s0]ab");
    let longer = self::scrubber(&["abcdefgh", "abcdefghij"]);
    assert_eq!(streamed(&longer, &["abcdefgh", "i", "j abcdefghi"]), "[secret:s1] [secret:s0]i");
    let mut stream = Stream::default();
    assert_eq!(stream.push(&scrubber, "x abc".to_owned()), "x ");
    assert_eq!(stream.push(&scrubber, "xyz ".to_owned()), "abcxyz ");
    assert!(!stream.has_found());
}

#[test]
fn nothing_is_shown_for_debugging() {
    let scrubber = scrubber(&[KEY]);
    assert_eq!(format!("{scrubber:?}"), "Scrubber");
}

/// Few letters, so that secrets overlap, repeat and begin inside each other.
fn secret() -> impl Strategy<Value = String> {
    "[ab]{8,12}|[abc/ ]{8,10}|é[ab]{7,9}"
}

fn text_around(secrets: &[String]) -> impl Strategy<Value = String> + use<> {
    let mut pieces: Vec<String> = secrets.iter().flat_map(|secret| all_forms(secret)).collect();
    let halves = secrets.iter().map(|secret| {
        let half = secret.char_indices().nth(5).map_or(secret.len(), |(at, _)| at);
        secret[..half].to_owned()
    });
    pieces.extend(halves.collect::<Vec<_>>());
    pieces.extend(["a", "b", "ab", "é", " ", "/", "61", "%2F"].map(str::to_owned));
    prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

/// So many times as long as the shortest.
const LENGTHS: usize = 6;

/// Secrets, a text with them in it, and where it is cut.
type Scene = (Vec<String>, String, Vec<prop::sample::Index>);

fn scene(times: usize) -> impl Strategy<Value = Scene> {
    prop::collection::vec(secret(), 1..4).prop_flat_map(move |secrets| {
        let mut secrets: Vec<String> = secrets.iter().map(|secret| secret.repeat(times)).collect();
        // One that goes on where another ends.
        secrets.push(format!("{}ab", secrets[0]));
        let text = text_around(&secrets);
        (Just(secrets), text, prop::collection::vec(any::<prop::sample::Index>(), 0..8))
    })
}

fn pieces<'t>(text: &'t str, cuts: &[prop::sample::Index]) -> Vec<&'t str> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.retain(|cut| text.is_char_boundary(*cut));
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_split_gives_what_the_whole_gives((secrets, text, cuts) in scene(1)) {
        let scrubber = scrubber_of(&secrets);
        let whole = scrubber.clean(&text).into_owned();
        prop_assert_eq!(streamed(&scrubber, &pieces(&text, &cuts)), whole);
    }

    #[test]
    fn no_form_of_a_secret_passes((secrets, text, _) in scene(1)) {
        let scrubber = scrubber_of(&secrets);
        let cleaned = scrubber.clean(&text).into_owned();
        for part in cleaned.split("[secret:") {
            let part = part.split_once(']').map_or(part, |(_, after)| after);
            for form in secrets.iter().flat_map(|secret| all_forms(secret)) {
                prop_assert!(!part.contains(&form), "{} in {}", form, cleaned);
            }
        }
    }
}

proptest! {
    // Long secrets take long.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_split_of_long_ones_gives_what_the_whole_gives((secrets, text, cuts) in scene(LENGTHS)) {
        let scrubber = scrubber_of(&secrets);
        let passed = streamed(&scrubber, &pieces(&text, &cuts));
        prop_assert_eq!(passed, scrubber.clean(&text).into_owned());
    }
}

/// One letter as an escape.
fn escape(letter: char, how: u8) -> String {
    let units = letter.encode_utf16(&mut [0; 2]).to_vec();
    let bytes = letter.to_string().into_bytes();
    let name = match letter {
        '&' => "amp",
        '"' => "quot",
        '/' => "sol",
        '+' => "plus",
        '=' => "equals",
        '_' => "lowbar",
        '.' => "period",
        _ => "",
    };
    match how % 9 {
        0 => format!("&#{};", u32::from(letter)),
        1 => format!("&#x{:x};", u32::from(letter)),
        2 => format!("&#X{:06X};", u32::from(letter)),
        3 => units.iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        4 => units.iter().map(|unit| format!("\\\\\\u{unit:04X}")).collect(),
        5 => format!("\\u{{{:x}}}", u32::from(letter)),
        6 => bytes.iter().map(|byte| format!("%{byte:02X}")).collect(),
        7 if letter.is_ascii() => format!("\\x{:02x}", u32::from(letter)),
        8 if !name.is_empty() => format!("&{name};"),
        _ => letter.to_string(),
    }
}

/// The text once more in an encoding that others unwrap.
fn wrapped(text: &str, how: u8) -> String {
    let json = |text: &str| {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    };
    match how % 5 {
        0 => text.to_owned(),
        1 => json(text),
        2 => json(&json(&json(text))),
        3 => text.replace('&', "&amp;").replace('"', "&#34;"),
        _ => text
            .chars()
            .map(|c| if "&%\\;#".contains(c) { escape(c, 6) } else { c.into() })
            .collect(),
    }
}

/// A text around the secret in base64, in lines.
fn in_lines(secret: &str, skipped: usize, width: usize, end: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let text = format!("{}{secret}{}", "-".repeat(64 + skipped), "~".repeat(40));
    let digits = STANDARD.encode(text).into_bytes();
    let lines = digits.chunks(width).map(|line| String::from_utf8(line.to_vec()).unwrap());
    lines.collect::<Vec<_>>().join(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_escape_hides_a_secret(
        secret in "[a-zA-Z0-9_/+=.\"é\u{1F41D}-]{8,40}",
        hows in prop::collection::vec(0_u8..9, 40),
        wraps in prop::collection::vec(0_u8..5, 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let scrubber = scrubber(&[&secret]);
        let letters = secret.chars().zip(&hows);
        let mut text: String = letters.map(|(letter, how)| escape(letter, *how)).collect();
        text = wraps.iter().fold(text, |text, how| wrapped(&text, *how));
        let text = format!("key: {text}, and more");
        let whole = scrubber.clean(&text).into_owned();
        prop_assert_eq!(&whole, "key: [secret:s0], and more", "{}", text);
        // What is longer than a secret in escapes may be passes in pieces.
        if text.len() <= 16 * secret.len() {
            let passed = streamed(&scrubber, &pieces(&text, &cuts));
            prop_assert_eq!(passed, whole, "{}", text);
        }
    }

    #[test]
    fn lines_of_base64_hide_no_secret(
        secret in "[a-zA-Z0-9_/+=.-]{12,60}",
        (skipped, width, end) in (0_usize..12, 20_usize..80, 0_usize..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let scrubber = scrubber(&[&secret]);
        let end = ["\n", "\r\n", "\n    ", "\\n", "\\\\r\\\\n"][end];
        let text = in_lines(&secret, skipped, width, end);
        prop_assert!(scrubber.clean(&text).contains("[secret:s0]"), "{}", text);
        let passed = streamed(&scrubber, &pieces(&text, &cuts));
        prop_assert!(passed.contains("[secret:s0]"), "{} of {}", passed, text);
    }
}

/// Beginnings of the secret as they are, in its forms, in escapes and in lines of base64.
fn guesses(secret: &str) -> impl Strategy<Value = String> + use<> {
    let whole: Vec<String> = all_forms(secret)
        .into_iter()
        .chain((0..9).map(|how| secret.chars().map(|letter| escape(letter, how)).collect()))
        .chain((1..5).map(|how| wrapped(secret, how)))
        // More escape than anything waits for.
        .chain([secret.chars().map(|letter| "\\".repeat(3_000) + &escape(letter, 3)).collect()])
        .chain((0..12).map(|skipped| in_lines(secret, skipped, 20 + 3 * skipped, "\n")))
        .collect();
    (prop::sample::select(whole), any::<prop::sample::Index>(), "[ .,a-zé\n\"]{0,3}").prop_map(
        |(form, end, behind)| {
            let end = form.floor_char_boundary(end.index(form.len()));
            format!("{}{behind}", &form[..end])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Of two hives with other secrets of the same length, the pieces of a text that holds neither
    /// are the same, however near it comes to one of them.
    #[test]
    fn what_waits_tells_nothing_of_a_secret(
        (secret, text) in "[a-zA-Z0-9]{12,40}|[a-z]{3,6}( [a-z]{3,6}){2,5}".prop_flat_map(|secret| {
            let text = prop::collection::vec(guesses(&secret), 1..4);
            (Just(secret), text.prop_map(|guesses| guesses.concat()))
        }),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let other = secret.replace(|letter: char| letter != ' ', "~");
        let scrubbers = [scrubber(&[&secret]), scrubber(&[&other])];
        prop_assume!(scrubbers.iter().all(|scrubber| scrubber.clean(&text) == text));
        let [one, two] = scrubbers.map(|scrubber| {
            let mut stream = Stream::default();
            let pushed = pieces(&text, &cuts).into_iter();
            let pushed = pushed.map(|piece| stream.push(&scrubber, piece.to_owned()));
            pushed.collect::<Vec<_>>()
        });
        prop_assert_eq!(one, two);
    }
}

#[test]
fn ordinary_text_is_not_read_twice() {
    let table = scrubber(&["sk-0123456789"]).table();
    let text = "fn main() {\n    let x = &self.a % 3; // \"50 %\" & more\n}\nC:\\\\new\\tale\n";
    assert!(table.view(&text.repeat(20), Formats::Found).levels.is_empty());
    assert!(!table.view("a&#98;c", Formats::Found).levels.is_empty());
}

fn scrubber_of(secrets: &[String]) -> Scrubber {
    let values: Vec<&str> = secrets.iter().map(String::as_str).collect();
    scrubber(&values)
}

/// What a value is made of decides neither how long it takes to know it nor how much it needs: the
/// fastest finder takes the square of the first of these, and half a KiB for each byte of the last.
#[test]
fn a_long_value_is_known_in_linear_time_and_space() {
    let mut random = String::new();
    let mut state = 7_u64;
    while random.len() < 20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random.push(char::from(b'!' + (state >> 33) as u8 % 94));
    }
    for value in ["k".repeat(4096), "ab".repeat(2048), random] {
        let scrubber = scrubber(&[&value]);
        let table = scrubber.table();
        let finder = table.people.finder.as_ref().unwrap();
        assert_eq!(finder.kind(), AhoCorasickKind::ContiguousNFA);
        assert!(finder.memory_usage() < 400 * value.len(), "{}", finder.memory_usage());
        assert_eq!(scrubber.clean(&format!("a {value} b")), "a [secret:s0] b");
    }
    let usual = scrubber(&[KEY]);
    assert_eq!(usual.table().people.finder.as_ref().unwrap().kind(), AhoCorasickKind::DFA);
}

/// Until an escape is whole, nobody knows that it is no part of the key before it.
#[test]
fn an_escape_that_is_cut_off_ends_no_key() {
    let scrubber = scrubber(&["hive-Zz9_x8Yy7Ww6"]);
    let begin = "-----BEGIN PRIVATE KEY-----\n\n".repeat(5);
    let text = format!("it {begin}{} \"ends\"", "%61".repeat(40));
    let letters: Vec<&str> = text.split("").collect();
    let expected = "it [secret:format.private-key] \"ends\"";
    assert_eq!(scrubber.clean(&text), expected);
    assert_eq!(streamed(&scrubber, &letters), expected);
}

pub(super) fn scrubber_with(people: &[&str], agents: &[&str]) -> Scrubber {
    let scrubber = scrubber(people);
    let agents = agents.iter().enumerate();
    scrubber.add(agents.map(|(number, value)| Secret::of_agent(format!("a{number}"), *value)));
    scrubber
}

/// Whatever stands before and behind the lines of a key file, and however few of them there are.
#[test]
fn lines_of_a_value_are_found_alone() {
    let line = |number: usize| format!("{number:02}{}", "aB3dE5gH7jK9mN1p".repeat(3));
    let lines: Vec<String> = (0..12).map(line).collect();
    let value = format!("-----BEGIN FROBNITZ-----\n{}\n-----END FROBNITZ-----\n", lines.join("\n"));
    let scrubber = scrubber(&[&value]);
    let marks: [(&str, &str); 10] = [
        ("", "\r\n"),
        ("    ", "\n"),
        ("+", "\n"),
        ("> # ", "\n"),
        ("// ", "\n"),
        ("    12\t", "\n"),
        ("\"", "\\n\",\n"),
        ("| ", " |\n"),
        ("", "<br>"),
        ("", " "),
    ];
    for (before, behind) in marks {
        let text: String = value.lines().map(|line| format!("{before}{line}{behind}")).collect();
        let shown = scrubber.clean(&text);
        assert!(!lines.iter().any(|line| shown.contains(&line[4..])), "{shown}");
    }
    assert_eq!(scrubber.clean(&format!("only {} here", lines[7])), "only [secret:s0] here");
    assert_eq!(scrubber.clean("BEGIN FROBNITZ"), "BEGIN FROBNITZ");
    let short = "[default]\n  user = me\n  last = eXf6ygvys1Kwe0U1\n  tok = Hq8vRt2Lm0";
    let scrubber = scrubber_with(&[short], &[]);
    assert_eq!(scrubber.clean("> eXf6ygvys1Kwe0U1\r\n"), "> [secret:s0]\r\n");
    assert_eq!(scrubber.clean(&short.replace('\n', "\r\n")), "[secret:s0]");
    let of_windows = scrubber_with(&[&short.replace('\n', "\r\n")], &[]);
    assert_eq!(of_windows.clean(short), "[secret:s0]");
}

/// How one letter is escaped: every kind that [`decode`] takes back.
const KINDS: [fn(u32) -> String; 6] = [
    |code| format!("%{code:02x}"),
    |code| format!("\\u{code:04x}"),
    |code| format!("\\x{code:02x}"),
    |code| format!("\\u{{{code:x}}}"),
    |code| format!("&#{code};"),
    |code| format!("&#x{code:x};"),
];

/// Every kind inside every other, up to five deep, with all, the first, the last or every second
/// letter of the inner escape escaped again.
#[test]
fn escapes_inside_escapes_hide_no_secret() {
    let secret = "hive-Zz9_x8Yy7Ww6Vv5Uu4";
    let scrubber = scrubber(&[secret]);
    let chosen: [fn(usize, usize) -> bool; 4] =
        [|_, _| true, |at, _| at == 0, |at, length| at + 1 == length, |at, _| at % 2 == 1];
    let count = KINDS.len();
    let nests = (1..=5_u32).flat_map(|depth| {
        // Every nest of three, and the same three kinds in turn where it is deeper.
        (0..count.pow(depth.min(3))).map(move |number| {
            let kinds = (0..depth).map(move |at| number / count.pow(at % 3) % count);
            kinds.collect::<Vec<_>>()
        })
    });
    let mut missed = Vec::new();
    for kinds in nests {
        for chosen in chosen {
            let mut inner: Vec<String> = secret.chars().map(String::from).collect();
            for (depth, kind) in kinds.iter().enumerate() {
                for letter in &mut inner {
                    let length = letter.len();
                    let each = letter.char_indices().map(|(at, inner)| {
                        match depth == 0 || chosen(at, length) {
                            true => KINDS[*kind](u32::from(inner)),
                            false => inner.to_string(),
                        }
                    });
                    *letter = each.collect();
                }
            }
            let text = format!("it {} ends", inner.concat());
            // All letters of five depths would be a megabyte.
            if text.len() < 20_000 && scrubber.clean(&text) != "it [secret:s0] ends" {
                missed.push(format!("{kinds:?} {}", inner[0]));
            }
        }
    }
    assert!(missed.is_empty(), "{} missed: {:#?}", missed.len(), &missed[..missed.len().min(60)]);
}
