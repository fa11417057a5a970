//! Secrets that nobody told us of, known by how their issuers write them: a fixed beginning, then
//! so many letters of an alphabet. The rules are in [`rules`]; here is how they are looked for.
//!
//! Every format but a private key stands in one run of letters without blanks or quotes, and such
//! a run is longer than a word: ordinary text is looked at in one place out of twelve.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use super::marker::{MARK, marker};

mod private_key;
mod rules;

use rules::{BodyPart, FormatRule, Letters};

/// What stands in brackets for a secret that was known by its format begins so.
pub(super) const NAME: &str = "format.";

/// No run that holds a beginning is shorter: the shortest tokens of Slack.
const SHORTEST_RUN: usize = 12;
/// A longer run is looked at in parts, so that whoever looks on behind a secret in it does not
/// look at all the rest each time.
const LONGEST_RUN: usize = 1024;
/// A body this long is cut there rather than left: no format has a longest length like it.
const LONG: usize = 4096;
/// So far back from the end of a text something unfinished may begin.
const OPEN_BYTES: usize = 24 << 10;
/// What is written in place of a secret, `xxxxxxxx`, has fewer different letters.
const DISTINCT: u32 = 6;
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
    /// Sorted, so that the first letters of one can be looked up.
    begins: Vec<&'static [u8]>,
    /// Of these, the ones that stand behind other letters of their secret.
    inner: Vec<&'static [u8]>,
    /// The length of the longest.
    longest: usize,
    /// Of the letters before the fixed ones, the most.
    before: usize,
    pairs: Pairs,
    /// By byte: whether one begins with it, and whether one of the inner ones does.
    first: [(bool, bool); 256],
    markers: Vec<String>,
}

static FORMATS: LazyLock<Formats> = LazyLock::new(|| {
    let rules = rules::read();
    let begins = rules
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| rule.begins.iter().map(move |begin| (at, begin.as_bytes())));
    let (numbers, mut begins): (Vec<usize>, Vec<&[u8]>) = begins.unzip();
    let finder = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(&begins);
    let patterns = numbers.into_iter().zip(begins.iter().map(|begin| begin.len())).collect();
    begins.push(private_key::BEGIN);
    let inner = rules.iter().filter(|rule| rule.before.is_some()).flat_map(|rule| &rule.begins);
    let inner: Vec<&[u8]> = inner.map(|begin| begin.as_bytes()).collect();
    begins.sort_unstable();
    let pairs = Pairs::of(&begins);
    let longest = begins.iter().map(|begin| begin.len()).max().unwrap_or(0);
    let mut first = [(false, false); 256];
    begins.iter().for_each(|begin| first[usize::from(begin[0])].0 = true);
    inner.iter().for_each(|begin: &&[u8]| first[usize::from(begin[0])].1 = true);
    let before = rules.iter().filter_map(|rule| Some(rule.before?.most)).max().unwrap_or(0);
    let names = rules.iter().map(|rule| rule.name).chain([private_key::NAME]);
    let markers = names.map(|name| marker(&format!("{NAME}{name}"))).collect();
    let finder =
        finder.inspect_err(|error| tracing::error!(%error, "formats cannot be searched for"));
    Formats {
        rules,
        finder: finder.ok(),
        patterns,
        begins,
        inner,
        longest,
        before,
        pairs,
        first,
        markers,
    }
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

/// The first from `at` on, with its marker; of two that begin together the longer.
pub(super) fn find(bytes: &[u8], at: usize) -> Option<(Range<usize>, &'static str)> {
    let marker = |rule: usize| FORMATS.markers.get(rule).map(String::as_str);
    let key = private_key::find(bytes, at);
    let until = key.as_ref().map_or(bytes.len(), |key| key.start);
    let rank = |(at, _): &(Range<usize>, &str)| (at.start, usize::MAX - at.end);
    let (mut from, mut first) = (at, None);
    while let Some(run) = next_run(bytes, from).filter(|run| run.start < until) {
        let found = hits(bytes, run.clone()).filter_map(|hit| {
            let (Body::Whole(value) | Body::Open(Some(value))) = hit.body(bytes) else {
                return None;
            };
            let start = if value.start > 0 { hit.end + value.start } else { hit.start };
            Some((start.max(at)..hit.end + value.end, marker(hit.rule)?))
        });
        first = first.into_iter().chain(found).min_by_key(rank);
        let is_part = run.len() == LONGEST_RUN;
        // In the next part nothing begins earlier, but for letters before the fixed ones.
        let is_first = |(at, _): &(Range<usize>, &str)| !is_part || at.start + before() < run.end;
        if first.as_ref().is_some_and(is_first) {
            return first;
        }
        // What the end of the part cuts off is in the next one.
        from = if is_part { run.end - FORMATS.longest } else { run.end };
    }
    first.or_else(|| key.and_then(|key| Some((key, marker(FORMATS.rules.len())?))))
}

/// Where the earliest from `at` on begins that the end of the bytes cuts off.
pub(super) fn unfinished(bytes: &[u8], at: usize) -> Option<usize> {
    let at = at.max(bytes.len().saturating_sub(OPEN_BYTES));
    let key = private_key::unfinished(bytes, at);
    let open = hits(bytes, open_from(bytes, at)..bytes.len())
        .filter(|hit| matches!(hit.body(bytes), Body::Open(_)))
        .map(|hit| hit.start.max(at));
    let mut last = at.max(bytes.len().saturating_sub(FORMATS.longest))..bytes.len();
    let begun = last.find(|start| is_begun(bytes, *start));
    open.chain(begun).chain(key).min()
}

/// Whether the bytes from `start` on are the first letters of a beginning that may stand there.
/// Asked for each of the last bytes of every piece of a stream: most are no first letter, or
/// stand inside a word.
fn is_begun(bytes: &[u8], start: usize) -> bool {
    let (rest, (outer, inner)) = (&bytes[start..], FORMATS.first[usize::from(bytes[start])]);
    let is_inner = || inner && FORMATS.inner.iter().any(|inner| inner.starts_with(rest));
    if !outer || !(is_edge(bytes, start) || is_inner()) {
        return false;
    }
    let next = FORMATS.begins.partition_point(|begin| *begin <= rest);
    FORMATS.begins.get(next).is_some_and(|begin| begin.starts_with(rest))
}

/// Where what reaches the end may begin: in the run there, or in the one before a gap there.
fn open_from(bytes: &[u8], at: usize) -> usize {
    let back = |end: usize, of: fn(u8) -> bool| {
        bytes[at..end].iter().rposition(|byte| !of(*byte)).map_or(at, |other| at + other + 1)
    };
    let run = back(bytes.len(), |byte| class(byte) != 0);
    back(back(run, rules::is_gap), |byte| class(byte) != 0)
}

/// The next run of letters that is long enough to hold a secret, or its first part.
fn next_run(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let mut at = from;
    while at + SHORTEST_RUN <= bytes.len() {
        let ahead = &bytes[at..at + SHORTEST_RUN];
        match ahead.iter().rposition(|byte| class(*byte) == 0) {
            Some(other) => at += other + 1,
            None => {
                let rest = bytes[at + SHORTEST_RUN..].iter().take(LONGEST_RUN - SHORTEST_RUN);
                let more = rest.take_while(|byte| class(**byte) != 0).count();
                return Some(at..at + SHORTEST_RUN + more);
            }
        }
    }
    None
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
    fn rule(&self) -> &'static FormatRule {
        &FORMATS.rules[self.rule]
    }

    fn body(&self, bytes: &[u8]) -> Body {
        let rest = &bytes[self.end..];
        let body = self.rule().body(rest);
        let (Body::Whole(value) | Body::Open(Some(value))) = &body else { return body };
        let mut seen = 0_u128;
        rest[value.clone()].iter().for_each(|byte| seen |= 1 << (byte & 0x7F));
        let is_random = (seen.count_ones() >= DISTINCT || self.fixed >= UNMISTAKABLE)
            && !rest[..value.end].ends_with(b"EXAMPLE");
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
        let count = letters.count(bytes[..at].iter().rev());
        (count >= letters.least).then(|| at - count)
    }

    /// Each part takes what it can.
    fn body(&self, rest: &[u8]) -> Body {
        let (mut at, mut last, mut value) = (0, 0, 0);
        for part in &self.parts {
            let ahead = &rest[at..];
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
                    let count = letters.count(ahead.iter());
                    at += count;
                    last = letters.classes;
                    match count < letters.least {
                        true if at == rest.len() => return Body::Open(None),
                        true => return Body::Other,
                        false if count >= LONG => return Body::Whole(value..at),
                        false => {}
                    }
                }
            }
        }
        match rest.get(at) {
            None => Body::Open(Some(value..at)),
            Some(next) if class(*next) & (rules::WORD | last) != 0 => Body::Other,
            Some(_) => Body::Whole(value..at),
        }
    }
}

impl Letters {
    fn count<'b>(&self, bytes: impl Iterator<Item = &'b u8>) -> usize {
        bytes.take(self.most).take_while(|byte| class(**byte) & self.classes != 0).count()
    }
}

/// Whether a secret may begin here: no word goes on. The last letter of an escape is none.
fn is_edge(bytes: &[u8], at: usize) -> bool {
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
