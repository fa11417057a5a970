//! Private keys in PEM, and what OpenSSH and PGP write like it: lines of base64 between two lines
//! of dashes, plain or inside a JSON text.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;

pub(super) const NAME: &str = "private-key";
pub(super) const ISSUER: &str = "whoever trusts the key: make a new pair";
pub(super) const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// The longest label between the dashes, of those that are used.
const LABEL: usize = 64;
/// No closing line is longer.
pub(crate) const CLOSING: usize = 2 * LABEL;
/// Digits of base64 in the shortest body: code that speaks of keys has fewer.
const SHORTEST: usize = 40;
/// The same where the closing line follows.
const SHORTEST_CLOSED: usize = 8;
/// Digits in a line of it that is not its last.
const LINE: usize = 20;
/// Words of headers before the first line.
const WORDS: usize = 12;

/// All of them.
pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    begins(bytes, 0).filter_map(|start| match end(&bytes[start..]) {
        End::At(end) | End::Open(Some(end)) => Some(start..start + end),
        End::None | End::Open(None) => None,
    })
}

/// Where the first from `at` on begins that the end of the bytes cuts off. What stands from `word`
/// on may become a known secret, whose letters are digits of the key then.
pub(super) fn unfinished(bytes: &[u8], at: usize, word: usize) -> Option<usize> {
    let is_open = |bytes: &[u8]| matches!(end(bytes), End::Open(_));
    let is_open_before = |start| bytes.get(start..word).is_some_and(is_open);
    begins(bytes, at).find(|start| is_open(&bytes[*start..]) || is_open_before(*start))
}

fn begins(bytes: &[u8], at: usize) -> impl Iterator<Item = usize> {
    static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(BEGIN));
    FINDER.find_iter(&bytes[at.min(bytes.len())..]).map(move |found| at + found)
}

enum End {
    None,
    At(usize),
    Open(Option<usize>),
}

/// Where the key ends that begins with these bytes. Where its closing line is missing, behind the
/// last line of base64.
fn end(bytes: &[u8]) -> End {
    let Some(mut at) = label(bytes, BEGIN.len()) else {
        return if bytes.len() < LABEL { End::Open(None) } else { End::None };
    };
    if memmem::find(&bytes[..at], b"PRIVATE KEY").is_none() {
        return End::None;
    }
    let (mut words, mut digits, mut short, mut body) = (0, 0, 0, at);
    let from = at;
    loop {
        at += blanks(&bytes[at..]);
        let rest = &bytes[at..];
        let run = self::digits(rest);
        let is_enough = digits >= SHORTEST;
        let is_cut = rest[run..].iter().all(|byte| *byte == b'\\') || END.starts_with(rest);
        if is_cut {
            return End::Open((digits + run >= SHORTEST).then_some(at + run));
        }
        if rest.starts_with(END) {
            let letters = bytes[from..at].iter().filter(|byte| is_digit(**byte)).count();
            return match label(bytes, at + END.len()) {
                _ if letters < SHORTEST_CLOSED => End::None,
                Some(end) => End::At(end),
                None if rest.len() < END.len() + LABEL => End::Open(Some(bytes.len())),
                None if is_enough => End::At(body),
                None => End::None,
            };
        }
        let closes = blanks(&rest[run..]) > 0 || rest[run..].starts_with(DASHES);
        if run >= LINE || (digits > 0 && short < 2 && run > 0 && closes) {
            short += usize::from(run < LINE);
            digits += run;
            at += run;
            body = at;
        } else if digits == 0 && words < WORDS && is_inside(rest[run]) {
            words += 1;
            at += rest
                .iter()
                .take_while(|b| is_inside(**b) && !matches!(b, b' ' | b'\n' | b'\r' | b'\\'))
                .count()
                .max(1);
        } else {
            return if is_enough { End::At(body) } else { End::None };
        }
    }
}

/// Where the key ends that goes on at `at`: with its closing line, or behind its last long one.
pub(super) fn rest(bytes: &[u8], at: usize) -> usize {
    let is_inside = bytes[..at].last().is_some_and(|byte| is_digit(*byte));
    let mut end = at + if is_inside { digits(&bytes[at..]) } else { 0 };
    loop {
        let line = end + blanks(&bytes[end..]);
        let run = digits(&bytes[line..]);
        let next = line + run + blanks(&bytes[line + run..]);
        let ahead = &bytes[next..];
        if ahead.starts_with(END) {
            return label(bytes, next + END.len()).unwrap_or(match ahead.len() < LABEL {
                true => bytes.len(),
                false => line + run,
            });
        }
        match run >= LINE {
            _ if END.starts_with(ahead) || ahead.iter().all(|b| *b == b'\\') => return bytes.len(),
            true => end = line + run,
            false => return end,
        }
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_digit(**byte)).count()
}

/// Blanks, line ends and the marks of quotes, comments and tables before a line; plain or escaped
/// any number of times.
fn blanks(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let slashes = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
        match (slashes, bytes.get(at + slashes)) {
            (0, Some(b' ' | b'\t' | b'\r' | b'\n' | b'>' | b'#' | b'*' | b'|')) => at += 1,
            (1.., Some(b'n' | b'r' | b't')) => at += slashes + 1,
            _ => return at,
        }
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte) || byte == super::MASK
}

/// Where the line of dashes ends whose label begins at `from`.
fn label(bytes: &[u8], from: usize) -> Option<usize> {
    let ahead = bytes.get(from..)?;
    let ahead = &ahead[..ahead.len().min(LABEL)];
    memmem::find(ahead, DASHES).map(|at| from + at + DASHES.len())
}

/// Never a quote or a bracket: what is replaced does not reach out of a JSON text.
fn is_inside(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\'' | b'`' | b'{' | b'}' | b'<' | b'>' | 0..=8 | 14..=31)
}
