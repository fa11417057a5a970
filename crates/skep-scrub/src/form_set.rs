//! The forms of the secrets of one owner, ready to be searched for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use secrecy::{ExposeSecret, SecretString};

use crate::forms::Base64;
use crate::{Owner, SHORTEST, Secret, decode, formats, forms, marker};

/// Bytes of all forms up to which the fastest finder is made. Making that one takes the square of
/// the length of a value that repeats itself, and half a KiB for each byte; of the other it is
/// linear.
const FAST_BYTES: usize = 8 << 10;
/// Bytes of a label of a host.
const LABEL: usize = 63;
/// Bytes of a value up to which it is looked for in base64 inside base64, which more than doubles
/// what it takes to look for it.
const TWICE: usize = 256;

#[derive(Default)]
pub(super) struct FormSet {
    owner: Owner,
    /// In order, so that the beginning of one can be looked up.
    pub(super) forms: Vec<SecretString>,
    /// By form: what stands in its place.
    pub(super) markers: Vec<String>,
    /// By form.
    besides: Vec<Beside>,
    begins: FirstBytes,
    pub(super) longest: usize,
    /// Keeps copies of the forms, which cannot be wiped: they live as long as the process.
    pub(super) finder: Option<AhoCorasick>,
}

/// What letters directly beside a form mean.
#[derive(Clone, Copy)]
pub(super) enum Beside {
    Nothing,
    /// That the form is a part of a longer name, and no secret: of agents' values.
    Name,
    /// So many digits of base64 hold a part of the value too.
    Digits {
        before: usize,
        behind: usize,
    },
}

struct FirstBytes([bool; 256]);

impl Default for FirstBytes {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl FormSet {
    pub(super) fn of<'s>(owner: Owner, secrets: impl Iterator<Item = &'s Arc<Secret>>) -> Self {
        let mut by_form: BTreeMap<String, (&str, Beside)> = BTreeMap::new();
        for secret in secrets {
            let value = secret.value.expose_secret();
            for form in forms::of(value).into_iter().chain(unescaped(value)) {
                let beside = match owner == Owner::Agent && form == value {
                    true => Beside::Name,
                    false => Beside::Nothing,
                };
                by_form.entry(form).or_insert((&secret.name, beside));
            }
            let mut base64 = forms::base64(value.as_bytes());
            if owner == Owner::People && value.len() <= TWICE {
                base64.extend(forms::base64_twice(value.as_bytes()));
            }
            for Base64 { digits, before, behind } in base64 {
                let beside = Beside::Digits { before, behind };
                by_form.entry(digits).or_insert((&secret.name, beside));
            }
        }
        if by_form.is_empty() {
            return Self::default();
        }
        let mut begins = FirstBytes::default();
        by_form.keys().filter_map(|form| form.bytes().next()).for_each(|byte| {
            begins.0[usize::from(byte)] = true;
        });
        let longest = by_form.keys().map(String::len).max().unwrap_or(0);
        let fast = by_form.keys().map(String::len).sum::<usize>() <= FAST_BYTES;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind((!fast).then_some(AhoCorasickKind::ContiguousNFA))
            .build(by_form.keys())
            .inspect_err(|error| tracing::error!(%error, "secrets cannot be searched for"))
            .ok();
        let mut all = Self { owner, begins, longest, finder, ..Self::default() };
        for (form, (name, beside)) in by_form {
            all.forms.push(SecretString::from(form));
            all.markers.push(marker(name));
            all.besides.push(beside);
        }
        all
    }

    /// The first secret from `at` on; of two that begin together the longer.
    pub(super) fn find(&self, bytes: &[u8], at: usize) -> Option<(Range<usize>, &str)> {
        let mut from = at;
        loop {
            let found = self.finder.as_ref()?.find(Input::new(bytes).span(from..bytes.len()))?;
            let (number, mut range) = (found.pattern().as_usize(), found.range());
            if self.owner == Owner::Agent && is_in_host(bytes, &range) {
                from = range.end;
                continue;
            }
            match self.besides.get(number)? {
                Beside::Name if is_part_of_name(bytes, &range) => {
                    from = range.end;
                    continue;
                }
                Beside::Digits { before, behind } => {
                    range.start -= digits(bytes[at..range.start].iter().rev(), *before);
                    match digits(bytes[range.end..].iter(), *behind) {
                        0 => {}
                        more => {
                            let filled = bytes[range.end + more..].iter().take(2);
                            let filled = filled.take_while(|byte| **byte == b'=').count();
                            range.end += more + filled;
                        }
                    }
                }
                Beside::Name | Beside::Nothing => {}
            }
            return Some((range, self.markers.get(number)?));
        }
    }

    /// Where secrets stand from `at` on, one behind the other.
    pub(super) fn places(&self, bytes: &[u8], mut at: usize) -> impl Iterator<Item = Range<usize>> {
        std::iter::from_fn(move || {
            let (found, _) = self.find(bytes, at)?;
            at = found.end;
            Some(found)
        })
    }

    /// Where the earliest unfinished form begins that the rest of the bytes may be the beginning
    /// of, at least so many bytes long; their end when there is none.
    pub(super) fn unfinished(&self, bytes: &[u8], at: usize, least: usize) -> usize {
        let earliest = bytes.len().saturating_sub(self.longest.saturating_sub(1)).max(at);
        let latest = bytes.len().saturating_sub(least);
        let begins = |from: &usize| {
            let rest = &bytes[*from..];
            self.begins.0[usize::from(rest[0])] && self.is_beginning(rest)
        };
        (earliest..latest).find(begins).unwrap_or(bytes.len())
    }

    /// Whether a form begins with this and goes on after it.
    fn is_beginning(&self, rest: &[u8]) -> bool {
        self.begun(rest).is_some()
    }

    /// Whether this is the first half of a form, or more.
    pub(super) fn is_most(&self, rest: &[u8]) -> bool {
        self.begun(rest).is_some_and(|form| !rest.is_empty() && 2 * rest.len() >= form.len())
    }

    /// The form that begins with this and goes on after it.
    fn begun(&self, rest: &[u8]) -> Option<&[u8]> {
        let at = self.forms.partition_point(|form| form.expose_secret().as_bytes() <= rest);
        let form = self.forms.get(at)?.expose_secret().as_bytes();
        form.starts_with(rest).then_some(form)
    }
}

/// How many of the next bytes are digits of base64, up to so many.
fn digits<'b>(bytes: impl Iterator<Item = &'b u8>, most: usize) -> usize {
    bytes.take(most).take_while(|byte| decode::is_digit(**byte)).count()
}

/// Whether a name goes on before or behind: letters and digits, also with a dash, a dot or an
/// underscore between. Parts of ids and hosts are not looked for.
fn is_part_of_name(bytes: &[u8], at: &Range<usize>) -> bool {
    let is_joint = |byte: Option<&u8>| byte.is_some_and(|byte| b"-._".contains(byte));
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let ends = |at: usize| is_letter(bytes[..at].last()) && !formats::is_edge(bytes, at);
    let begins = |at: usize| is_letter(bytes.get(at));
    ends(at.start)
        || begins(at.end)
        || (is_joint(bytes[..at.start].last()) && ends(at.start - 1))
        || (is_joint(bytes.get(at.end)) && begins(at.end + 1))
}

/// Whether this stands in a name of several labels: a host can be chosen so that a label reads like
/// a form of a value.
fn is_in_host(bytes: &[u8], at: &Range<usize>) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_of_label = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'-';
    let (before, behind) = (&bytes[..at.start], &bytes[at.end..]);
    let start = before.iter().rev().take(LABEL).take_while(is_of_label).count();
    let before = &before[..before.len() - start];
    let behind = &behind[behind.iter().take(LABEL).take_while(is_of_label).count()..];
    (behind.first() == Some(&b'.') && is_letter(behind.get(1)))
        || (before.last() == Some(&b'.') && is_letter(before.iter().nth_back(1)))
}

/// The value with escapes taken back that it happens to hold: a text that holds it is read so too.
fn unescaped(value: &str) -> Vec<String> {
    let reading = decode::DecodeOptions { backslashes: true, inner_first: false };
    let (levels, _) = decode::levels(value, reading);
    let texts = levels.into_iter().filter_map(|level| String::from_utf8(level.bytes).ok());
    texts.filter(|text| text.len() >= SHORTEST).collect()
}
