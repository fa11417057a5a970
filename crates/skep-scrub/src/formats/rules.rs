//! The rules, read from `rules.txt`: each from what its issuer documents or hands out.

/// How one kind of secret is written.
pub(super) struct FormatRule {
    pub name: &'static str,
    /// Who can make it void.
    pub issuer: &'static str,
    pub begins: Vec<&'static str>,
    /// Letters that stand before the fixed ones.
    pub before: Option<Letters>,
    pub parts: Vec<BodyPart>,
    /// Of the letters of all parts.
    pub classes: u16,
}

pub(super) enum BodyPart {
    Text(&'static str),
    Of(Letters),
    /// What stands between a name and its value.
    Gap,
}

/// So many letters of these classes.
#[derive(Clone, Copy)]
pub(super) struct Letters {
    pub classes: u16,
    pub least: usize,
    pub most: usize,
}

pub(super) const DIGIT: u16 = 1;
const SMALL_HEX: u16 = 1 << 1;
pub(super) const SMALL: u16 = 1 << 2;
const LARGE_HEX: u16 = 1 << 3;
const LARGE: u16 = 1 << 4;
const ALNUM: u16 = DIGIT | SMALL | LARGE;
/// One class each; the last two stand in addresses alone.
const SIGNS: &[u8] = b"_-./+=~:@";
pub(super) const WORD: u16 = ALNUM | sign(b'_');

const fn sign(byte: u8) -> u16 {
    let mut at = 0;
    while at < SIGNS.len() {
        if SIGNS[at] == byte {
            return 1 << (at + 5);
        }
        at += 1;
    }
    0
}

/// The classes of every byte; none of those that end a run.
pub(super) const fn classes() -> [u16; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => SMALL | SMALL_HEX,
            b'g'..=b'z' => SMALL,
            b'A'..=b'F' => LARGE | LARGE_HEX,
            b'G'..=b'Z' => LARGE,
            _ => sign(byte),
        };
        byte += 1;
    }
    classes
}

pub(super) fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'=' | b':' | b'>' | b'`' | b',')
}

/// Every rule of the table.
pub(super) fn read() -> Vec<FormatRule> {
    lines().filter_map(rule).collect()
}

pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("rules.txt").lines().filter(|line| !line.starts_with('#'))
}

fn rule(line: &'static str) -> Option<FormatRule> {
    let [name, issuer, before, begins, parts]: [&str; 5] =
        line.split('|').map(str::trim).collect::<Vec<_>>().try_into().ok()?;
    let parts: Option<Vec<BodyPart>> = parts.split(' ').map(part).collect();
    let before = if before.is_empty() { None } else { Some(letters(before)?) };
    let (begins, parts) = (begins.split(' ').collect(), parts?);
    let classes = parts.iter().fold(0, |classes, part| {
        classes
            | match part {
                BodyPart::Of(letters) => letters.classes,
                BodyPart::Text(text) => text.bytes().fold(0, |classes, byte| classes | sign(byte)),
                BodyPart::Gap => 0,
            }
    });
    Some(FormatRule { name, issuer, begins, before, parts, classes })
}

fn part(word: &'static str) -> Option<BodyPart> {
    match word.strip_prefix('\'') {
        Some(text) => text.strip_suffix('\'').map(BodyPart::Text),
        None if word == "gap" => Some(BodyPart::Gap),
        None => letters(word).map(BodyPart::Of),
    }
}

fn letters(word: &str) -> Option<Letters> {
    let (names, counts) = word.strip_suffix('}')?.split_once('{')?;
    let end = names.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(names.len());
    let named = match &names[..end] {
        "" => 0,
        "digit" => DIGIT,
        "small" => DIGIT | SMALL_HEX,
        "hex" => DIGIT | SMALL_HEX | LARGE_HEX,
        "capital" => DIGIT | LARGE,
        "alnum" => ALNUM,
        "word" => WORD,
        "url" => WORD | sign(b'-'),
        "base64" => ALNUM | sign(b'+') | sign(b'/'),
        _ => return None,
    };
    let classes = names[end..].bytes().fold(named, |classes, byte| classes | sign(byte));
    let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
    Some(Letters { classes, least: least.parse().ok()?, most: most.parse().ok()? })
}
