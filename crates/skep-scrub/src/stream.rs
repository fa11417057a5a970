//! A text that comes in pieces: a word waits for its end, for it may become a secret.
//!
//! Every word waits, not only one that begins as a secret does: whoever watches the pieces would
//! else learn from what waits how a secret begins, letter by letter.

use std::ops::Range;

use secrecy::zeroize::Zeroizing;

use super::{Ahead, Formats, Scrubber, Table, View, decode, formats};
use crate::open_word::{self, OpenWord};

/// Bytes that wait at most, or more where a secret is longer: a run of escapes without an end is
/// not the beginning of one.
const MOST_HELD: usize = 256 << 10;

/// Bytes that always wait at most, for secrets of more than one word. Of a longer one, a key file
/// say, whoever writes so many right bytes can see that they are right.
pub(super) const MOST_LAG: usize = 256;

/// So many times as long as a form is a secret in escapes, at most: `&#x000061;` has ten bytes for
/// one. What is longer passes: to wait for it would tell that it is one.
const ESCAPED: usize = 16;

/// What was passed on directly before stays to be read: digits of base64 for [`decode`], and for
/// formats what tells whether a word begins, or stands before their fixed letters.
const CONTEXT: usize = decode::LINE + 8;

/// What waits is read when it has grown by this part of its length: letter by letter it is read
/// so many times as a whole, however long it is.
const GROWN: usize = 16;
/// It is read earlier when a word may pass: up to this length always, and at any length as long
/// as no more is read in all than so many times what came.
const SHORT: usize = 512;
const PER_BYTE: usize = 64;

/// One running text. Whatever the pieces, no secret passes, and what passes is the whole text
/// scrubbed at once.
///
/// What waits is not read anew with every piece. Pieces that are read together give what they give
/// one by one, so when it is read decides only how long something waits.
#[derive(Default)]
pub struct Stream {
    held: Zeroizing<String>,
    /// So much of its beginning was passed on and is done with.
    context: usize,
    /// Where secrets stood in that.
    hidden: Vec<Range<usize>>,
    /// So much of it was there when it was read.
    read: usize,
    /// The word it ends with, followed only where a piece was not read at once.
    word: Option<OpenWord>,
    /// So far it was looked for ends of words that may pass, and whether there is one.
    checked: usize,
    has_word: bool,
    /// Bytes that may be read before their time.
    spare: usize,
    /// What waits goes on with a secret whose marker was passed on.
    rest: Option<formats::Continuation>,
    formats: Formats,
    found: bool,
}

/// Whether a text goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Here,
}

impl Stream {
    /// For the content of a file, as [`Scrubber::clean_file`].
    pub fn of_file() -> Self {
        Self { formats: Formats::Kept, ..Self::default() }
    }

    /// Takes a piece in; gives back what can be shown by now, which may be nothing.
    pub fn push(&mut self, scrubber: &Scrubber, piece: String) -> String {
        let table = scrubber.table();
        if table.is_empty() && self.formats == Formats::Kept {
            return piece;
        }
        if self.is_due(&table, piece) { self.read(&table) } else { String::new() }
    }

    /// Takes the piece in; whether the text is to be read now.
    fn is_due(&mut self, table: &Table, piece: String) -> bool {
        let (before, grown) = (self.held.len(), piece.len());
        match before {
            0 => *self.held = piece,
            _ => self.held.push_str(&piece),
        }
        let length = before + grown;
        self.spare = self.spare.saturating_add(PER_BYTE.saturating_mul(grown));
        if GROWN.saturating_mul(grown) >= length {
            return true;
        }
        let (end, is_endless) = self.may_pass(table);
        let passing = self.held.as_bytes().get(self.checked..end).unwrap_or_default();
        self.has_word |= !is_endless && !passing.iter().all(|byte| is_of_word(*byte));
        self.checked = self.checked.max(end);
        match self.has_word {
            _ if end <= self.context => false,
            true if length <= SHORT || self.spare >= length => true,
            _ => GROWN * (length - self.read) >= length,
        }
    }

    /// So far may the text pass at most: not the word it ends with while that is short enough to
    /// wait, nor what waits anyway. Escapes that were not read yet make both longer. And whether
    /// that word is longer.
    fn may_pass(&mut self, table: &Table) -> (usize, bool) {
        let bytes = self.held.as_bytes();
        let is_escaped = || decode::has_escapes(&bytes[..self.read], table.reading());
        let word = self.word.get_or_insert_with(|| OpenWord::of(is_escaped()));
        word.follow(bytes);
        let expansion = if word.is_escaped() { ESCAPED } else { 1 };
        let (start, last) =
            (word.start(), bytes.len().saturating_sub(most_of_word(table, expansion)));
        let lag = bytes.len().saturating_sub(expansion * table.lag);
        (start.max(last).min(lag), start < last)
    }

    fn read(&mut self, table: &Table) -> String {
        let mut text = std::mem::take(&mut *self.held);
        self.spare = self.spare.saturating_sub(text.len());
        let hidden = std::mem::take(&mut self.hidden);
        let view = table.view_from(&text, self.context, hidden, self.formats);
        let (passed, waits) = self.pass(&view, End::Open);
        let from = text.floor_char_boundary(waits.saturating_sub(CONTEXT));
        let kept = view.hidden.iter().filter(|at| at.start < waits && from < at.end);
        let within = |at: usize| at.clamp(from, waits) - from;
        self.hidden = kept.map(|at| within(at.start)..within(at.end)).collect();
        text.drain(..from);
        *self.held = text;
        self.context = waits - from;
        (self.read, self.checked, self.has_word) = (self.held.len(), self.context, false);
        self.word = None;
        passed
    }

    /// The text ends here: what was held back is not the beginning of anything.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        let text = std::mem::take(&mut *self.held);
        let table = scrubber.table();
        let hidden = std::mem::take(&mut self.hidden);
        let view = table.view_from(&text, self.context, hidden, self.formats);
        let (passed, _) = self.pass(&view, End::Here);
        *self = Self { formats: self.formats, found: self.found, ..Self::default() };
        passed
    }

    /// The text so far is void.
    pub fn clear(&mut self) {
        *self = Self { formats: self.formats, ..Self::default() };
    }

    /// Whether a secret was replaced since the stream began.
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// The text without secrets up to where it has to wait, and where that is.
    fn pass(&mut self, view: &View<'_>, end: End) -> (String, usize) {
        let text = view.text;
        let most = MOST_HELD.max(16 * view.table.longest);
        let mut passed = String::new();
        let (mut done, mut ahead) = (self.context, Ahead::default());
        if let Some(rest) = self.rest {
            let goes = rest.end(&view.masked, done);
            let (mut waits, mut behind) = (view.rest_waits(done, end), goes);
            while let Some(found) = view.first(done, &mut ahead).filter(|it| it.start <= behind) {
                behind = behind.max(found.end);
                done = found.end;
                if done > waits {
                    waits = waits.min(found.start);
                }
            }
            if goes == text.len() || behind >= waits {
                return (passed, waits.min(goes));
            }
            (self.rest, done) = (None, behind);
        }
        // Before it nothing waits. It is asked for anew only behind it: a text full of secrets
        // takes no longer than another.
        let mut sure = text.len().saturating_sub(most);
        loop {
            let found = view.find(done, &mut ahead);
            let is_sure = found.is_some_and(|found| found.end <= sure);
            let waits = match is_sure {
                true => sure,
                // An escape may begin in what was passed on already.
                false => match view.waits(done, end).max(done) {
                    waits if text.len() - waits <= most => waits,
                    _ => text.len(),
                },
            };
            // A secret that begins later may turn out to lie inside the one that waits or to
            // overlap with it, and one that begins at the same place to be longer.
            match found {
                Some(found) if found.end <= waits => {
                    passed.push_str(&text[done..found.start]);
                    passed.push_str(found.marker);
                    done = found.end;
                    self.found = true;
                    if waits < text.len() {
                        sure = waits;
                    }
                }
                Some(found) if found.end == text.len() && view.rest(found.start).is_some() => {
                    passed.push_str(&text[done..found.start]);
                    passed.push_str(found.marker);
                    (self.found, self.rest) = (true, view.rest(found.start));
                    return (passed, view.rest_waits(found.start, end));
                }
                found => {
                    // What names it, before its value, waits with it.
                    let named = found.map(|found| found.start.saturating_sub(formats::before()));
                    let waits = named.map_or(waits, |named| waits.min(named.max(done)));
                    let waits = text.floor_char_boundary(waits);
                    passed.push_str(&text[done..waits]);
                    return (passed, waits);
                }
            }
        }
    }
}

impl View<'_> {
    /// Where begins what has to wait, from `at` on; for a later place nothing earlier.
    fn waits(&self, at: usize, end: End) -> usize {
        let waits = self.word_waits(at, end);
        let format = (end == End::Open).then(|| self.open_format(at, waits)).flatten();
        format.map_or(waits, |format| format.min(waits))
    }

    /// The same without what looks like a secret and is longer than a word may be.
    fn word_waits(&self, at: usize, end: End) -> usize {
        match end {
            End::Open => self.unfinished(at, MOST_LAG).min(self.open_word(at)).min(self.lag(at)),
            End::Here => self.text.len(),
        }
    }

    /// What waits while a long secret goes on: enough to tell its end.
    fn rest_waits(&self, at: usize, end: End) -> usize {
        let kept = if end == End::Open { formats::CLOSING } else { 0 };
        let last = self.text.floor_char_boundary(self.text.len().saturating_sub(kept));
        self.word_waits(at, end).min(last).max(at)
    }

    /// What the secret goes on with that begins at `at` and reaches the end of the text.
    fn rest(&self, at: usize) -> Option<formats::Continuation> {
        formats::rest(&self.matches, at)
    }

    /// Where the earliest format begins, from `at` on and before the word that waits anyway, that
    /// may go on behind the text.
    fn open_format(&self, at: usize, word: usize) -> Option<usize> {
        if self.formats == Formats::Kept {
            return None;
        }
        // The beginning of an escape does not end what stands before it.
        let open = |bytes: &[u8], cut: usize, at: usize, word: usize| {
            let begun = formats::unfinished(bytes, at, word).into_iter();
            let before = (cut < bytes.len())
                .then(|| formats::unfinished(&bytes[..cut], at.min(cut), word.min(cut)));
            begun.chain(before.flatten()).min()
        };
        let deeper = self.levels.iter().filter_map(|level| {
            let line = level.last_line();
            let within = |at: usize| at.saturating_sub(line);
            let (from, until) = (within(level.from(at)), within(level.from(word)));
            let begun = open(&level.masked()[line..], within(level.cut), from, until)?;
            Some(level.start(line + begun))
        });
        deeper.chain(open(&self.masked, self.cut, at, word)).min()
    }

    /// Where the word begins, from `at` on, that the text ends with. No known value decides
    /// that, only how long they are: of a word without escapes no more waits than the longest form
    /// has, and what may stand before the value of a format.
    fn open_word(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let most = most_of_word(self.table, self.expansion());
        open_word::start(bytes, at.max(bytes.len().saturating_sub(most)), !self.is_plain())
    }

    /// Where the last bytes begin, from `at` on, that always wait.
    fn lag(&self, at: usize) -> usize {
        let start = self.text.len().saturating_sub(self.expansion() * self.table.lag);
        self.text.floor_char_boundary(start).max(at)
    }

    /// Whether nothing in the text is written as an escape.
    fn is_plain(&self) -> bool {
        self.levels.is_empty() && self.lowered.is_none() && self.cut == self.text.len()
    }

    fn expansion(&self) -> usize {
        if self.is_plain() { 1 } else { ESCAPED }
    }
}

/// So many bytes of an open word wait at most.
fn most_of_word(table: &Table, expansion: usize) -> usize {
    expansion * table.longest.max(formats::before())
}

/// Letters of other scripts end a word: a text without blanks would wait for its end.
pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
