//! The text with its escapes taken back: `&#97;`, `&amp;`, `%61`, `\u0061`, `\x61`, `\"`, and line
//! ends inside base64, at any depth. A secret is searched for at every depth; each byte knows
//! where it came from.
//!
//! Two readings differ where escapes stand side by side: `\\u0075` may be `u` in JSON inside JSON
//! or a backslash before a `u`, and `&#72%3b` may be `H` and a semicolon or `&#72;`. A text that
//! holds such is read both ways.
//!
//! A text without any of these, which is nearly every text, costs one look for their first bytes.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr2_iter, memchr3_iter};

use super::SHORTEST;
use super::formats::{self, Match};

/// Escapes inside escapes that are taken back.
const DEEPEST: usize = 8;
/// A line end is left out where it follows this many digits of base64: lines of base64 are
/// longer, words of ordinary text are shorter.
pub(super) const LINE: usize = 16;
/// Longer names of entities and longer numbers are none of ours.
const LONGEST: usize = 24;

/// One depth: what it reads, and where in the text each byte of that begins and ends.
#[derive(Default)]
pub(super) struct DecodedLevel {
    pub bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
    /// Where an escape begins that the end of the text cuts off; the end where none does.
    pub cut: usize,
    /// The bytes before which a line end was left out.
    breaks: Vec<usize>,
    /// It reads otherwise with [`DecodeOptions::inner_first`].
    is_ambiguous: bool,
    /// The bytes without known secrets, where it holds some.
    masked: Option<Vec<u8>>,
    /// What looks like a secret in it.
    pub matches: Vec<Match>,
}

/// How a text is read.
#[derive(Clone, Copy, Default)]
pub(super) struct DecodeOptions {
    /// A backslash before an ordinary letter is taken away: some secret has what is written so.
    pub backslashes: bool,
    /// An escape takes no more than it needs: one backslash, and no number whose end may be
    /// escaped itself.
    pub inner_first: bool,
}

impl DecodedLevel {
    /// Where the byte at `at` stands in the text; behind the last, where that ends.
    pub fn start(&self, at: usize) -> usize {
        match self.spans.get(at) {
            Some((start, _)) => *start as usize,
            None => self.spans.last().map_or(0, |(_, end)| *end as usize),
        }
    }

    /// Where the bytes at `at` stand in the text.
    pub fn outside(&self, at: &Range<usize>) -> Range<usize> {
        let end = self.spans.get(at.end - 1).map_or(0, |(_, end)| *end as usize);
        self.start(at.start)..end
    }

    /// Looks for formats around what is hidden in the text.
    pub fn find_formats(&mut self, hidden: &[Range<usize>]) {
        let mut masked = Cow::Borrowed(&*self.bytes);
        formats::mask(&mut masked, hidden.iter().map(|at| self.from(at.start)..self.from(at.end)));
        let of_line = |line: Range<usize>| {
            let found = formats::all(&masked[line.clone()]).into_iter();
            found.map(move |found| found.shifted(line.start))
        };
        let matches = self.lines().flat_map(of_line).collect();
        if let Cow::Owned(masked) = masked {
            self.masked = Some(masked);
        }
        self.matches = matches;
    }

    /// What formats are looked for in.
    pub fn masked(&self) -> &[u8] {
        self.masked.as_deref().unwrap_or(&self.bytes)
    }

    fn of(bytes: Vec<u8>) -> Self {
        let spans = (0..).zip(1..).take(bytes.len()).collect();
        Self { cut: bytes.len(), bytes, spans, ..Self::default() }
    }

    /// The parts between the line ends that were left out: no format goes on over one, and where
    /// a line begins a word begins.
    pub fn lines(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = self.breaks.iter().copied().chain([self.bytes.len()]);
        [0].into_iter().chain(self.breaks.iter().copied()).zip(ends).map(|(from, to)| from..to)
    }

    /// Where the last of them begins.
    pub fn last_line(&self) -> usize {
        self.breaks.last().copied().unwrap_or(0)
    }

    fn find_breaks(&mut self, text: &str) {
        let between = |pair: &[(u32, u32)]| text.get(pair[0].1 as usize..pair[1].0 as usize);
        let is_break = |gap: &str| gap.bytes().any(|byte| byte != b'\\');
        let gaps = (1..).zip(self.spans.windows(2));
        let breaks = gaps.filter(|(_, pair)| between(pair).is_some_and(is_break));
        self.breaks = breaks.map(|(byte, _)| byte).collect();
    }

    /// The first byte that comes from `at` in the text or from behind it.
    pub fn from(&self, at: usize) -> usize {
        self.spans.partition_point(|(start, _)| (*start as usize) < at)
    }
}

/// Every depth below the text, and where in the text an escape is cut off by its end.
pub(super) fn levels(text: &str, reading: DecodeOptions) -> (Vec<DecodedLevel>, usize) {
    let bytes = text.as_bytes();
    let cut = match look(bytes, reading) {
        Look::Escapes if u32::try_from(bytes.len()).is_ok() => None,
        Look::Escapes => Some(bytes.len()),
        Look::Nothing { cut } => Some(cut),
    };
    if let Some(cut) = cut {
        return (Vec::new(), cut);
    }
    let mut levels = chain(DecodedLevel::of(bytes.to_vec()), DEEPEST, reading);
    if let Some(first) = levels.iter().position(|level| level.is_ambiguous) {
        let DecodedLevel { bytes, spans, .. } = &levels[first];
        let (bytes, spans) = (bytes.clone(), spans.clone());
        let level = DecodedLevel { cut: bytes.len(), bytes, spans, ..DecodedLevel::default() };
        let reading = DecodeOptions { inner_first: true, ..reading };
        levels.extend(chain(level, DEEPEST - first, reading).into_iter().skip(1));
    }
    let cut = levels.remove(0).cut;
    levels.iter_mut().for_each(|level| level.find_breaks(text));
    (levels, cut)
}

/// The level, and so many below it.
fn chain(mut above: DecodedLevel, depth: usize, reading: DecodeOptions) -> Vec<DecodedLevel> {
    let mut levels: Vec<DecodedLevel> = Vec::new();
    for _ in 0..=depth {
        let below = take_back(&mut above, reading);
        // Whatever is taken back is shorter afterwards.
        let is_deepest = below.bytes.len() == above.cut;
        levels.push(above);
        if is_deepest {
            break;
        }
        above = below;
    }
    levels
}

/// The text with small letters, where it has a run of hexadecimal digits in both cases that may be
/// a secret's: forms have digits of one case alone.
pub(super) fn lowered(text: &str) -> Option<DecodedLevel> {
    let bytes = text.as_bytes();
    if !has_mixed_hex(bytes) || u32::try_from(bytes.len()).is_err() {
        return None;
    }
    Some(DecodedLevel::of(bytes.to_ascii_lowercase()))
}

/// Runs as long as the shortest secret, and the one the text ends with, which may go on. Ordinary
/// text is looked at in few places: no run reaches from here to there unless its end is a digit.
fn has_mixed_hex(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let ahead = &bytes[at..bytes.len().min(at + 2 * SHORTEST)];
        if let Some(other) = ahead.iter().rposition(|byte| !byte.is_ascii_hexdigit()) {
            at += other + 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let run = &bytes[at..at + length];
        if run.iter().any(u8::is_ascii_lowercase) && run.iter().any(u8::is_ascii_uppercase) {
            return true;
        }
        at += length;
    }
    false
}

/// Whether anything in the bytes can be taken back, whatever follows them.
pub(super) fn has_escapes(bytes: &[u8], reading: DecodeOptions) -> bool {
    matches!(look(bytes, reading), Look::Escapes)
}

enum Look {
    Escapes,
    Nothing { cut: usize },
}

/// How many bytes from a plain one on are plain: of backslashes the others too, for what stands
/// behind them all decides.
fn plain_length(bytes: &[u8], at: usize) -> usize {
    if bytes[at] == b'\\' { slashes(&bytes[at..]) } else { 1 }
}

fn slashes(bytes: &[u8]) -> usize {
    let count = bytes.iter().take_while(|byte| **byte == b'\\').count();
    #[cfg(test)]
    super::work::add(count);
    count
}

/// Whether anything can be taken back.
fn look(bytes: &[u8], reading: DecodeOptions) -> Look {
    let (mut cut, mut plain) = (bytes.len(), 0);
    for at in memchr3_iter(b'\\', b'&', b'%', bytes) {
        if at < plain {
            continue;
        }
        match step(bytes, at, run_before(bytes, at), reading) {
            Step::Plain => plain = at + plain_length(bytes, at),
            Step::Takes { .. } => return Look::Escapes,
            Step::Cut => {
                cut = at;
                break;
            }
        }
    }
    if has_line_end(bytes) { Look::Escapes } else { Look::Nothing { cut } }
}

fn has_line_end(bytes: &[u8]) -> bool {
    memchr2_iter(b'\n', b'\r', bytes).any(|at| run_before(bytes, at) >= LINE)
}

/// Digits of base64 directly before `at`, as far as they are counted.
fn run_before(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().rev().take(LINE).take_while(|byte| is_digit(**byte)).count()
}

fn next_run(run: usize, byte: u8) -> usize {
    if is_digit(byte) { run + 1 } else { 0 }
}

pub(super) fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// One depth deeper; notes where in the depth above an escape is cut off.
fn take_back(above: &mut DecodedLevel, reading: DecodeOptions) -> DecodedLevel {
    let bytes = &above.bytes;
    let (taken, spans) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
    let mut below = DecodedLevel { bytes: taken, spans, ..DecodedLevel::default() };
    let (mut at, mut run) = (0, 0);
    while at < bytes.len() {
        match step(bytes, at, run, reading) {
            Step::Plain => {
                let end = at + if reading.inner_first { 1 } else { plain_length(bytes, at) };
                below.bytes.extend_from_slice(&bytes[at..end]);
                below.spans.extend_from_slice(&above.spans[at..end]);
                run = next_run(run, bytes[at]);
                at = end;
            }
            Step::Takes { length, means, count } => {
                above.is_ambiguous |= is_ambiguous(&bytes[at..], length);
                let span = (above.spans[at].0, above.spans[at + length - 1].1);
                for byte in &means[..count] {
                    below.bytes.push(*byte);
                    below.spans.push(span);
                    run = next_run(run, *byte);
                }
                at += length;
            }
            Step::Cut => {
                above.cut = at;
                break;
            }
        }
    }
    below.cut = below.bytes.len();
    below
}

/// Whether the escape of this length may be read otherwise.
fn is_ambiguous(rest: &[u8], length: usize) -> bool {
    match rest[0] {
        b'\\' => rest[1] == b'\\',
        _ => is_begun(rest, length),
    }
}

/// Whether this is a number without its end, before an escape.
fn is_begun(rest: &[u8], length: usize) -> bool {
    rest[0] == b'&'
        && rest[length - 1] != b';'
        && matches!(rest.get(length), Some(b'%' | b'\\' | b'&'))
}

/// What stands at a place.
enum Step {
    Plain,
    /// So many bytes mean these, or nothing.
    Takes {
        length: usize,
        means: [u8; 4],
        count: usize,
    },
    /// The text ends before this can be said.
    Cut,
}

impl Step {
    fn nothing(length: usize) -> Self {
        Self::Takes { length, means: [0; 4], count: 0 }
    }

    fn byte(length: usize, byte: u8) -> Self {
        Self::Takes { length, means: [byte, 0, 0, 0], count: 1 }
    }

    fn letter(length: usize, code: u32) -> Self {
        let Some(letter) = char::from_u32(code) else { return Self::Plain };
        let mut means = [0; 4];
        let count = letter.encode_utf8(&mut means).len();
        Self::Takes { length, means, count }
    }
}

fn step(bytes: &[u8], at: usize, run: usize, reading: DecodeOptions) -> Step {
    let rest = &bytes[at..];
    match rest[0] {
        b'%' => match hex(&rest[1..], 2) {
            Digits::Number(byte, _) => Step::byte(3, byte as u8),
            Digits::Cut => Step::Cut,
            Digits::None => Step::Plain,
        },
        b'&' => match entity(rest) {
            Step::Takes { length, .. } if reading.inner_first && is_begun(rest, length) => {
                Step::Plain
            }
            step => step,
        },
        b'\\' if reading.inner_first && rest.get(1) == Some(&b'\\') => Step::Plain,
        b'\\' => backslash(rest, run, reading),
        b'\n' | b'\r' if run >= LINE => Step::nothing(line_end(rest)),
        _ => Step::Plain,
    }
}

enum Digits {
    Number(u32, usize),
    None,
    Cut,
}

/// Exactly so many hexadecimal digits.
fn hex(rest: &[u8], count: usize) -> Digits {
    let digits = rest.iter().take(count).take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits == count {
        let number = rest[..count].iter().fold(0, |number, byte| number * 16 + value(*byte));
        return Digits::Number(number, count);
    }
    if digits == rest.len() { Digits::Cut } else { Digits::None }
}

fn value(digit: u8) -> u32 {
    char::from(digit).to_digit(16).unwrap_or(0)
}

/// `&#97;`, `&#x61;` with or without the semicolon, and names of ASCII letters.
fn entity(rest: &[u8]) -> Step {
    let within = &rest[1..rest.len().min(LONGEST)];
    let name = match within.strip_prefix(b"#") {
        None => {
            let length = within.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if length == rest.len() - 1 {
                return Step::Cut;
            }
            if rest.get(length + 1) != Some(&b';') {
                return Step::Plain;
            }
            let named = ENTITIES.iter().find(|(name, _)| name.as_bytes() == &within[..length]);
            return named.map_or(Step::Plain, |(_, means)| Step::byte(length + 2, *means));
        }
        Some(number) => number,
    };
    let (radix, digits) = match name.strip_prefix(b"x").or(name.strip_prefix(b"X")) {
        Some(digits) => (16, digits),
        None => (10, name),
    };
    let is_number = |byte: &&u8| char::from(**byte).is_digit(radix);
    let length = digits.iter().take_while(is_number).count();
    let before = rest.len().min(LONGEST) - digits.len();
    if before + length == rest.len() {
        return Step::Cut;
    }
    let number = digits[..length]
        .iter()
        .try_fold(0_u32, |number, digit| number.checked_mul(radix)?.checked_add(value(*digit)));
    match (length, number) {
        (1.., Some(code)) => {
            let closed = usize::from(rest[before + length] == b';');
            Step::letter(before + length + closed, code)
        }
        _ => Step::Plain,
    }
}

/// Any number of backslashes before one letter: each depth of JSON doubles them.
fn backslash(rest: &[u8], run: usize, reading: DecodeOptions) -> Step {
    let slashes = slashes(rest);
    let Some(letter) = rest.get(slashes) else { return Step::Cut };
    let after = &rest[slashes + 1..];
    match letter {
        b'u' => match unicode(after) {
            Digits::Number(code, length) => return surrogates(rest, slashes + 1 + length, code),
            Digits::Cut => return Step::Cut,
            Digits::None => {}
        },
        b'x' => match hex(after, 2) {
            Digits::Number(byte, _) => return Step::byte(slashes + 3, byte as u8),
            Digits::Cut => return Step::Cut,
            Digits::None => {}
        },
        b'n' | b'r' if run >= LINE => return Step::nothing(line_end(rest)),
        _ => {}
    }
    if !reading.backslashes {
        return Step::Plain;
    }
    match letter {
        b'n' => Step::byte(slashes + 1, b'\n'),
        b'r' => Step::byte(slashes + 1, b'\r'),
        b't' => Step::byte(slashes + 1, b'\t'),
        b'b' => Step::byte(slashes + 1, 8),
        b'f' => Step::byte(slashes + 1, 12),
        _ => Step::nothing(slashes),
    }
}

/// `0061` or `{61}`, behind the `u`.
fn unicode(after: &[u8]) -> Digits {
    let Some(inside) = after.strip_prefix(b"{") else { return hex(after, 4) };
    let length = inside.iter().take(8).take_while(|byte| byte.is_ascii_hexdigit()).count();
    match inside.get(length) {
        None => Digits::Cut,
        Some(b'}') if length > 0 => {
            let code = inside[..length].iter().fold(0_u32, |code, digit| code << 4 | value(*digit));
            Digits::Number(code, length + 2)
        }
        Some(_) => Digits::None,
    }
}

/// A letter, or the first half of one whose second half follows.
fn surrogates(rest: &[u8], length: usize, code: u32) -> Step {
    if !(0xD800..0xDC00).contains(&code) {
        return Step::letter(length, code);
    }
    let second = &rest[length..];
    let slashes = slashes(second);
    match second.get(slashes) {
        None => Step::Cut,
        Some(b'u') if slashes > 0 => match hex(&second[slashes + 1..], 4) {
            Digits::Number(low @ 0xDC00..0xE000, _) => {
                let code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                Step::letter(length + slashes + 5, code)
            }
            Digits::Cut => Step::Cut,
            Digits::Number(..) | Digits::None => Step::Plain,
        },
        Some(_) => Step::Plain,
    }
}

/// The length of line ends and of the blanks that follow them, plain or escaped.
fn line_end(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        let slashes = slashes(&rest[at..]);
        match (slashes, rest.get(at + slashes)) {
            (0, Some(b'\n' | b'\r' | b' ' | b'\t')) => at += 1,
            (1.., Some(b'n' | b'r' | b't')) => at += slashes + 1,
            _ => break,
        }
    }
    at
}

/// Names of the ASCII letters that have one.
const ENTITIES: [(&str, u8); 42] = [
    ("amp", b'&'),
    ("AMP", b'&'),
    ("apos", b'\''),
    ("ast", b'*'),
    ("bsol", b'\\'),
    ("colon", b':'),
    ("comma", b','),
    ("commat", b'@'),
    ("dollar", b'$'),
    ("equals", b'='),
    ("excl", b'!'),
    ("grave", b'`'),
    ("gt", b'>'),
    ("GT", b'>'),
    ("Hat", b'^'),
    ("lbrace", b'{'),
    ("lbrack", b'['),
    ("lcub", b'{'),
    ("lowbar", b'_'),
    ("lpar", b'('),
    ("lsqb", b'['),
    ("lt", b'<'),
    ("LT", b'<'),
    ("num", b'#'),
    ("percnt", b'%'),
    ("period", b'.'),
    ("plus", b'+'),
    ("quest", b'?'),
    ("quot", b'"'),
    ("QUOT", b'"'),
    ("rbrace", b'}'),
    ("rbrack", b']'),
    ("rcub", b'}'),
    ("rpar", b')'),
    ("rsqb", b']'),
    ("semi", b';'),
    ("sol", b'/'),
    ("Tab", b'\t'),
    ("UnderBar", b'_'),
    ("verbar", b'|'),
    ("vert", b'|'),
    ("VerticalLine", b'|'),
];
