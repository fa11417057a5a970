use std::sync::LazyLock;

use serde_json::json;

use super::*;

const KEY: &str = "sk-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA";

fn shown_to(said: &str, key: &str, message: &str) -> String {
    static DISGUISED: LazyLock<Scrubber> = LazyLock::new(|| disguised(KEY));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": message}]});
    let none = Scrubber::default();
    let forms = if key.is_empty() { &none } else { &*DISGUISED };
    shown_without(said, (key, forms), || body.to_string())
}

#[test]
fn parts_of_the_key_are_taken_out_in_every_form() {
    let part = "E5gH7jK9mN1pQ2rS4tU6";
    let hex: String = part.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = part.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (written, keys) in [
        (hex.as_str(), "[key]"),
        (&percent, "[key]"),
        ("RTVnSDdqSzltTjFwUTJyUzR0VTY=", "[key]"),
        ("E5gH 7jK9 mN1p Q2rS 4tU6", "[key] [key] [key] [key] [key]"),
        ("E5gH-7jK9-mN1p-Q2rS-4tU6", "[key]"),
    ] {
        let text = shown_to(&format!("the key: {written} is odd"), KEY, "");
        assert_eq!(text, format!("the key: {keys} is odd"), "{written}");
    }
}

/// How a message reaches the vendor's answer: as it is, or changed on the way.
const QUOTES: [fn(&str) -> String; 6] = [
    str::to_owned,
    |text| format!("messages.0.content:'{text}'"),
    str::to_uppercase,
    |text| text.replace('\n', " "),
    |text| text.replace(['\n', '\u{200b}'], ""),
    |text| format!("{text:?}"),
];

/// A guess in each form that is looked for: with the next letter right it is shown as it is shown
/// with a wrong one.
#[test]
fn what_stands_in_the_request_tells_nothing_of_the_key() {
    let forms: [fn(&str) -> String; 9] = [
        str::to_owned,
        |guess| format!("***{guess}"),
        |guess| format!("sk-a…{guess}"),
        |guess| guess.bytes().map(|byte| format!("{byte:02x}")).collect(),
        |guess| guess.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        |guess| guess.bytes().map(|byte| format!("\\u{byte:04x}")).collect(),
        |guess| guess.split("").collect::<Vec<_>>().join("-"),
        |guess| guess.split("").collect::<Vec<_>>().join("\n"),
        |guess| guess.split("").collect::<Vec<_>>().join("\u{200b}"),
    ];
    for form in forms {
        for length in [3, 6, 7, 12, 13, 20] {
            for from in [0, 3, 8, KEY.len() - length] {
                let right = &KEY[from..from + length];
                let wrong = format!("{}~", &right[..length - 1]);
                for quote in QUOTES {
                    let [right, wrong] = [right, &wrong].map(|guess| {
                        let message = form(guess);
                        let said = format!("Invalid value: {}", quote(&message));
                        let without = shown_to(&said, "", "");
                        let shown = shown_to(&said, KEY, &message);
                        (shown == without, shown, without)
                    });
                    assert_eq!(right.0, wrong.0, "{right:?} {wrong:?}");
                }
            }
        }
    }
}

/// Who writes the first letters right does not see the others of what the vendor itself quotes.
#[test]
fn what_a_vendor_quotes_goes_whatever_a_part_of_it_stands_in_the_request() {
    for (quoted, length) in [("sk-aB3dE5gH7jK9", 15), ("sk-aB****Y0zA", 5)] {
        for guessed in 0..length {
            let message = format!("is it '{}' or {}", &KEY[..guessed], &KEY[KEY.len() - 3..]);
            let said = format!("the key {quoted} may not read '{message}'");
            let shown = shown_to(&said, KEY, &message);
            assert_eq!(shown, format!("the key [key] may not read '{message}'"));
        }
    }
}
