//! Secrets that nobody told us of, known by how their issuers write them: a fixed beginning, then
//! so many letters of an alphabet. The rules are in [`rules`]; here is how they are looked for.
//!
//! Every format but a private key stands in one run of letters without blanks or quotes, and such
//! a run is longer than a word: ordinary text is looked at in one place out of twelve. A text is
//! looked through once, for whatever it holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use super::marker::{MARK, marker};

mod private_key;
mod rules;

pub(super) use private_key::CLOSING;
use rules::{BodyPart, FormatRule};

/// What stands in brackets for a secret that was known by its format begins so.
pub(super) const NAME: &str = "format.";

/// No run that holds a beginning is shorter: the shortest tokens of Slack.
const SHORTEST_RUN: usize = 12;
/// A body this long is one: it goes up to the end of its letters, whatever its rule says of them.
const LONG: usize = 4096;
/// So far back from the end of a text something unfinished may begin.
const OPEN_BYTES: usize = 24 << 10;
/// Different letters are counted in so many of them.
const COUNTED: usize = 256;
/// What is written in place of a secret, `xxxxxxxx`, has fewer different letters.
const DISTINCT: u32 = 6;
/// Letters without a digit from which on they may be words, and the same where all are capitals:
/// those of AWS have 16, and one in thirty has no digit.
const WORDS: usize = 14;
const WORDS_IN_CAPITALS: usize = 24;
/// Where so many letters are fixed, what follows is a secret whatever it is.
const UNMISTAKABLE: usize = 12;
/// The longest gap between a name and its value.
const GAP: usize = 8;

/// What the bytes behind a beginning are.
enum Body {
    Other,
    /// One, and where its value is: behind a gap, or all of it.
    Whole(Range<usize>),
    /// The text ends before this can be said; one if nothing follows.
    Open(Option<Range<usize>>),
}

struct Formats {
    rules: Vec<FormatRule>,
    finder: Option<AhoCorasick>,
    /// By number of the pattern in the finder: the rule, and the pattern's length.
    patterns: Vec<(usize, usize)>,
    /// The beginnings that are names before a gap.
    named: Vec<&'static [u8]>,
    /// The length of the longest beginning.
    longest: usize,
    /// Of the letters before the fixed ones, the most.
    before: usize,
    pairs: Pairs,
    markers: Vec<String>,
}

static FORMATS: LazyLock<Formats> = LazyLock::new(|| {
    let rules = rules::read();
    let begins = rules
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| rule.begins.iter().map(move |begin| (at, begin.as_bytes())));
    let (numbers, begins): (Vec<usize>, Vec<&[u8]>) = begins.unzip();
    let finder = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(&begins);
    let patterns = numbers.into_iter().zip(begins.iter().map(|begin| begin.len())).collect();
    let named = rules.iter().filter(|rule| matches!(rule.parts[..], [BodyPart::Gap, ..]));
    let named = named.flat_map(|rule| &rule.begins).map(|begin| begin.as_bytes()).collect();
    let pairs = Pairs::of(&begins);
    let longest = begins.iter().map(|begin| begin.len()).max().unwrap_or(0);
    let before = rules.iter().filter_map(|rule| Some(rule.before?.most)).max().unwrap_or(0);
    let names = rules.iter().map(|rule| rule.name).chain([private_key::NAME]);
    let markers = names.map(|name| marker(&format!("{NAME}{name}"))).collect();
    let finder =
        finder.inspect_err(|error| tracing::error!(%error, "formats cannot be searched for"));
    Formats { rules, finder: finder.ok(), patterns, named, longest, before, pairs, markers }
});

/// The first two letters of each beginning, a bit for each: ids and long words hold few of them,
/// and where there is none there is nothing to look for.
struct Pairs([u64; 1 << 10]);

impl Pairs {
    fn of(begins: &[&[u8]]) -> Self {
        let mut bits = [0; 1 << 10];
        for pair in begins.iter().filter_map(|begin| begin.first_chunk()) {
            let at = Self::at(*pair);
            bits[at >> 6] |= 1 << (at & 63);
        }
        Self(bits)
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        let is_one = |pair: &[u8]| {
            let at = Self::at([pair[0], pair[1]]);
            self.0[at >> 6] >> (at & 63) & 1 == 1
        };
        bytes.windows(2).any(is_one)
    }

    fn at(pair: [u8; 2]) -> usize {
        usize::from(u16::from_be_bytes(pair))
    }
}

/// Name of each kind and who can make one void.
pub fn issuers() -> BTreeMap<&'static str, &'static str> {
    let private_key = (private_key::NAME, private_key::ISSUER);
    FORMATS.rules.iter().map(|rule| (rule.name, rule.issuer)).chain([private_key]).collect()
}

/// So many letters may stand before the value of a secret, and tell that it is one.
pub(super) fn before() -> usize {
    FORMATS.before + FORMATS.longest + GAP
}

/// Whether the text holds the marker of one.
pub(super) fn is_marked(text: &str) -> bool {
    text.contains(&marker(NAME)[..MARK.len() + NAME.len()])
}

/// One that stands in a text.
pub(super) struct Match {
    /// Where its fixed letters begin.
    fixed: usize,
    at: Range<usize>,
    rule: usize,
    /// It is one whatever follows, and goes on behind the bytes as long as this does.
    rest: Option<Continuation>,
}

/// What a long secret goes on with.
#[derive(Clone, Copy)]
pub(super) enum Continuation {
    /// Letters of these classes.
    Letters(u16),
    /// Lines of a private key.
    Lines,
}

impl Continuation {
    /// Where it ends that goes on at `at`.
    pub fn end(self, bytes: &[u8], at: usize) -> usize {
        match self {
            Self::Letters(classes) => at + count(bytes[at..].iter(), classes),
            Self::Lines => private_key::rest(bytes, at),
        }
    }
}

/// What goes on behind the bytes of those from `at` on.
pub(super) fn rest(all: &[Match], at: usize) -> Option<Continuation> {
    all[all.partition_point(|found| found.at.start < at)..].iter().find_map(|found| found.rest)
}

impl Match {
    /// So far into the bytes stands what it was found in.
    pub fn shifted(self, by: usize) -> Self {
        let at = self.at.start + by..self.at.end + by;
        Self { fixed: self.fixed + by, at, ..self }
    }
}

/// A letter of a secret that is known: no letter to any rule, whatever it is, and a digit to a
/// private key. No text has it.
const MASK: u8 = 0xFF;

/// Takes out what is known as a secret already: whether something around one is a format would
/// else tell which letters it has.
pub(super) fn mask(bytes: &mut Cow<'_, [u8]>, known: impl Iterator<Item = Range<usize>>) {
    known.for_each(|at| bytes.to_mut()[at].fill(MASK));
}

/// All that stand in the bytes, in the order of their starts; of two that begin together the longer
/// is first.
pub(super) fn all(bytes: &[u8]) -> Vec<Match> {
    let mut all = Vec::new();
    let (mut from, mut spans) = (0, Spans::default());
    while let Some(run) = next_run(bytes, from) {
        from = run.end;
        all.extend(hits(bytes, run).filter_map(|hit| {
            let (Body::Whole(value) | Body::Open(Some(value))) = hit.body(bytes, &mut spans) else {
                return None;
            };
            let start = if value.start > hit.end { value.start } else { hit.start };
            let (fixed, rule) = (hit.end - hit.fixed, hit.rule);
            let classes = FORMATS.rules[rule].classes;
            let is_open = value.end == bytes.len() && spans.is_long(rule, value.end);
            let rest = is_open.then_some(Continuation::Letters(classes));
            Some(Match { fixed, at: start..value.end, rule, rest })
        }));
    }
    let key = |at: Range<usize>| {
        let rest = (at.end == bytes.len() && at.len() >= LONG).then_some(Continuation::Lines);
        Match { fixed: at.start, at, rule: FORMATS.rules.len(), rest }
    };
    all.extend(private_key::all(bytes).map(key));
    all.sort_by_key(|found| (found.at.start, usize::MAX - found.at.end));
    all
}

/// Those whose fixed letters stand from `at` on, with their markers.
pub(super) fn behind(
    all: &[Match],
    at: usize,
) -> impl Iterator<Item = (Range<usize>, &'static str)> {
    let first = all.partition_point(|found| found.at.start + FORMATS.before < at);
    let behind = all[first..].iter().filter(move |found| found.fixed >= at);
    behind.filter_map(move |found| {
        Some((found.at.start.max(at)..found.at.end, FORMATS.markers.get(found.rule)?.as_str()))
    })
}

/// Where the earliest from `at` on begins that the end of the bytes cuts off, before `until`. In
/// the word that the bytes end with something may begin anywhere.
pub(super) fn unfinished(bytes: &[u8], at: usize, until: usize) -> Option<usize> {
    let at = at.max(bytes.len().saturating_sub(OPEN_BYTES));
    let key = private_key::unfinished(bytes, at, until);
    let from = open_from(bytes, at);
    if from >= until {
        return key;
    }
    let mut spans = Spans::default();
    let open = hits(bytes, from..bytes.len())
        .filter(|hit| matches!(hit.body(bytes, &mut spans), Body::Open(_)))
        .map(|hit| hit.start.max(at));
    open.chain(key).min()
}

/// Where what reaches the end may begin: in the run there, or in the name before a gap there.
fn open_from(bytes: &[u8], at: usize) -> usize {
    let back = |end: usize, of: fn(u8) -> bool| {
        bytes[at..end].iter().rposition(|byte| !of(*byte)).map_or(at, |other| at + other + 1)
    };
    let run = back(bytes.len(), |byte| class(byte) != 0);
    let gap = back(run, rules::is_gap);
    match FORMATS.named.iter().any(|name| bytes[at..gap].ends_with(name)) {
        true => back(gap, |byte| class(byte) != 0),
        false => run,
    }
}

/// The next run of letters that is long enough to hold a secret.
fn next_run(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let mut at = from;
    while at + SHORTEST_RUN <= bytes.len() {
        let ahead = &bytes[at..at + SHORTEST_RUN];
        match ahead.iter().rposition(|byte| class(*byte) == 0) {
            Some(other) => at += other + 1,
            None => {
                let rest = bytes[at + SHORTEST_RUN..].iter();
                let more = rest.take_while(|byte| class(**byte) != 0).count();
                return Some(at..at + SHORTEST_RUN + more);
            }
        }
    }
    None
}

/// By rule and part: the letters of it that were counted last. Nobody counts them twice.
#[derive(Default)]
struct Spans(BTreeMap<(usize, usize), Range<usize>>);

impl Spans {
    /// Where the letters of these classes end that stand at `at`.
    fn end(&mut self, bytes: &[u8], at: usize, part: (usize, usize), classes: u16) -> usize {
        let span = self.0.entry(part).or_default();
        if !span.contains(&at) {
            *span = at..at + count(bytes[at..].iter(), classes);
        }
        span.end
    }

    /// Whether one of this rule goes up to `end` because it is long.
    fn is_long(&self, rule: usize, end: usize) -> bool {
        let all = self.0.get(&(rule, FORMATS.rules[rule].parts.len()));
        all.is_some_and(|span| span.end == end)
    }
}

/// A beginning that stands where one may stand.
struct Hit {
    rule: usize,
    start: usize,
    /// Where the body begins.
    end: usize,
    /// How many letters are fixed.
    fixed: usize,
}

fn hits(bytes: &[u8], run: Range<usize>) -> impl Iterator<Item = Hit> {
    #[cfg(test)]
    super::work::add(run.len());
    let formats = &*FORMATS;
    let finder = formats.finder.as_ref().filter(|_| formats.pairs.are_in(&bytes[run.clone()]));
    let input = Input::new(&bytes[..run.end]).span(run);
    let found = finder.and_then(|finder| finder.try_find_overlapping_iter(input).ok());
    found.into_iter().flatten().filter_map(|found| {
        let (rule, length) = *formats.patterns.get(found.pattern().as_usize())?;
        let start = formats.rules[rule].start(bytes, found.end() - length)?;
        is_edge(bytes, start).then_some(Hit { rule, start, end: found.end(), fixed: length })
    })
}

impl Hit {
    fn body(&self, bytes: &[u8], spans: &mut Spans) -> Body {
        let body = FORMATS.rules[self.rule].body(bytes, self.end, |at, part, classes| {
            spans.end(bytes, at, (self.rule, part), classes)
        });
        let (Body::Whole(value) | Body::Open(Some(value))) = &body else { return body };
        let counted = &bytes[value.start..value.end.min(value.start + COUNTED)];
        let mut seen = 0_u128;
        counted.iter().for_each(|byte| seen |= 1 << (byte & 0x7F));
        let is_random = (seen.count_ones() >= DISTINCT || self.fixed >= UNMISTAKABLE)
            && !bytes[..value.end].ends_with(b"EXAMPLE");
        match body {
            body if is_random => body,
            Body::Open(_) => Body::Open(None),
            _ => Body::Other,
        }
    }
}

impl FormatRule {
    /// Where it begins, whose fixed letters stand at `at`: they may not be its first.
    fn start(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let Some(letters) = self.before else { return Some(at) };
        let count = count(bytes[..at].iter().rev().take(letters.most), letters.classes);
        (count >= letters.least).then(|| at - count)
    }

    /// Each part takes what it can. `end` tells for a place where letters of a part end.
    fn body(
        &self,
        bytes: &[u8],
        start: usize,
        mut end: impl FnMut(usize, usize, u16) -> usize,
    ) -> Body {
        let (mut at, mut last, mut value, mut words) = (start, 0, start, false);
        for (number, part) in self.parts.iter().enumerate() {
            let ahead = &bytes[at..];
            match part {
                BodyPart::Text(text) if ahead.starts_with(text.as_bytes()) => at += text.len(),
                BodyPart::Text(text) if text.as_bytes().starts_with(ahead) => {
                    return Body::Open(None);
                }
                BodyPart::Text(_) => return Body::Other,
                BodyPart::Gap => {
                    at += ahead.iter().take(GAP).take_while(|byte| rules::is_gap(**byte)).count();
                    value = at;
                }
                BodyPart::Of(letters) => {
                    let count = (end(at, number, letters.classes) - at).min(letters.most);
                    at += count;
                    last = letters.classes;
                    match count < letters.least {
                        true if at == bytes.len() => return Body::Open(None),
                        true => return Body::Other,
                        false if count >= LONG => {
                            at = end(at, self.parts.len(), self.classes);
                            break;
                        }
                        false => words |= are_words(&bytes[at - count..at], last),
                    }
                }
            }
        }
        match bytes.get(at) {
            None if words => Body::Open(None),
            None => Body::Open(Some(value..at)),
            Some(_) if words => Body::Other,
            Some(next) if class(*next) & (rules::WORD | last) != 0 => Body::Other,
            Some(_) => Body::Whole(value..at),
        }
    }
}

/// Whether letters of these classes read like words: no digit among many of them, and nearly all
/// small or nearly all large, as nobody throws them by chance.
fn are_words(bytes: &[u8], classes: u16) -> bool {
    let least = if classes & rules::SMALL == 0 { WORDS_IN_CAPITALS } else { WORDS };
    if bytes.len() < least || classes & rules::DIGIT == 0 || bytes.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let large = bytes.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let small = bytes.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    4 * large.min(small) < large + small
}

/// How many bytes are of these classes, up to the first that is not.
fn count<'b>(bytes: impl Iterator<Item = &'b u8>, classes: u16) -> usize {
    let count = bytes.take_while(|byte| class(**byte) & classes != 0).count();
    #[cfg(test)]
    super::work::add(count);
    count
}

/// Whether a secret may begin here: no word goes on. The last letter of an escape is none.
pub(super) fn is_edge(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    match before {
        [] => true,
        [.., last] if class(*last) & rules::WORD == 0 => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        // The address of a bot has it directly before the token.
        [.., b'/', b'b', b'o', b't'] => true,
        [rest @ .., b'm' | b'K'] => {
            let codes = rest
                .iter()
                .rev()
                .take(12)
                .take_while(|b| b.is_ascii_digit() || **b == b';')
                .count();
            rest.get(..rest.len() - codes).is_some_and(|rest| rest.ends_with(b"["))
        }
        _ => false,
    }
}

fn class(byte: u8) -> u16 {
    const CLASSES: [u16; 256] = rules::classes();
    CLASSES[usize::from(byte)]
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;
