//! What a vendor says about a failure, as far as people may read it: one line of a bounded length,
//! without the key that the call was made with and without parts of it.
//!
//! What stands in the request is not taken for a part of the key: whoever wrote it knows it, and
//! would else learn from what goes whether a guess is right, letter by letter.

use std::ops::Range;

use serde_json::Value;
use skep_scrub::{Scrubber, Secret};

/// How much of the vendor's own explanation is passed on.
const CHARACTERS: usize = 400;

/// Letters of a key that are no word of their own.
const PIECE: usize = 6;
/// Letters of a key that are written apart, or in hex, base64 or escapes.
const PART: usize = 12;
/// Of either end of one whose middle is masked.
const END: usize = 3;
const MASKS: &[&str] = &["**", "...", "…", "xxx", "••"];
/// What may stand around a key.
const QUOTES: &str = "\"'`(){}[]<>=,:;";
/// Stands for the key.
const SHOWN: &str = "[key]";

/// What may be shown of what a vendor said; `request` is what it answers to.
pub(crate) fn shown(said: &str, key: &str, request: impl FnOnce() -> String) -> String {
    shown_without(said, (key, &disguised(key)), request)
}

fn shown_without(
    said: &str,
    (key, disguised): (&str, &Scrubber),
    request: impl FnOnce() -> String,
) -> String {
    // The key first: a cut could leave half of it unrecognised.
    let said = if key.is_empty() { said.to_owned() } else { said.replace(key, SHOWN) };
    let said = skep_scrub::known().clean_owned(said);
    let mut words: Vec<&str> = said.split_whitespace().collect();
    let parts = parts(&words, key, disguised);
    if !parts.is_empty() {
        let request = Request::of(&request());
        for part in parts.into_iter().filter(|part| !request.holds(&part.text)) {
            words[part.words].fill(SHOWN);
        }
    }
    let one_line = words.join(" ");
    one_line.chars().filter(|character| !character.is_control()).take(CHARACTERS).collect()
}

/// What may be a part of the key: the words it stands in, and how it is written there.
struct KeyPart {
    words: Range<usize>,
    text: String,
}

fn parts(words: &[&str], key: &str, disguised: &Scrubber) -> Vec<KeyPart> {
    let key = key.to_ascii_lowercase();
    let mut parts = apart(words, &key);
    for (number, word) in words.iter().enumerate() {
        let lower = word.to_ascii_lowercase();
        let pieces = common(&lower, &key, PIECE).into_iter().map(|at| lower[at].to_owned());
        let hidden = disguised.places(word).into_iter().map(|(at, _)| word[at].to_owned());
        let masked = masked(&lower, &key).map(str::to_owned);
        let texts = pieces.chain(hidden).chain(masked);
        parts.extend(texts.map(|text| KeyPart { words: number..number + 1, text }));
    }
    parts
}

/// Where so many bytes or more of the text stand in the key, each place as long as it goes.
fn common(text: &str, key: &str, least: usize) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = Vec::new();
    for at in 0..text.len() {
        if !text.get(at..at + least).is_some_and(|piece| key.contains(piece)) {
            continue;
        }
        match places.last_mut() {
            Some(last) if at < last.end => last.end = at + least,
            _ => places.push(at..at + least),
        }
    }
    places
}

/// Vendors quote a wrong key in part: its beginning, or its ends with stars between them.
fn masked<'w>(word: &'w str, key: &str) -> Option<&'w str> {
    let last = key.len().checked_sub(END).and_then(|at| key.get(at..));
    let is_end = |bare: &str| {
        key.get(..END).is_some_and(|first| bare.starts_with(first))
            || last.is_some_and(|last| bare.ends_with(last))
    };
    word.split(|letter: char| QUOTES.contains(letter)).filter(|part| is_masked(part)).find_map(
        |part| {
            let bare = part.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
            // A mask at an end belongs to it, the end of a sentence does not.
            let ends = [bare, part.trim_end_matches('.'), part];
            ends.into_iter().find(|end| is_masked(end)).filter(|_| is_end(bare))
        },
    )
}

fn is_masked(word: &str) -> bool {
    MASKS.iter().any(|mask| word.contains(mask))
}

/// Every part of the key, to be found in all forms in which secrets travel.
fn disguised(key: &str) -> Scrubber {
    let scrubber = Scrubber::default();
    let parts = (0..key.len()).filter_map(|at| key.get(at..at + PART));
    scrubber.add(parts.map(|part| Secret::new("key", part)));
    scrubber
}

/// Letters of the key that are written in groups.
fn apart(words: &[&str], key: &str) -> Vec<KeyPart> {
    let (mut text, mut starts) = (String::new(), Vec::new());
    for word in words {
        starts.push(text.len());
        text.push_str(&letters(word));
    }
    let part = |at: Range<usize>| {
        let mut first = starts.partition_point(|start| *start <= at.start) - 1;
        let mut behind = starts.partition_point(|start| *start < at.end);
        // A word of the vendor may go on as the key does.
        let is_of_key = |number: usize| {
            let whole = starts[number]..starts.get(number + 1).copied().unwrap_or(text.len());
            let covered = at.end.min(whole.end) - at.start.max(whole.start);
            covered >= END.min(whole.len())
        };
        first += usize::from(!is_of_key(first));
        behind -= usize::from(!is_of_key(behind - 1));
        KeyPart { words: first..behind, text: text[at].to_owned() }
    };
    common(&text, &letters(key), PART).into_iter().map(part).collect()
}

/// Small letters and digits alone.
fn letters(text: &str) -> String {
    let all = text.chars().filter(char::is_ascii_alphanumeric);
    all.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// What a vendor was sent, in small letters.
struct Request {
    text: String,
    letters: String,
}

impl Request {
    /// As it was sent, and as it reads.
    fn of(body: &str) -> Self {
        let mut text = body.to_owned();
        collect(&serde_json::from_str(body).unwrap_or_default(), &mut text);
        text.make_ascii_lowercase();
        Self { letters: letters(&text), text }
    }

    /// Also with other line ends and invisible letters between; of what is masked all counts.
    fn holds(&self, part: &str) -> bool {
        let part = part.to_ascii_lowercase();
        let letters = letters(&part);
        let is_in_letters = letters.len() >= END && part.len() >= PIECE && !is_masked(&part);
        self.text.contains(&part) || (is_in_letters && self.letters.contains(&letters))
    }
}

/// Every text of the value, keys included.
fn collect(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => into.extend(["\n", text]),
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(fields) => fields.iter().for_each(|(name, item)| {
            into.extend(["\n", name]);
            collect(item, into);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[path = "explanation_tests.rs"]
mod tests;
