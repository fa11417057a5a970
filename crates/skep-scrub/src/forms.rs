//! How a secret is written where text is encoded: plain, JSON, URL, HTML, hex, base64.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Letters of a word of a value of several lines that is looked for alone.
const LONG_WORD: usize = 16;
/// So many of them.
const MOST_LINES: usize = 256;

/// Every form but base64, some of them twice.
pub(super) fn of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    forms.extend(json(value));
    forms.push(value.escape_debug().to_string());
    forms.push(html(value));
    forms.extend(url(value));
    if !value.is_ascii() {
        // As programs read it that take headers for Latin-1.
        forms.push(value.bytes().map(char::from).collect());
    }
    forms.push(bytes(value, |out, byte| write!(out, "{byte:02x}")));
    forms.push(bytes(value, |out, byte| write!(out, "{byte:02X}")));
    forms.extend(lines(value).map(str::to_owned));
    // As other systems write the ends of its lines.
    if value.contains('\n') {
        let plain = value.replace("\r\n", "\n");
        forms.push(plain.replace('\n', "\r\n"));
        forms.push(plain);
    }
    forms
}

/// Of a value of several lines the long words that nobody writes by chance: whatever stands before
/// or behind the lines, and however few of them there are.
fn lines(value: &str) -> impl Iterator<Item = &str> {
    let is_several = value.trim().contains('\n') || value.contains("\\n");
    let is_digit = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let is_long = |word: &&str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
        word.len() >= LONG_WORD && digits >= 2 && letters >= 2
    };
    // An escaped line end is no part of the word behind it.
    let parts = value.split("\\n").flat_map(move |part| part.split(move |c| !is_digit(c)));
    parts.filter(is_long).filter(move |_| is_several).take(MOST_LINES)
}

/// As it stands in a JSON text, and as it stands in a JSON text inside another.
fn json(value: &str) -> Vec<String> {
    let once = escaped(value);
    let slashes = once.replace('/', "\\/");
    let ascii = once.chars().fold(String::new(), |mut out, character| {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail, here and below.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        out
    });
    let twice = escaped(&once);
    vec![once, slashes, ascii, twice]
}

fn escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

fn html(value: &str) -> String {
    value.chars().fold(String::new(), |mut out, character| {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
        out
    })
}

/// With what a component escapes, with what a whole address escapes, and with everything escaped;
/// in both cases of the digits, and with a plus for a blank.
fn url(value: &str) -> Vec<String> {
    const COMPONENT: &[u8] = b"-_.~";
    const ADDRESS: &[u8] = b"-_.~!*'();:@&=+$,/?#";
    let mut forms = Vec::new();
    for kept in [COMPONENT, ADDRESS] {
        let keeps = |byte: u8| byte.is_ascii_alphanumeric() || kept.contains(&byte);
        let upper = bytes(value, |out, byte| match keeps(byte) {
            true => out.write_char(char::from(byte)),
            false => write!(out, "%{byte:02X}"),
        });
        let lower = bytes(value, |out, byte| match keeps(byte) {
            true => out.write_char(char::from(byte)),
            false => write!(out, "%{byte:02x}"),
        });
        forms.extend([upper.replace("%20", "+"), lower.replace("%20", "+"), upper, lower]);
    }
    forms.push(bytes(value, |out, byte| write!(out, "%{byte:02X}")));
    forms.push(bytes(value, |out, byte| write!(out, "%{byte:02x}")));
    forms
}

fn bytes(value: &str, each: impl Fn(&mut String, u8) -> std::fmt::Result) -> String {
    value.bytes().fold(String::new(), |mut out, byte| {
        let _ = each(&mut out, byte);
        out
    })
}

/// The digits of base64 that a value alone decides, and how many digits before and behind them
/// hold a part of it too.
pub(super) struct Base64 {
    pub digits: String,
    pub before: usize,
    pub behind: usize,
}

/// What every base64 text has in common that holds the value, so many bytes after a group of three
/// began, in both alphabets.
pub(super) fn base64(value: &[u8]) -> Vec<Base64> {
    let inside = |skipped: usize| {
        let mut padded = vec![0; skipped];
        padded.extend_from_slice(value);
        // A digit is 6 bits: the first that has none of the skipped ones, the last that is
        // complete.
        let (first, bits) = ((skipped * 8).div_ceil(6), padded.len() * 8);
        let (before, behind) = (usize::from(skipped > 0), usize::from(bits % 6 > 0));
        [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)].map(|text| {
            let digits = text.get(first..bits / 6).unwrap_or_default().to_owned();
            Base64 { digits, before, behind }
        })
    };
    (0..3).flat_map(inside).collect()
}

/// The same for base64 inside base64, as credentials of registries are kept.
pub(super) fn base64_twice(value: &[u8]) -> Vec<Base64> {
    // A digit of the inner text stands in two of the outer one.
    let beside = |inner: usize, outer: usize| if inner > 0 { 2 } else { outer };
    let twice = |inner: Base64| {
        base64(inner.digits.as_bytes()).into_iter().map(move |outer| Base64 {
            before: beside(inner.before, outer.before),
            behind: beside(inner.behind, outer.behind),
            ..outer
        })
    };
    base64(value).into_iter().flat_map(twice).collect()
}

#[cfg(test)]
#[path = "forms_tests.rs"]
mod tests;
