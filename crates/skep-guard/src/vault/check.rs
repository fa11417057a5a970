//! What may be the name and the value of an entry, and which values look like keys.

use skep_core::policy::vault::{self, NAME_BYTES, VALUE_BYTES};
use skep_scrub::{Owner, SHORTEST};

use super::VaultError;

/// Letters and digits side by side in the part of a key that nobody can guess.
const MIXED: usize = 12;
/// Letters behind the last dot of a name of a host or file: a key has digits there, or more.
const LAST_LABEL: usize = 24;
/// Secrets in use up to which agents may add more: each one makes every search slower.
pub(super) const MOST_SECRETS: usize = 4096;

/// No refusal repeats a name that may be the value.
pub(super) fn check_name(name: &str) -> Result<(), VaultError> {
    let why = match vault::is_name(name) {
        true if !is_like_key(name) => return Ok(()),
        true => {
            "the name of the entry looks like a key; its name comes first, then its value".into()
        }
        false => format!(
            "a vault entry's name begins with a letter and has at most {NAME_BYTES} letters, \
             digits, dashes, dots and underscores"
        ),
    };
    Err(VaultError::Invalid(why))
}

/// Whether an agent may give another one this value, to be used and never seen. It is hidden from
/// all, so ordinary words are refused.
pub fn check_credential(name: &str, value: &str) -> Result<(), VaultError> {
    check_name(name)?;
    check_value(name, value, true)?;
    if !is_random(value) {
        let why = "a credential is a key of 16 or more characters in which capitals, small letters \
                   and digits change often; ordinary words cannot be hidden, nor what \
                   could be a name or an id. A person can set any value: skep vault set";
        return Err(VaultError::Invalid(why.to_owned()));
    }
    check_room()
}

/// Whether agents may have more values hidden.
pub(super) fn check_room() -> Result<(), VaultError> {
    match skep_scrub::known().count(Owner::Agent) < MOST_SECRETS {
        true => Ok(()),
        false => {
            let why = "too many values were set since the hive started; a restart makes room";
            Err(VaultError::Invalid(why.to_owned()))
        }
    }
}

pub(super) fn check_value(name: &str, value: &str, secret: bool) -> Result<(), VaultError> {
    let least = if secret { SHORTEST } else { 1 };
    if !(least..=VALUE_BYTES).contains(&value.len()) {
        return Err(VaultError::Invalid(format!(
            "a value has {least} to {VALUE_BYTES} bytes: a shorter one could not be told from \
             ordinary text"
        )));
    }
    if secret && (value.trim().is_empty() || is_word(value)) {
        let why = "the value is an ordinary word, or blank: it would be replaced wherever it is \
                   said; use a longer one, or one with digits";
        return Err(VaultError::Invalid(why.to_owned()));
    }
    if skep_scrub::known().is_marked(value) {
        let why = "the value holds the name of a secret in brackets, not a value";
        return Err(VaultError::Invalid(why.to_owned()));
    }
    if name.contains(value) {
        let why = "the name of the entry holds its value; use another name";
        return Err(VaultError::Invalid(why.to_owned()));
    }
    Ok(())
}

/// Whether a value is a word as the hive and people write them.
fn is_word(value: &str) -> bool {
    let rest = value.get(1..).unwrap_or_default();
    let is_such = |text: &str, of: fn(&u8) -> bool| text.bytes().all(|it| of(&it) || it == b'_');
    value.len() < 2 * SHORTEST
        && is_such(value, u8::is_ascii_alphabetic)
        && (is_such(rest, u8::is_ascii_lowercase) || is_such(value, u8::is_ascii_uppercase))
}

/// Whether the value of an agent's own entry is hidden as those of people are. One that could be a
/// word, a phrase, a path, a name or an id is not: an agent could take ordinary text from all
/// others with it.
pub fn is_hidden(value: &str, secret: bool) -> bool {
    secret || is_random(value)
}

/// Whether a text is a key beyond doubt: somewhere in it capitals, small letters and digits stand
/// side by side, in pieces of three or fewer on average. Ids and hashes have no capitals, and names
/// that people choose have longer pieces: `Release`, `2024`, `Candidate`.
pub(super) fn is_random(value: &str) -> bool {
    let kinds = [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase];
    // A capital begins a piece, and small letters go on with it.
    let begins = |pair: &[u8]| match pair {
        [before, it] if it.is_ascii_lowercase() => before.is_ascii_digit(),
        [before, it] => {
            it.is_ascii_digit() != before.is_ascii_digit() || before.is_ascii_lowercase()
        }
        _ => false,
    };
    let is_mixed = |part: &str| {
        let bytes = part.as_bytes();
        let pieces = 1 + bytes.windows(2).filter(|pair| begins(pair)).count();
        let has_all = kinds.iter().all(|of| bytes.iter().filter(|byte| of(byte)).count() >= 2);
        part.len() >= MIXED && has_all && 3 * pieces >= part.len()
    };
    is_like_key(value) && value.split(|it: char| !it.is_ascii_alphanumeric()).any(is_mixed)
}

/// Whether a text looks like a key: long, of the letters that keys are made of, and somewhere with
/// letters and digits side by side. Names have them apart: `claude-sonnet-4-5`.
pub fn is_like_key(value: &str) -> bool {
    let is_mark = |byte: u8| b"+/=_-.~".contains(&byte);
    let is_mixed = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.len() >= MIXED && digits >= 2 && part.len() - digits >= 2
    };
    value.len() >= 2 * SHORTEST
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
        && value.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_mixed)
        && !holds_name(value)
}

/// Whether the text is a hash, or holds an id or the name of a host or file. A hive is full of
/// these: whoever could hide one could take it from all others, and hide where he was.
fn holds_name(value: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = [32, 40, 64].contains(&value.len()) && value.bytes().all(is_hex);
    let is_groups = value.contains('-') && value.bytes().all(|byte| is_hex(byte) || byte == b'-');
    let is_uuid = |part: &[u8]| {
        let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
        (0..).zip(part).all(|(at, byte)| if is_dash(at) { *byte == b'-' } else { is_hex(*byte) })
    };
    let is_international =
        |last: &str| last.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("xn--"));
    let is_dotted = |part: &str| {
        let last = part.trim_end_matches('.').rsplit_once('.').map_or("", |(_, last)| last);
        let is_short = (2..=LAST_LABEL).contains(&last.len());
        (is_short && last.bytes().all(|it| it.is_ascii_alphabetic())) || is_international(last)
    };
    let is_sign = |letter: char| !letter.is_ascii_alphanumeric() && !"-.".contains(letter);
    is_hash
        || is_groups
        || value.as_bytes().windows(36).any(is_uuid)
        || value.split(is_sign).any(is_dotted)
}
