//! A text that comes in pieces: a word waits for its end, for it may become a secret.
//!
//! Every word waits, not only one that begins as a secret does: whoever watches the pieces would
//! else learn from what waits how a secret begins, letter by letter.

use secrecy::zeroize::Zeroizing;

use super::{Ahead, Formats, Scrubber, View, decode, formats};

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

/// One running text. Whatever the pieces, no secret passes, and what passes is the whole text
/// scrubbed at once.
#[derive(Default)]
pub struct Stream {
    held: Zeroizing<String>,
    /// So much of its beginning was passed on and is done with.
    context: usize,
    formats: Formats,
    found: bool,
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
        let text = match self.held.is_empty() {
            true => piece,
            false => {
                let mut text = std::mem::take(&mut *self.held);
                text.push_str(&piece);
                text
            }
        };
        let view = table.view(&text, self.formats);
        let (passed, waits) = self.pass(&view, |from| {
            view.unfinished(from, MOST_LAG).min(view.open_word(from)).min(view.lag(from))
        });
        let from = text.floor_char_boundary(waits.saturating_sub(CONTEXT));
        text[from..].clone_into(&mut self.held);
        self.context = waits - from;
        passed
    }

    /// The text ends here: what was held back is not the beginning of anything.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        let text = std::mem::take(&mut *self.held);
        let table = scrubber.table();
        let view = table.view(&text, self.formats);
        let (passed, _) = self.pass(&view, |_| text.len());
        self.context = 0;
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

    /// The text without secrets up to where it has to wait, and where that is. `waits` tells it
    /// from a place on, and for a later one nothing earlier.
    fn pass(&mut self, view: &View<'_>, waits: impl Fn(usize) -> usize) -> (String, usize) {
        let text = view.text;
        let most = MOST_HELD.max(16 * view.table.longest);
        let mut passed = String::new();
        let (mut done, mut ahead) = (self.context, Ahead::default());
        // Before it nothing waits. It is asked for anew only behind it: a text full of secrets
        // takes no longer than another.
        let mut sure = text.len().saturating_sub(most);
        loop {
            let found = view.find(done, &mut ahead);
            let is_sure = found.is_some_and(|found| found.end <= sure);
            let waits = match is_sure {
                true => sure,
                // An escape may begin in what was passed on already.
                false => match waits(done).max(done) {
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
    /// Where the word begins, from `at` on, that the text ends with. No known value decides
    /// that, only how long they are: of a word without escapes no more waits than the longest form
    /// has, and what may stand before the value of a format.
    fn open_word(&self, at: usize) -> usize {
        let (bytes, table) = (self.text.as_bytes(), self.table);
        let most = (self.expansion() * table.longest).max(formats::before());
        // Behind escapes every letter may be a digit of base64.
        let is_digit = if self.is_plain() { decode::is_digit } else { is_of_word };
        word_start(bytes, at.max(bytes.len().saturating_sub(most)), is_digit)
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

/// Where the word begins that the bytes end with, from `at` on. A line end inside base64 is part of
/// it.
fn word_start(bytes: &[u8], at: usize, is_digit: fn(u8) -> bool) -> usize {
    let mut start = back(bytes, bytes.len(), is_of_word);
    while let Some(end) = line_end(bytes, start)
        && end > at
        && is_inside(bytes, end, is_digit)
    {
        start = back(bytes, end, is_of_word);
    }
    start.max(at)
}

/// Where the line ends whose successor begins at `start`.
fn line_end(bytes: &[u8], start: usize) -> Option<usize> {
    let end = back(bytes, start, |byte| byte.is_ascii_whitespace());
    matches!(bytes[end..start], [b'\n' | b'\r', ..]).then_some(end)
}

/// Whether the line end at `at` is left out by [`decode`]: behind enough digits of base64, those of
/// earlier lines included.
fn is_inside(bytes: &[u8], mut at: usize, is_digit: fn(u8) -> bool) -> bool {
    loop {
        let line = back(bytes, at, is_digit);
        if at - line >= decode::LINE {
            return true;
        }
        match line_end(bytes, line) {
            Some(end) => at = end,
            None => return false,
        }
    }
}

/// Where the bytes begin that are such ones up to `end`.
fn back(bytes: &[u8], end: usize, is_such: fn(u8) -> bool) -> usize {
    bytes[..end].iter().rposition(|byte| !is_such(*byte)).map_or(0, |other| other + 1)
}

/// Letters of other scripts end a word: a text without blanks would wait for its end.
pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_graphic()
}
